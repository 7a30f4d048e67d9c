"""Measures of what DPS nodes have to do and what arrives, and the arithmetic of section 5.1."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from statistics import fmean, median
from typing import TypeAlias

import numpy as np

from shoal.content import AttributeFilter
from shoal.pipeline.judge.statistics import rank_correlation
from shoal.pipeline.measure.cases import Value, case, mean
from shoal.pipeline.measure.dps_cases import Forest
from shoal.pipeline.measure.registry import EVER
from shoal.pipeline.measure.run_view import Run

Bins: TypeAlias = dict[float, dict[int, int]]
"""Messages per time bin and node."""
PICK: Mapping[str, Callable[[Iterable[int]], float]] = {"max": max, "median": median, "mean": fmean}


class Loads:
    """Messages that nodes got and sent, those of their own requests apart, bin by bin."""

    def __init__(self, run: Run) -> None:
        self.ways: dict[str, Bins] = {"in": {}, "out": {}}
        for row in run.loads:
            time, node = row["time"], row["node"]
            self.ways["in"].setdefault(time, {})[node] = row["received"]
            self.ways["out"].setdefault(time, {})[node] = row["sent"] - row["requests"]

    def of(self, way: str, which: str, since: float = 0.0, until: float = EVER) -> list[float]:
        """The load of the most loaded, the median or the mean node, per bin of a span."""
        bins = sorted(self.ways[way].items())
        return [PICK[which](b.values()) for time, b in bins if _between(time, since, until)]


def _between(time: float, since: float, until: float) -> bool:
    return since - 1e-6 <= time < until - 1e-6


def _ratio(above: Value, below: Value) -> Value:
    return above / below if above is not None and below else None


@case("loads", unit="messages")
def load(
    run: Run, way: str = "out", which: str = "max", since: float = 0.0, until: float = EVER
) -> Value:
    """Messages of the most loaded, median or mean node in a time bin, on average over a span."""
    return mean(run.seen_as(Loads).of(way, which, since, until))


@case("loads", unit="messages")
def load_over_time(
    run: Run, way: str = "out", which: str = "max", since: float = 0.0, until: float = EVER
) -> list[tuple[float, Value]]:
    """Messages of the most loaded, median or mean node, bin by bin; x is the time."""
    loads = run.seen_as(Loads)
    times = [round(time, 6) for time in sorted(loads.ways[way]) if _between(time, since, until)]
    return list(zip(times, loads.of(way, which, since, until), strict=True))


@case("loads", unit="ratio")
def load_growth(
    run: Run, way: str, which: str, early: tuple[float, float], late: tuple[float, float]
) -> Value:
    """The load of a late span divided by that of an early one."""
    of = run.seen_as(Loads).of
    return _ratio(mean(of(way, which, *late)), mean(of(way, which, *early)))


@case("reach", unit="ratio")
def contact_growth(run: Run, early: tuple[float, float], late: tuple[float, float]) -> Value:
    """Events that a node is sent, each counted once, in a late span divided by an early one."""
    spans = [
        [row["contacted"] for row in run.reach if _between(row["time"], *s)] for s in (late, early)
    ]
    return _ratio(mean(spans[0]), mean(spans[1]))


@case("loads", unit="ratio")
def imbalance(
    run: Run, way: str = "out", since: float = 0.0, until: float = EVER
) -> list[tuple[float, Value]]:
    """The most loaded node's messages divided by the mean, bin by bin; x is the time."""
    spans = (load_over_time(run, way, which, since, until) for which in ("max", "mean"))
    return [(time, _ratio(most, usual)) for (time, most), (_, usual) in zip(*spans, strict=True)]


@case("loads", unit="messages")
def incoming_less_outgoing(run: Run, which: str = "max", since: float = 0.0) -> Value:
    """How much more the node that receives most receives than the one that sends most sends."""
    of = run.seen_as(Loads).of
    bins = zip(of("in", which, since), of("out", which, since), strict=True)
    return mean(into - out for into, out in bins)


@case("loads", unit="ratio")
def load_gap(run: Run, way: str = "out", since: float = 0.0, until: float = EVER) -> Value:
    """The most loaded node's messages divided by the median node's."""
    of = run.seen_as(Loads).of
    return _ratio(sum(of(way, "max", since, until)), sum(of(way, "median", since, until)))


