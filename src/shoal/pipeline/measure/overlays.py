"""Measures of overlays that build trees (Frey, chapters 10 and 11), from one run's links and notes.

The run is played through once: who is up, whose parent is whose, and what became of every orphan.
Nodes that leave or crash are *failures*; a child of one is its *orphan*, the parent its
*grandparent*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from shoal.pipeline.judge.statistics import rank_correlation
from shoal.pipeline.measure.cases import Value, case, mean, percentile_of
from shoal.pipeline.measure.run_view import Run, neighbours_of
from shoal.simulation.topology import distances


@dataclass
class Failure:
    """A node that failed, and the orphans it left behind."""

    at: float
    node: int
    grandparent: int | None
    orphans: set[int]
    left: set[int] = field(default_factory=set)
    """Orphans that have not found a parent yet."""
    links: int = 0
    """Links that orphans made until the next failure."""
    area: float | None = None
    """Links between all orphans and the grandparent once they are attached, per orphan."""


class Played:
    """Tree of one run, played through its links: failures, joins, attachments, cycles."""

    def __init__(self, run: Run) -> None:
        self.parent: dict[int, int] = {}
        self.up: set[int] = set()
        self.failures: list[Failure] = []
        self.joins: list[int] = []
        """Links that each life of a node made by joining."""
        self.reattached: list[tuple[str, float]] = []
        """Strategy and delay of every orphan's attachment."""
        self.cycles = 0
        self.roots = 0
        """Nodes that declared themselves root after they had lost a parent."""
        self._life: dict[int, int] = {}
        """Per node the place of its last life in ``joins``."""
        self._children: dict[int, set[int]] = {}
        self._of: dict[int, Failure] = {}
        """Per orphan the failure that made it one."""
        for note in sorted(run.notes, key=lambda note: float(note["time"])):
            self._play(note)
        near = neighbours_of(link for link in run.final_links if self.up.issuperset(link))
        self.links = {node: near[node] for node in self.up}

    def _play(self, note: Any) -> None:
        node, what = int(note["node"]), note["what"]
        if what == "node up":
            self.up.add(node)
            self._life[node] = len(self.joins)
            self.joins.append(0)
        elif what == "node down":
            self._down(node, float(note["time"]))
        elif what == "parent lost":
            self._part(node)
        elif what == "attached":
            self._attach(node, int(note["peer"]), note["value"].split())
        elif what == "root" and note["value"] == "lost":
            self.roots += 1

    def _down(self, node: int, at: float) -> None:
        self.up.discard(node)
        orphans = {child for child in self._children.pop(node, ()) if child in self.up}
        failure = Failure(at, node, self.parent.get(node), orphans, set(orphans))
        self._part(node)
        self.failures.append(failure)
        for orphan in orphans:
            self._of[orphan] = failure
        mine = self._of.pop(node, None)
        if mine is not None:  # an orphan that went before it found a parent
            mine.orphans.discard(node)
            mine.left.discard(node)

    def _part(self, node: int) -> None:
        parent = self.parent.pop(node, None)
        if parent is not None:
            self._children.get(parent, set()).discard(node)

    def _attach(self, node: int, parent: int, words: Sequence[str]) -> None:
        cause, strategy, took = words[0], words[1], float(words[2])
        self._part(node)
        self.parent[node] = parent
        self._children.setdefault(parent, set()).add(node)
        if any(ancestor == node for ancestor in self._ancestors(parent)):
            self.cycles += 1
        if cause == "lost":
            self.reattached.append((strategy, took))
            if self.failures:
                self.failures[-1].links += 1
        if cause == "join" and node in self._life:
            self.joins[self._life[node]] += 1
        failure = self._of.pop(node, None)
        if failure is not None:
            failure.left.discard(node)
            if not failure.left:
                failure.area = self._area(failure)

    def _ancestors(self, node: int) -> Iterable[int]:
        for _ in range(len(self.parent) + 1):
            yield node
            if node not in self.parent:
                return
            node = self.parent[node]

    def _area(self, failure: Failure) -> float | None:
        """The specific reconfiguration area (Frey, section 10.4.2)."""
        if failure.grandparent is None or failure.grandparent not in self.up:
            return None
        above = list(self._ancestors(failure.grandparent))
        links: set[tuple[int, int]] = set()
        for orphan in failure.orphans:
            way: list[int] = []
            for ancestor in self._ancestors(orphan):
                if ancestor in above:
                    meeting = above.index(ancestor)
                    links.update(pairwise([*way, ancestor]))
                    links.update(pairwise(above[: meeting + 1]))
                    break
                way.append(ancestor)
            else:
                return None  # in another tree
        return len(links) / len(failure.orphans)


