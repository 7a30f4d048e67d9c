"""Measures of which DPS nodes are the busiest, and the arithmetic of section 5.1."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

import numpy as np

from shoal.content import AttributeFilter
from shoal.pipeline.judge.statistics import rank_correlation
from shoal.pipeline.measure.cases import Value, case
from shoal.pipeline.measure.dps_cases import Forest
from shoal.pipeline.measure.run_view import Run


def _busiest(run: Run, way: str, since: float) -> dict[float, int]:
    """Per time bin the node with the most messages of that way."""
    most: dict[float, tuple[int, int]] = {}
    for row in run.loads:
        load = row["received"] if way == "in" else row["sent"] - row["requests"]
        if row["time"] >= since and load > most.get(row["time"], (-1, -1))[0]:
            most[row["time"]] = (load, row["node"])
    return {time: node for time, (_, node) in most.items()}


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
    """That a subscriber misses an event published meanwhile, if all levels are equally likely."""
    return sum(1 for _ in combinations(range(levels), 3)) / levels**3


@case("publications", unit="0 or 1")
def includes(run: Run, wide: str, narrow: str) -> Value:
    """Whether everything that matches one filter matches another."""
    return int(AttributeFilter(wide).covers(AttributeFilter(narrow)))
