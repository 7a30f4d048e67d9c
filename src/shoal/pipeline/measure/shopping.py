"""Measures of trees that nodes build by messages: how they settle after a move or a failure.

The notes are those of :mod:`shoal.overlay.shopparent` and :mod:`shoal.simulation.radio_range`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from shoal.pipeline.judge.statistics import rank_correlation
from shoal.pipeline.measure.cases import Value, case, mean
from shoal.pipeline.measure.run_view import Row, Run


def _noted(run: Run, *what: str) -> list[Row]:
    """What nodes noted under these names, in order."""
    return sorted((n for n in run.notes if n["what"] in what), key=itemgetter("time"))


def _settling(run: Run) -> Iterator[tuple[Row, float, float]]:
    """Per move or failure: seconds to the last change of a parent, and to the next move."""
    changes = _noted(run, "moved", "failed")
    parents = [note["time"] for note in run.notes if note["what"] == "parent"]
    ends = [change["time"] for change in changes[1:]] + [run.configuration["duration"]]
    for change, end in zip(changes, ends, strict=True):
        start = change["time"]
        last = max((at for at in parents if start <= at < end), default=start)
        yield change, last - start, end - start


@case("notes", unit="periods")
def settling(run: Run) -> Value:
    """Periods from a move to the last change of a parent, on average."""
    period = run.configuration["overlay"]["period"]
    return mean(seconds / period for _, seconds, _ in _settling(run))


@case("notes", unit="share")
def settled(run: Run, quiet: float = 10.0) -> Value:
    """The share of moves after which parents stay the same, for so many periods at least."""
    quiet *= run.configuration["overlay"]["period"]
    return mean(seconds <= room - quiet for _, seconds, room in _settling(run))


@case("notes", unit="correlation")
def settling_by_hops(run: Run, place: str = "old") -> Value:
    """Rank correlation between a moving node's hops and the time to settle, over all moves.

    Hops of its ``old`` place, before the move, or of its ``new`` one, once settled.
    """
    pairs = []
    for change, seconds, room in _settling(run):
        hops = change["peer"]
        if place == "new":
            hops = _hops_at(run, change["node"], change["time"] + room)
        if hops >= 0:
            pairs.append((float(hops), seconds))
    if len(pairs) < 3:
        return None
    both = np.array(pairs)
    return rank_correlation(both[:, 0], both[:, 1]) if np.ptp(both, axis=0).all() else None


def _hops_at(run: Run, node: int, before: float) -> int:
    """Hops of a node to the root by the parents noted before a time; -1 if it has no way."""
    parent: dict[int, int] = {}
    for note in _noted(run, "parent"):
        if note["time"] < before:
            parent[note["node"]] = note["peer"]
    hops = 0
    root = run.configuration["overlay"]["root"]
    while node != root and hops <= len(parent):
        node = parent.get(node, -1)
        if node < 0:
            return -1
        hops += 1
    return hops


def _inspections(run: Run, what: str) -> dict[int, float]:
    return {n["peer"]: float(n["value"]) for n in run.notes if n["what"] == what}


@case("notes", unit="times")
def times_fresh(run: Run) -> Value:
    """What the tree costs after a move, against trees built afresh, on average."""
    now, fresh = _inspections(run, "tree overhead"), _inspections(run, "fresh overhead")
    return mean(now[k] / fresh[k] for k in now if fresh[k])


@case("notes", unit="share")
def inside_fresh(run: Run, slack: float = 1e-4) -> Value:
    """The share of moves after which the tree costs no more than the worst tree built afresh."""
    now, most = _inspections(run, "tree overhead"), _inspections(run, "fresh most")
    least = _inspections(run, "fresh least")
    return mean(least[k] / (1 + slack) <= now[k] <= most[k] * (1 + slack) for k in now)


@case("notes", unit="errors")
def descendants_taken(run: Run) -> Value:
    """Times a node takes one of its own descendants as its parent."""
    parent: dict[int, int] = {}
    faults = 0
    for note in _noted(run, "parent"):
        node, above = note["node"], note["peer"]
        seen = 0
        while above >= 0 and above != node and seen <= len(parent):
            above = parent.get(above, -1)
            seen += 1
        faults += above == node
        parent[node] = note["peer"]
    return float(faults)


@case("messages", "notes", unit="errors")
def unrouted_advertisements(run: Run) -> Value:
    """Advertisements of nodes that have no parent at that time and are not the root."""
    changes: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for note in _noted(run, "parent"):
        changes[note["node"]].append((note["time"], note["peer"]))
    faults = 0
    for message in run.messages:
        node = message["source"]
        if message["kind"] == "parent-advertise" and node != run.configuration["overlay"]["root"]:
            before = [peer for at, peer in changes[node] if at <= message["time"]]
            faults += not before or before[-1] < 0
    return float(faults)


@case("notes", unit="code")
def answering(run: Run, peer: int, since: float) -> Value:
    """Who answers a node's probe: 2 to the power of each node's number, in sum."""
    answers = [n for n in run.notes if n["what"] == "answer" and n["time"] >= since]
    return float(sum(2**node for node in {n["node"] for n in answers if n["peer"] == peer}))


@case("notes", unit="node")
def parent_at(run: Run, node: int, at: float = 1e9) -> Value:
    """A node's parent at a time; -1 for none."""
    before = [n for n in _noted(run, "parent") if n["node"] == node and n["time"] <= at]
    return float(before[-1]["peer"]) if before else -1.0


@case("notes", unit="periods")
def delay_of(run: Run, what: str, node: int, since: float, peer: int | None = None) -> Value:
    """Periods from a time until a node notes something; none if it never does."""
    noted = [n for n in run.notes if n["what"] == what and n["node"] == node]
    times = [n["time"] for n in noted if n["time"] >= since and peer in (None, n["peer"])]
    return (min(times) - since) / run.configuration["overlay"]["period"] if times else None


@case("notes", unit="notes")
def times_noted(run: Run, what: str, since: float = 0.0, until: float = 1e9) -> Value:
    """How often nodes note something in a span of time."""
    return float(sum(n["what"] == what and since <= n["time"] < until for n in run.notes))