# The tree


@case("links", "notes", unit="cycles")
def parent_cycles(run: Run) -> Value:
    """Attachments that closed a cycle of parents."""
    return run.seen_as(Played).cycles


@case("links", "notes", unit="trees")
def forest_size(run: Run) -> Value:
    """Trees among the nodes that are up at the end."""
    return len(_trees(run))


def _trees(run: Run) -> list[set[int]]:
    """The nodes of each tree at the end."""
    links, seen = run.seen_as(Played).links, set[int]()
    found = []
    for node in links:
        if node not in seen:
            found.append(set(distances(links, node)))
            seen |= found[-1]
    return found


@case("links", "notes", unit="0 or 1")
def split(run: Run) -> Value:
    """1 if the overlay ends in more than one tree."""
    return float(len(_trees(run)) > 1)


@case("links", "notes", unit="nodes")
def nodes_up(run: Run) -> Value:
    """Nodes that are up at the end."""
    return len(run.seen_as(Played).up)


@case("links", "notes", unit="links")
def top_degree(run: Run) -> Value:
    """The most neighbours that a node has at the end."""
    return max((len(linked) for linked in run.seen_as(Played).links.values()), default=None)


@case("links", "notes", unit="share")
def share_of_degree(run: Run, degree: int, more: bool = False) -> Value:
    """Share of the nodes that have so many neighbours at the end, or more than so many."""
    degrees = [len(linked) for linked in run.seen_as(Played).links.values()]
    return mean(d > degree if more else d == degree for d in degrees)


@case("links", "notes", unit="links")
def overlay_diameter(run: Run) -> Value:
    """The longest path of the greatest tree at the end."""
    links = run.seen_as(Played).links
    if not links:
        return None
    largest = max(_trees(run), key=len)
    hops = distances(links, min(largest))
    farthest = max(hops, key=lambda node: (hops[node], node))
    return max(distances(links, farthest).values())


@case("links", "notes", unit="links")
def mean_distance(run: Run) -> Value:
    """Links between two nodes of the tree at the end, on average over every 20th node's ways."""
    links = run.seen_as(Played).links
    starts = sorted(links)[::20]
    return mean(hops for start in starts for hops in distances(links, start).values() if hops)


@case("links", "notes", unit="correlation")
def degree_and_depth(run: Run) -> Value:
    """Rank correlation of the distance from the root and the mean degree there, at the end."""
    found = run.seen_as(Played)
    degrees: dict[int, list[int]] = {}
    for root in (node for node in found.up if node not in found.parent):
        for node, hops in distances(found.links, root).items():
            degrees.setdefault(hops, []).append(len(found.links[node]))
    means = [sum(d) / len(d) for _, d in sorted(degrees.items()) if len(d) >= 5]
    if len(means) < 3:
        return None
    return rank_correlation(np.arange(len(means), dtype=np.float64), np.array(means))


# Repairs


@case("links", "notes", unit="share")
def strategy_share(run: Run, strategy: str) -> Value:
    """Share of the orphans whose new parent came from one strategy (by its letter)."""
    return mean(how == strategy for how, _ in run.seen_as(Played).reattached)


