"""One run's tables with the tree in view: its links over time, its repairs, its routing tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from shoal.simulation.topology import Edge
from shoal.simulation.topology import tree_path as path_between

T = TypeVar("T")
Row: TypeAlias = Mapping[str, Any]
Entry: TypeAlias = tuple[int, int, str]
"""Dispatcher, source (a neighbour or LOCAL), filter."""

__all__ = ["Edge", "Entry", "Repair", "Run", "links_spanning", "neighbours_of", "tree_path"]


@dataclass(frozen=True)
class Repair:
    """One link replaced by another, on the tree as it then was."""

    number: int
    begins: float
    ends: float
    """Time at which the next repair begins."""
    head: tuple[int, ...]
    tail: tuple[int, ...]

    @property
    def path(self) -> tuple[int, ...]:
        """The reconfiguration path (Frey, section 5.2)."""
        return self.head + self.tail


class Run:
    """Rows that one run recorded, per table; tables that no case reads are empty."""

    def __init__(self, configuration: Mapping[str, Any], tables: Mapping[str, Any]) -> None:
        self.configuration = configuration
        self._views: dict[Callable[[Run], Any], Any] = {}
        self.links: list[Row] = sorted(
            tables.get("links") or [], key=lambda c: (c["time"], c["change"] == "up")
        )
        self.messages: list[Row] = tables.get("messages") or []
        self.notes: list[Row] = tables.get("notes") or []
        """All notes, without those on entries of routing tables."""
        self.entry_notes: list[Row] = tables.get("entries") or []
        self.traffic: list[Row] = tables.get("traffic") or []
        self.deliveries: list[Row] = tables.get("deliveries") or []
        self.publications: list[Row] = tables.get("publications") or []
        self.loads: list[Row] = tables.get("loads") or []
        self.reach: list[Row] = tables.get("reach") or []

    def seen_as(self, view: Callable[[Run], T]) -> T:
        """This run read by a class such as ``Forest``; made once for all measures."""
        if view not in self._views:
            self._views[view] = view(self)
        found: T = self._views[view]
        return found

    @cached_property
    def initial_links(self) -> list[Edge]:
        """The tree at the start."""
        return [(c["a"], c["b"]) for c in self.links if c["time"] == 0 and c["change"] == "up"]

    @cached_property
    def final_links(self) -> list[Edge]:
        """The tree at the end."""
        links: dict[frozenset[int], None] = {}
        fleeting: dict[frozenset[int], float] = {}
        """Links made and broken in one instant, in which breaks are sorted before what is made."""
        for change in self.links:
            edge = frozenset((change["a"], change["b"]))
            if change["change"] == "up":
                if fleeting.get(edge) != change["time"]:
                    links[edge] = None
            elif edge in links:
                del links[edge]
            else:
                fleeting[edge] = change["time"]
        return [(min(edge), max(edge)) for edge in links]

    @cached_property
    def repairs(self) -> list[Repair]:
        """The replacements in order, for a tree in which they do not overlap."""
        links = set(map(frozenset, self.initial_links))
        broken: dict[int, Row] = {}
        found: list[tuple[int, float, list[int], list[int]]] = []
        for change in self.links:
            if change["repair"] is None:
                continue
            edge = frozenset((change["a"], change["b"]))
            if change["change"] == "down":
                links.discard(edge)
                broken[change["repair"]] = change
                continue
            old = broken[change["repair"]]
            neighbours = neighbours_of(tuple(e) for e in links)
            a, b, c, d = old["a"], old["b"], change["a"], change["b"]
            head, tail = path_between(neighbours, a, c), path_between(neighbours, d, b)
            found.append((change["repair"], old["time"], head, tail))
            links.add(edge)
        ends = [at for _, at, _, _ in found[1:]] + [float("inf")]
        return [
            Repair(number, at, end, tuple(head), tuple(tail))
            for (number, at, head, tail), end in zip(found, ends, strict=True)
        ]

    def entries(self) -> set[Entry]:
        """All routing tables at rest, from the notes on what came and went."""
        return {entry for entry, net in self._net(0.0, float("inf")).items() if net > 0}

    def change_of(self, repair: Repair) -> dict[Entry, int]:
        """Entries that a repair changed for good: +1 if added, -1 if removed."""
        return self._net(repair.begins, repair.ends)

    def _net(self, since: float, until: float) -> dict[Entry, int]:
        # Entries come and go in turn, so that the balance tells without the order.
        balance: Counter[Entry] = Counter()
        for note in self.entry_notes:
            if since <= note["time"] < until:
                step = 1 if note["what"] == "entry added" else -1
                balance[note["node"], note["peer"], note["value"]] += step
        return {entry: net for entry, net in balance.items() if net}

    def reaches(self, a: int, b: int, nodes: set[int]) -> bool:
        """Whether all of some nodes lie beyond the link from a to b."""
        seen, frontier = {a, b}, [b]
        neighbours = self._final_neighbours
        while frontier:
            for neighbour in neighbours[frontier.pop()]:
                if neighbour not in seen:
                    seen.add(neighbour)
                    frontier.append(neighbour)
        return nodes <= seen - {a}

    @cached_property
    def _final_neighbours(self) -> dict[int, dict[int, None]]:
        return neighbours_of(self.final_links)


def neighbours_of(links: Iterable[Sequence[int]]) -> dict[int, dict[int, None]]:
    """The neighbours of every node that some links join."""
    neighbours: dict[int, dict[int, None]] = defaultdict(dict)
    for a, b in links:
        neighbours[a][b] = None
        neighbours[b][a] = None
    return neighbours


def tree_path(links: Iterable[Edge], a: int, b: int) -> list[int]:
    """The nodes from a to b along a tree."""
    return path_between(neighbours_of(links), a, b)


def links_spanning(links: Iterable[Edge], nodes: set[int]) -> set[Edge]:
    """The links of the smallest subtree that joins some nodes: other leaves are cut off."""
    kept = set(links)
    neighbours = neighbours_of(kept)
    leaves = [node for node, linked in neighbours.items() if len(linked) == 1 and node not in nodes]
    while leaves:
        leaf = leaves.pop()
        if not neighbours[leaf]:
            continue
        (inner,) = neighbours.pop(leaf)
        del neighbours[inner][leaf]
        kept -= {(leaf, inner), (inner, leaf)}
        if len(neighbours[inner]) == 1 and inner not in nodes:
            leaves.append(inner)
    return kept
