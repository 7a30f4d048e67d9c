"""Churn: who is up when.

A node's *session* lasts from a start to a crash or, in good order, a leave; a node may have many.
Sessions are drawn from a model, read from a recording, or given one by one. All models are one
process: nodes that are down start at random instants, at such a rate that on average a share ``up``
of all nodes is up; the model says how long a session lasts.

=============  ===================================================================================
model          sessions
=============  ===================================================================================
exponential    of a mean length, without memory
lognormal      of a mean and a median length: many short ones, a few very long
gnutella       lognormal, mean 2.3 h, median 1 h; 1,300 to 2,700 of every 17,125 nodes are up, more
               by day than by night (the figures published on Gnutella's hosts, as a model)
recorded       of a file (:mod:`~shoal.simulation.churn_files`)
given          listed in the configuration
=============  ===================================================================================

Changes are made one at a time as a run goes on, so memory grows with the nodes, not with the hours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import takewhile
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from shoal.simulation.churn_files import Session, read_events, read_sessions
from shoal.stack import Chance, StackError

Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Length = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
What: TypeAlias = Literal["start", "leave", "crash"]

HOUR = 3600.0
DAY = 24 * HOUR


class Change(NamedTuple):
    """A node starts, leaves in good order, or crashes."""

    at: float
    node: int
    what: What


class _Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="model"):
    """What every model may be told."""

    leaving: Share = 0.0
    """Share of the sessions that end in good order; the others end in a crash."""
    until: Seconds = 1e9
    """Seconds after which no session starts or ends any more."""


class Exponential(_Model, frozen=True, tag="exponential"):
    """Sessions without memory."""

    up: Share = 0.5
    """Share of the nodes that is up on average."""
    mean: Length = HOUR
    """Mean length of a session, in seconds."""


class Lognormal(_Model, frozen=True, tag="lognormal"):
    """Many short sessions, a few very long ones."""

    up: Share = 0.5
    """Share of the nodes that is up on average."""
    mean: Length = 2.3 * HOUR
    """Mean length of a session, in seconds."""
    median: Length = HOUR
    """Median length of a session, in seconds."""

    def __post_init__(self) -> None:
        if self.median >= self.mean:
            raise StackError(
                f"churn: the median of lognormal sessions ({self.median:g} s) lies below their "
                f"mean ({self.mean:g} s); give a smaller median"
            )


class Gnutella(_Model, frozen=True, tag="gnutella"):
    """The published figures of Gnutella's hosts, scaled to the number of nodes."""


class Recorded(_Model, frozen=True, tag="recorded"):
    """Sessions that somebody recorded."""

    file: str = ""
    format: Literal["sessions", "fta"] = "sessions"
    """``sessions``: CSV with a start and an end per session; ``fta``: an event table of the Failure
    Trace Archive (``event_trace.tab``)."""
    start: Seconds = 0.0
    """Second of the recording at which the run starts."""


class Listed(_Model, frozen=True, tag="given"):
    """Sessions listed one by one: node, start and, unless it lasts for ever, end."""

    sessions: tuple[tuple[int, Seconds, Seconds | None], ...] = ()


Churn: TypeAlias = Exponential | Lognormal | Gnutella | Recorded | Listed


def changes(churn: Churn, nodes: int, seed: int, joining: float) -> Iterator[Change]:
    """All changes in order of time; who is up from the beginning starts while others join."""
    if isinstance(churn, Recorded | Listed):
        found = _sessions(churn, nodes)
        made = _play(found, churn.leaving, Chance(seed, "churn"), joining)
    else:
        made = _Process(churn, nodes, Chance(seed, "churn"), joining).changes()
    return takewhile(lambda change: change.at <= churn.until, made)


# Recorded and given sessions


def _sessions(churn: Recorded | Listed, nodes: int) -> list[Session]:
    """The sessions of a run, from its start on; nodes numbered from 0."""
    if isinstance(churn, Listed):
        found = [Session(n, s, math.inf if end is None else end) for n, s, end in churn.sessions]
        check_sessions(found, "churn.sessions")
        for session in found:
            if not 0 <= session.node < nodes:
                raise StackError(
                    f"churn.sessions: there is no node {session.node}; nodes are 0 to {nodes - 1}"
                )
        return found
    read = read_events if churn.format == "fta" else read_sessions
    numbers: dict[int, int] = {}
    found = []
    for node, start, end in read(Path(churn.file)):
        if end > churn.start:
            number = numbers.setdefault(node, len(numbers))
            found.append(Session(number, max(0.0, start - churn.start), end - churn.start))
    if not found:
        raise StackError(f"{churn.file}: nobody is up after second {churn.start:g} (churn.start)")
    if len(numbers) > nodes:
        raise StackError(
            f"{churn.file} has sessions of {len(numbers):,} nodes after second {churn.start:g}; "
            f"give nodes = {len(numbers)}"
        )
    return found


def check_sessions(sessions: Iterable[Session], where: str) -> None:
    """Refuse sessions that end before they start, are out of order, or overlap."""
    last: dict[int, float] = {}
    for node, start, end in sessions:
        if end <= start:
            raise StackError(
                f"{where}: a session of node {node} ends at {end:g} s, but starts at {start:g} s"
            )
        if start < last.get(node, -math.inf):
            raise StackError(
                f"{where}: the session of node {node} at {start:g} s starts before its previous "
                f"one has ended, at {last[node]:g} s; list a node's sessions in order of time"
            )
        last[node] = end