@case("links", "notes", unit="share")
def strategy_lead(run: Run, strategy: str) -> Value:
    """Share of the orphans that one strategy served, less the share of the next best one."""
    served = Counter(how for how, _ in run.seen_as(Played).reattached)
    if not served:
        return None
    mine = served.pop(strategy, 0)
    others = max(served.values(), default=0)
    return (mine - others) / (mine + served.total())


@case("links", "notes", unit="s")
def repair_delay(run: Run, percentile: float = 0.95) -> Value:
    """Seconds from the loss of a parent to a new one, at a percentile; 1 is the longest."""
    return percentile_of([took for _, took in run.seen_as(Played).reattached], percentile)


@case("links", "notes", unit="s")
def mean_repair_delay(run: Run) -> Value:
    """Seconds from the loss of a parent to a new one, on average."""
    return mean(took for _, took in run.seen_as(Played).reattached)


def _areas(run: Run) -> list[float]:
    return [f.area for f in run.seen_as(Played).failures if f.orphans and f.area is not None]


@case("links", "notes", unit="links")
def specific_area(run: Run, percentile: float | None = None) -> Value:
    """Links between the orphans of a node and its parent after the repair, per orphan.

    The mean over failures, or a percentile.
    """
    areas = _areas(run)
    if percentile is not None:
        return percentile_of(areas, percentile)
    return mean(areas)


@case("links", "notes", unit="share")
def share_of_small_areas(run: Run, most: float = 1.0) -> Value:
    """Share of the failures whose specific area is at most so large."""
    return mean(area <= most + 1e-9 for area in _areas(run))


@case("links", "notes", unit="links")
def links_beyond_orphans(run: Run) -> Value:
    """By how many links at most a repair differs from one per orphan; roots' failures apart."""
    found = [f for f in run.seen_as(Played).failures if f.grandparent is not None]
    return max((abs(f.links - len(f.orphans)) for f in found), default=None)


@case("links", "notes", unit="links")
def links_per_join(run: Run) -> Value:
    """The most links that one node made by joining."""
    return max(run.seen_as(Played).joins, default=None)


# Traffic


@case("traffic", "notes", unit="messages/s")
def traffic_per_node(
    run: Run, since: float = 0.0, until: float = 1e9, busiest: bool = True
) -> Value:
    """The overlay's messages per node and second, in the busiest bin of a span or in all of it."""
    rates = [rate for _, rate in _traffic(run, since, until)]
    return max(rates, default=None) if busiest else mean(rates)


@case("traffic", "notes", unit="messages/s")
def traffic_per_node_over_time(run: Run) -> Iterable[tuple[float, Value]]:
    """The overlay's messages per node that is up and second, bin by bin; x is the time."""
    return _traffic(run, 0.0, 1e9)


def _traffic(run: Run, since: float, until: float) -> list[tuple[float, float]]:
    width = float(run.configuration["bin"])
    sent: Counter[float] = Counter()
    for row in run.traffic:
        if since <= row["time"] < until and row["kind"] not in ("beat", "event"):
            sent[row["time"]] += row["count"]
    changes = sorted(
        (note["time"], 1 if note["what"] == "node up" else -1)
        for note in run.notes
        if note["what"] in ("node up", "node down")
    )
    found, up, at = [], 0, 0
    for time in sorted(sent):
        while at < len(changes) and changes[at][0] < time + width:
            up += changes[at][1]
            at += 1
        if up:
            found.append((time, sent[time] / (up * width)))
    return found


@case("traffic", "notes", unit="s")
def calm_after(run: Run, at: float, factor: float = 2.0) -> Value:
    """Seconds from an instant until traffic per node stays below a multiple of that before it."""
    bins = _traffic(run, 0.0, 1e9)
    before = [rate for time, rate in bins if at / 2 <= time < at]
    if not before:
        return None
    usual = factor * sum(before) / len(before)
    loud = [time for time, rate in bins if time >= at and rate > usual]
    return (max(loud) - at if loud else 0.0) + float(run.configuration["bin"])
