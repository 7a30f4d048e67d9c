"""What applications do: who subscribes to what, who publishes what, and when (Frey, section 7.1).

Everything is drawn from the seed before the run, whatever the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.content import AnyFilter, AttributeFilter, Attributes, FilterError, Pattern
from shoal.content.patterns import Number
from shoal.content.values import Value
from shoal.simulation.kernel import to_ns
from shoal.simulation.publications import plan_publications
from shoal.stack import Chance, StackError

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Count = Annotated[int, msgspec.Meta(ge=1, le=65_536)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Act(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One act of a hand-made script: at a time, a node does something with content.

    Content is ``patterns``, or in the filter language: ``filters`` as text for (un)subscriptions
    and advertisements, ``attributes`` for an event.
    """

    at: Seconds
    node: Annotated[int, msgspec.Meta(ge=0)]
    do: Literal["subscribe", "unsubscribe", "publish", "advertise", "unadvertise"]
    patterns: tuple[Number, ...] = ()
    filters: tuple[str, ...] = ()
    attributes: dict[str, Value] | None = None

    def __post_init__(self) -> None:
        publishes = self.do == "publish"
        if self.filters and publishes:
            raise StackError("an event has no filters; give its attributes (or its patterns)")
        if self.attributes is not None and not publishes:
            raise StackError(f"{self.do} takes filters (or patterns); attributes are an event's")
        for text in self.filters:
            try:
                AttributeFilter(text)
            except FilterError as error:
                raise StackError(f"filter '{text}': {error}") from None

    @property
    def in_words(self) -> bool:
        """Whether its content is in the filter language."""
        return bool(self.filters) or self.attributes is not None

    def wanted(self) -> list[Pattern | AttributeFilter]:
        """What a (un)subscription or advertisement is for."""
        if self.filters:
            return [AttributeFilter(text) for text in self.filters]
        return [Pattern(number) for number in self.patterns]


class ContentParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Filters and events over attributes, in place of patterns (:mod:`~shoal.simulation.contents`).

    Every node subscribes, to filters of its own; single nodes publish, one after the other.
    """

    name: Literal["dps1", "dps2", "dps3", "W1", "W4"] = "dps2"
    domain: Annotated[int, msgspec.Meta(ge=2, le=1_000_000)] = 500
    """Values of an attribute; of the DPS workloads only."""
    even: bool = True
    """Whether ranges lie anywhere in the domain alike; of the DPS workloads only."""
    attributes: Annotated[int, msgspec.Meta(ge=1, le=20)] | None = None
    """Attributes of a filter and an event, all like the first one; of the DPS workloads only."""
    zipf: Annotated[float, msgspec.Meta(ge=0, le=10)] | None = None
    """The exponent of what is not uniform; of the DPS workloads only."""
    subscriptions: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 1
    """Subscriptions of each node."""
    subscribe_every: Seconds = 0.0
    """Seconds between two subscriptions of a node; 0: all of them within the window."""
    event_every: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0
    """Seconds between two events, each published by a node drawn at random."""
    publishers: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Nodes that publish: those numbered below; all if not given."""


class WorkloadParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The defaults are those of Frey's Table 7.1."""

    patterns: Count = 96
    patterns_per_subscriber: Count = 7
    patterns_per_event: Count = 9
    subscribers: Share = 0.2
    distinct: bool = False
    """Whether the patterns of an event are all different."""
    receivers: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Choose each event's patterns so that exactly this many others want it."""
    publish_rate: Rate = 1.0
    """Events per second and dispatcher."""
    system_rate: Rate | None = None
    """Events per second of all dispatchers together, in place of ``publish_rate``."""
    publishing: Literal["periodic", "poisson"] = "periodic"
    """Once in each period of 1 / rate, or at random with that rate."""
    publish_window: tuple[Seconds, Seconds] | None = None
    """When events are published; the whole run if not given."""
    own_events: bool = True
    """Whether a publisher that wants its own event counts among its receivers."""
    subscribe_window: tuple[Seconds, Seconds] = (0.0, 1.0)
    core: Share = 1.0
    """The stable core: the share of dispatchers whose subscriptions stay as they are."""
    churn_rate: Rate = 0.0
    """(Un)subscriptions per second of each subscriber outside the core."""
    churn_window: tuple[Seconds, Seconds] = (1.0, 8.0)
    script: tuple[Act, ...] = ()
    """Explicit acts instead of the random workload."""
    content: ContentParameters | None = None
    """Filters and attributes in place of patterns."""

    def rate(self, nodes: int) -> float:
        """Events per second of each of so many dispatchers."""
        return self.publish_rate if self.system_rate is None else self.system_rate / nodes

    def __post_init__(self) -> None:
        if self.patterns_per_subscriber > self.patterns:
            raise StackError(
                f"{self.patterns_per_subscriber} patterns per subscriber cannot be distinct "
                f"among {self.patterns}; raise patterns or lower patterns_per_subscriber"
            )
        if self.distinct and self.patterns_per_event > self.patterns:
            raise StackError(
                f"{self.patterns_per_event} patterns per event cannot be distinct among "
                f"{self.patterns}; raise patterns or lower patterns_per_event"
            )
        if any(act.patterns for act in self.script) and any(act.in_words for act in self.script):
            raise StackError("a script has patterns, or filters and attributes, not both")
        if self.receivers is not None and self.churn_rate:
            raise StackError("a fixed number of receivers needs churn_rate = 0")
        for name in ("subscribe_window", "churn_window", "publish_window"):
            start, end = getattr(self, name) or (0.0, 0.0)
            if start > end:
                raise StackError(f"{name} ends before it starts; give [{end:g}, {start:g}]")


