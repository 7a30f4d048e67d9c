"""What applications do: who subscribes to what, who publishes what, and when (Frey, section 7.1).

Everything is drawn from the seed before the run, whatever the protocol. Each publisher publishes
once per period of ``1 / publish_rate``, at a random instant within it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from shoal.content import Pattern
from shoal.content.patterns import Number
from shoal.simulation.draws import uniform_array
from shoal.simulation.kernel import to_ns
from shoal.stack import Chance, StackError

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Count = Annotated[int, msgspec.Meta(ge=1, le=65_536)]
Rate = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Act(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One act of a hand-made script: at a time, a node does something with patterns."""

    at: Seconds
    node: Annotated[int, msgspec.Meta(ge=0)]
    do: Literal["subscribe", "unsubscribe", "publish", "advertise", "unadvertise"]
    patterns: tuple[Number, ...]


class WorkloadParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The defaults are those of Frey's Table 7.1."""

    patterns: Count = 96
    patterns_per_subscriber: Count = 7
    patterns_per_event: Count = 9
    subscribers: Share = 0.2
    publish_rate: Rate = 1.0
    """Events per second and dispatcher."""
    subscribe_window: tuple[Seconds, Seconds] = (0.0, 1.0)
    core: Share = 1.0
    """The stable core: the share of dispatchers whose subscriptions stay as they are."""
    churn_rate: Rate = 0.0
    """(Un)subscriptions per second of each subscriber outside the core."""
    churn_window: tuple[Seconds, Seconds] = (1.0, 8.0)
    script: tuple[Act, ...] = ()
    """Explicit acts instead of the random workload."""

    def __post_init__(self) -> None:
        if self.patterns_per_subscriber > self.patterns:
            raise StackError(
                f"{self.patterns_per_subscriber} patterns per subscriber cannot be distinct "
                f"among {self.patterns}; raise patterns or lower patterns_per_subscriber"
            )
        for name in ("subscribe_window", "churn_window"):
            start, end = getattr(self, name)
            if start > end:
                raise StackError(f"{name} ends before it starts; give [{end:g}, {start:g}]")


@dataclass
class Workload:
    """What will be done, in order of time."""

    core: set[int] = field(default_factory=set)
    subscriptions: list[tuple[int, int, Pattern, bool]] = field(default_factory=list)
    """(instant, node, pattern, True to subscribe)."""
    advertisements: list[tuple[int, int, Pattern, bool]] = field(default_factory=list)
    """(instant, node, pattern, True to advertise)."""
    times: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    publishers: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    contents: list[tuple[int, ...]] = field(default_factory=list)


def plan_workload(
    parameters: WorkloadParameters,
    nodes: int,
    duration: float,
    seed: int,
    advertised: bool = False,
) -> Workload:
    """Draw a workload; if events are to be advertised, every node advertises every pattern."""
    if parameters.script:
        return _scripted(parameters, nodes)
    core = set(
        Chance(seed, "core").sample(range(nodes), round(parameters.core * nodes))
        if parameters.core < 1
        else range(nodes)
    )
    workload = Workload(core)
    _plan_subscriptions(workload, parameters, nodes, duration, seed)
    _plan_publications(workload, parameters, nodes, duration, seed)
    if advertised and len(workload.times):
        patterns = [Pattern(number) for number in range(parameters.patterns)]
        workload.advertisements = [(0, node, p, True) for node in range(nodes) for p in patterns]
    return workload


def _scripted(parameters: WorkloadParameters, nodes: int) -> Workload:
    """A hand-made workload."""
    workload = Workload(set(range(nodes)))
    published: list[tuple[int, int, tuple[int, ...]]] = []
    for act in parameters.script:
        at = to_ns(act.at)
        if act.do == "publish":
            published.append((at, act.node, act.patterns))
        else:
            acts = workload.subscriptions if act.do.endswith("scribe") else workload.advertisements
            starts = not act.do.startswith("un")
            acts += [(at, act.node, Pattern(p), starts) for p in act.patterns]
    workload.subscriptions.sort(key=lambda s: s[0])
    workload.advertisements.sort(key=lambda s: s[0])
    published.sort(key=lambda p: p[0])
    workload.times = np.array([p[0] for p in published], np.int64)
    workload.publishers = np.array([p[1] for p in published], np.int64)
    workload.contents = [p[2] for p in published]
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
    plan: list[tuple[int, int, Pattern, bool]] = []
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
) -> list[tuple[int, int, Pattern, bool]]:
    """A subscriber drops a pattern and takes another, in turn, so that it keeps about as many."""
    chance = Chance(seed, "churn")
    start, end = parameters.churn_window
    start = max(start, parameters.subscribe_window[1])
    plan: list[tuple[int, int, Pattern, bool]] = []
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


def _plan_publications(
    workload: Workload, parameters: WorkloadParameters, nodes: int, duration: float, seed: int
) -> None:
    """Times and contents of all events, drawn as arrays."""
    rate = parameters.publish_rate
    periods = ceil(duration * rate)  # the last one may go beyond the end
    if not periods:
        return
    node = np.repeat(np.arange(nodes, dtype=np.uint64), periods)
    k = np.tile(np.arange(periods, dtype=np.uint64), nodes)
    phase = uniform_array(seed, "publication times", node, k)
    times = np.rint((k + phase) / rate * 1e9).astype(np.int64)
    order = np.lexsort((node, times))
    order = order[times[order] < to_ns(duration)]
    each = np.arange(parameters.patterns_per_event, dtype=np.uint64)[:, None]
    drawn = uniform_array(seed, "publications", node[order], k[order], each)
    numbers = (drawn * parameters.patterns).astype(np.int64)
    workload.times = times[order]
    workload.publishers = node[order].astype(np.int64)
    workload.contents = list(zip(*numbers.tolist(), strict=True))