@case("loads", unit="%")
def nodes_at_end(run: Run) -> Value:
    """Nodes that are up in the last time bin, of all."""
    bins = run.seen_as(Loads).ways["out"]
    return 100 * len(bins[max(bins)]) / int(run.configuration["nodes"]) if bins else None


# What arrives


@case("reach", unit="share")
def delivery_by_window(
    run: Run, window: float = 100.0, since: float = 0.0, until: float = EVER
) -> list[tuple[float, Value]]:
    """Deliveries made of those owed to nodes that did not crash first; x is the time."""
    owed: Counter[float] = Counter()
    received: Counter[float] = Counter()
    for row in run.reach:
        start = row["time"] // window * window
        if not _between(start, since, until):
            continue
        owed[start] += row["owed"]
        received[start] += row["received"]
    return [(start, _ratio(received[start], owed[start])) for start in sorted(owed)]


# Who is the busiest


def _busiest(run: Run, way: str, since: float) -> dict[float, int]:
    """Per time bin the node with the most messages of that way."""
    bins = run.seen_as(Loads).ways[way]
    return {time: max(b, key=b.__getitem__) for time, b in bins.items() if time >= since}


@case("notes", "loads", unit="share")
def busiest_is_owner(run: Run, way: str = "in", since: float = 0.0) -> Value:
    """Time bins in which the busiest node is the owner of a tree, of all."""
    owners = {node for some in run.seen_as(Forest).owners().values() for node in some}
    busiest = _busiest(run, way, since)
    return sum(node in owners for node in busiest.values()) / len(busiest) if busiest else None


@case("notes", "loads", unit="share")
def busiest_leads_largest(run: Run, since: float = 0.0) -> Value:
    """Time bins in which the node that sends most leads a group that no other exceeds in size."""
    forest = run.seen_as(Forest)
    ahead = list(reversed(forest.joined))
    sizes: Counter[tuple[str, str]] = Counter()
    leaders: dict[tuple[str, str], int] = {}
    hits = bins = 0
    width = run.configuration["bin"]
    for time, node in sorted(_busiest(run, "out", since).items()):
        while ahead and ahead[-1][0] < time + width:
            _, _, leader, key = ahead.pop()
            if key[1]:  # members of a root are its staff
                sizes[key] += 1
                leaders[key] = leader
        largest = max(sizes.values(), default=0)
        hits += any(leaders[key] == node for key, size in sizes.items() if size == largest)
        bins += 1
    return hits / bins if bins else None


@case("notes", "loads", unit="correlation")
def early_joiners_load(run: Run) -> Value:
    """Spearman's correlation of what nodes sent with how late they joined their groups."""
    turns: dict[int, list[int]] = defaultdict(list)
    for joiners in run.seen_as(Forest).joiners().values():
        for turn, node in enumerate(joiners):
            turns[node].append(turn)
    sent: Counter[int] = Counter()
    for row in run.loads:
        sent[row["node"]] += row["sent"] - row["requests"]
    nodes = sorted(turns)
    late = np.array([sum(turns[node]) / len(turns[node]) for node in nodes])
    return rank_correlation(late, np.array([float(sent[node]) for node in nodes]))


# Section 5.1


@case("publications", unit="messages")
def most_messages(
    run: Run, sizes: list[int], traversal: str, communication: str, k: int = 2, next_level: int = 2
) -> Value:
    """The bound for a branch whose groups have these sizes, the root's first."""
    levels = len(sizes)
    if communication == "leader":
        bound = sum(sizes) + levels - 2
    else:
        bound = k * sizes[0] + k * next_level * sum(sizes[1:]) + next_level * (levels - 2)
    return bound if traversal == "root" else 2 * bound


@case("publications", unit="probability")
def miss_probability(run: Run, levels: int) -> Value:
    """Probability that a subscriber misses an event published meanwhile, levels equally likely."""
    return sum(1 for _ in combinations(range(levels), 3)) / levels**3


@case("publications", unit="0 or 1")
def includes(run: Run, wide: str, narrow: str) -> Value:
    """Whether everything that matches one filter matches another."""
    return int(AttributeFilter(wide).covers(AttributeFilter(narrow)))