@dataclass
class Workload:
    """What will be done, in order of time."""

    core: set[int] = field(default_factory=set)
    subscriptions: list[tuple[int, int, AnyFilter, bool]] = field(default_factory=list)
    """(instant, node, filter, True to subscribe)."""
    advertisements: list[tuple[int, int, AnyFilter, bool]] = field(default_factory=list)
    """(instant, node, filter, True to advertise)."""
    times: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    publishers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    numbers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """The patterns of all events, one event after the other."""
    ends: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Where the patterns of each event end in ``numbers``."""
    attributes: dict[int, Attributes] = field(default_factory=dict)
    """The content of those events that have attributes instead of patterns."""

    def by_number(self) -> list[tuple[int, int, int, bool]]:
        """The subscriptions to patterns, by number; not those in the filter language."""
        return [
            (at, node, wanted.number, subscribe)
            for at, node, wanted, subscribe in self.subscriptions
            if isinstance(wanted, Pattern)
        ]

    def content(self, event: int) -> tuple[int, ...]:
        """The patterns of one event."""
        start = int(self.ends[event - 1]) if event else 0
        return tuple(self.numbers[start : int(self.ends[event])].tolist())


def plan_workload(
    parameters: WorkloadParameters, nodes: int, duration: float, seed: int, advertised: bool = False
) -> Workload:
    """Draw a workload; if events are to be advertised, every node advertises every pattern."""
    if parameters.script:
        return _scripted(parameters, nodes)
    if parameters.content is not None:
        return _contents(parameters, nodes, duration, seed)
    core = set(
        Chance(seed, "core").sample(range(nodes), round(parameters.core * nodes))
        if parameters.core < 1
        else range(nodes)
    )
    workload = Workload(core)
    _plan_subscriptions(workload, parameters, nodes, duration, seed)
    plan_publications(workload, parameters, nodes, duration, seed)
    if advertised and len(workload.times):
        patterns = [Pattern(number) for number in range(parameters.patterns)]
        workload.advertisements = [(0, node, p, True) for node in range(nodes) for p in patterns]
    return workload


def _contents(parameters: WorkloadParameters, nodes: int, duration: float, seed: int) -> Workload:
    """Filters and events over attributes."""
    content = parameters.content
    assert content is not None
    # Here, as Arrow takes a while to load, and most workloads do without.
    from shoal.simulation.contents import WORKLOADS, Dps

    drawn = replace(WORKLOADS[content.name], seed=seed)
    if isinstance(drawn, Dps):
        drawn = replace(drawn, domain=content.domain, even=content.even)
        drawn = drawn.reshaped(content.attributes, content.zipf)
    workload = Workload(set(range(nodes)))
    start, end = parameters.subscribe_window
    when = Chance(seed, "subscription times")
    filters = drawn.texts(nodes * content.subscriptions)
    for turn in range(content.subscriptions):
        for node in range(nodes):
            at = start + when.uniform(node, turn) * (end - start)
            if content.subscribe_every:
                at = start + (turn + when.uniform(node)) * content.subscribe_every
            filter = AttributeFilter(next(filters))
            workload.subscriptions.append((to_ns(at), node, filter, True))
    end_of_run = to_ns(duration)
    workload.subscriptions = sorted(
        (s for s in workload.subscriptions if s[0] < end_of_run), key=lambda s: s[:2]
    )
    first, last = parameters.publish_window or (0.0, duration)
    count = max(0, ceil((min(last, duration) - first) / content.event_every))
    workload.times = np.array(
        [to_ns(first + k * content.event_every) for k in range(count)], np.int64
    )
    who = Chance(seed, "publishers")
    able = min(content.publishers or nodes, nodes)
    workload.publishers = np.array([who.below(able, k) for k in range(count)], np.int64)
    workload.ends = np.zeros(count, np.int64)
    workload.attributes = {k: Attributes(values) for k, values in enumerate(drawn.contents(count))}
    return workload


def _scripted(parameters: WorkloadParameters, nodes: int) -> Workload:
    """A hand-made workload."""
    workload = Workload(set(range(nodes)))
    published: list[Act] = []
    for act in parameters.script:
        at = to_ns(act.at)
        if act.do == "publish":
            published.append(act)
        else:
            acts = workload.subscriptions if act.do.endswith("scribe") else workload.advertisements
            starts = not act.do.startswith("un")
            acts += [(at, act.node, wanted, starts) for wanted in act.wanted()]
    workload.subscriptions.sort(key=lambda s: s[0])
    workload.advertisements.sort(key=lambda s: s[0])
    published.sort(key=lambda act: to_ns(act.at))
    workload.times = np.array([to_ns(act.at) for act in published], np.int64)
    workload.publishers = np.array([act.node for act in published], np.int64)
    workload.numbers = np.array([n for act in published for n in act.patterns], np.int64)
    workload.ends = np.cumsum([len(act.patterns) for act in published], dtype=np.int64)
    workload.attributes = {
        event: Attributes(dict(act.attributes))
        for event, act in enumerate(published)
        if act.attributes is not None
    }
    return workload


def _plan_subscriptions(
    workload: Workload, parameters: WorkloadParameters, nodes: int, duration: float, seed: int
) -> None:
    """Draw subscribers, the same share of the core and of the others; only the others go on."""
    chance = Chance(seed, "subscribers")
    groups = [sorted(workload.core), sorted(set(range(nodes)) - workload.core)]
    subscribers: list[int] = []
    for number, group in enumerate(groups):
        subscribers += chance.sample(group, round(parameters.subscribers * len(group)), number)
    start, end = parameters.subscribe_window
    what, when = Chance(seed, "subscriptions"), Chance(seed, "subscription times")
    patterns = [Pattern(number) for number in range(parameters.patterns)]
    plan: list[tuple[int, int, AnyFilter, bool]] = []
    for node in subscribers:
        held = what.sample(patterns, parameters.patterns_per_subscriber, node)
        for i, pattern in enumerate(held):
            plan.append((to_ns(start + when.uniform(node, i) * (end - start)), node, pattern, True))
        if node not in workload.core and parameters.churn_rate:
            plan += _churn(parameters, held, patterns, node, seed)
    end_of_run = to_ns(duration)
    workload.subscriptions = sorted((s for s in plan if s[0] < end_of_run), key=lambda s: s[:2])


def _churn(
    parameters: WorkloadParameters,
    held: list[Pattern],
    patterns: list[Pattern],
    node: int,
    seed: int,
) -> list[tuple[int, int, AnyFilter, bool]]:
    """A subscriber drops a pattern and takes another, in turn, so that it keeps about as many."""
    chance = Chance(seed, "churn")
    start, end = parameters.churn_window
    start = max(start, parameters.subscribe_window[1])
    plan: list[tuple[int, int, AnyFilter, bool]] = []
    now = list(held)
    for k in range(ceil((end - start) * parameters.churn_rate)):
        at = to_ns(start + (k + chance.uniform(node, k, 0)) / parameters.churn_rate)
        if at >= to_ns(end):
            break
        if k % 2 == 0 and now:
            dropped = now.pop(chance.below(len(now), node, k, 1))
            plan.append((at, node, dropped, False))
        else:
            free = [p for p in patterns if p not in now]
            if free:
                taken = free[chance.below(len(free), node, k, 2)]
                now.append(taken)
                plan.append((at, node, taken, True))
    return plan