def _play(
    sessions: list[Session], leaving: float, chance: Chance, joining: float
) -> Iterator[Change]:
    first = [i for i, session in enumerate(sessions) if session.start <= 0]
    step = joining / max(len(first) - 1, 1)
    starts = {i: min(place * step, sessions[i].end / 2) for place, i in enumerate(first)}
    ends: list[tuple[float, int, What]] = []
    order = sorted(range(len(sessions)), key=lambda i: (starts.get(i, sessions[i].start), i))
    for i in order:
        node, _, end = sessions[i]
        start = starts.get(i, sessions[i].start)
        while ends and ends[0][0] <= start:
            yield Change(*heappop(ends))
        yield Change(start, node, "start")
        heappush(ends, (end, node, _how(leaving, chance, i)))
    while ends and ends[0][0] < math.inf:
        yield Change(*heappop(ends))


def _how(leaving: float, chance: Chance, session: int) -> What:
    return "leave" if chance.uniform(0, session) < leaving else "crash"


# Models


class _Process:
    """Nodes that are down start at random instants; each session has a length of its own."""

    def __init__(
        self, churn: Exponential | Lognormal | Gnutella, nodes: int, chance: Chance, joining: float
    ) -> None:
        self.nodes = nodes
        self.chance = chance
        self.leaving = churn.leaving
        self.joining = joining
        self.swing = 0.0
        """Amplitude of the number of nodes that are up, in nodes; its period is a day."""
        if isinstance(churn, Gnutella):
            self.mean, median = 2.3 * HOUR, HOUR
            self.up = 2000 / 17125 * nodes
            self.swing = 700 / 17125 * nodes
        elif isinstance(churn, Lognormal):
            self.mean, median = churn.mean, churn.median
            self.up = churn.up * nodes
        else:
            self.mean, median = churn.mean, 0.0
            self.up = churn.up * nodes
        self.sigma = math.sqrt(2 * math.log(self.mean / median)) if median else 0.0
        """Spread of the logarithm of lengths; 0 for exponential ones."""
        self.mu = math.log(median) if median else 0.0
        self.gain, self.lag = self._response() if self.swing else (1.0, 0.0)

    def _response(self) -> tuple[float, float]:
        """How the number of nodes that are up follows a start rate that swings once a day.

        Sessions outlast their start, so the number swings less than the rate, and later.
        """
        length = np.geomspace(1.0, 1000 * HOUR, 20_000)
        z = (np.log(length) - self.mu) / self.sigma
        survive = np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in z.tolist()])
        wave = survive * np.exp(-2j * math.pi * length / DAY)
        response = complex(np.trapezoid(wave, length)) + 1.0  # up to one second all survive
        return abs(response), -math.atan2(response.imag, response.real) * DAY / (2 * math.pi)

    def rate(self, at: float) -> float:
        """Starts per second."""
        wave = math.sin(2 * math.pi * (at + self.lag) / DAY) if self.swing else 0.0
        return max(0.0, self.up / self.mean + self.swing / self.gain * wave)

    def length(self, number: int, under_way: bool) -> float:
        """How long a session lasts; one that is under way is a longer one, cut at random."""
        uniform = self.chance.uniform(1, number, int(under_way))
        if not self.sigma:
            return -self.mean * math.log1p(-uniform)
        normal = NormalDist().inv_cdf(min(max(uniform, 1e-15), 1 - 1e-15))
        if not under_way:
            return math.exp(self.mu + self.sigma * normal)
        whole = math.exp(self.mu + self.sigma**2 + self.sigma * normal)
        return whole * (1 - self.chance.uniform(2, number))

    def changes(self) -> Iterator[Change]:
        """Starts and ends of sessions in order of time, without end."""
        down = self.chance.sample(range(self.nodes), self.nodes, 3)
        first = min(round(self.up), self.nodes)
        step = self.joining / max(first - 1, 1)
        ends: list[tuple[float, int, What]] = []
        for place in range(first):
            node = down.pop()
            how = _how(self.leaving, self.chance, place)
            ends.append((place * step + self.length(place, True), node, how))
        yield from self._begin(ends, step)
        highest = self.up / self.mean + self.swing / self.gain
        session, draw, at = first, 0, 0.0
        while highest:
            draw += 1
            at -= math.log1p(-self.chance.uniform(4, draw)) / highest
            if self.chance.uniform(5, draw) * highest >= self.rate(at) or at < self.joining:
                continue
            while ends and ends[0][0] <= at:
                end = heappop(ends)
                down.append(end[1])
                yield Change(*end)
            if down:
                place = self.chance.below(len(down), 6, draw)
                down[place], down[-1] = down[-1], down[place]
                node = down.pop()
                yield Change(at, node, "start")
                how = _how(self.leaving, self.chance, session)
                heappush(ends, (at + self.length(session, False), node, how))
                session += 1

    def _begin(self, ends: list[tuple[float, int, What]], step: float) -> Iterator[Change]:
        """Who is up at first starts, one after the other; nobody ends before all have."""
        for place, (end, node, how) in enumerate(ends):
            yield Change(place * step, node, "start")
            ends[place] = (max(end, self.joining), node, how)
        heapify(ends)
