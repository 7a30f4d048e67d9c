"""What nodes of an observed LSTree noted in a run: their places in the tree, and their answers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from shoal.overlay.lstree_relation import Colour, can_connect
from shoal.pipeline.measure.run_view import Run
from shoal.stack.host import LOCAL

LIMITS = ("full", "leaf")
"""Refusals for a limit on degrees."""


class Place(msgspec.Struct, frozen=True):
    """A node's place in the tree from an instant on."""

    at: float
    node: int
    parent: int
    colour: Colour
    depth: float
    above: float
    """The parent's depth, as last heard."""
    root: bool
    ancestors: tuple[int, ...]
    siblings: frozenset[int]


class Answer(msgspec.Struct, frozen=True):
    """A request and what became of it."""

    at: float
    node: int
    requester: int
    colour: Colour
    depth: float
    forced: tuple[bool, bool]
    """Whether MAXDEGREE and MINDEGREE were lifted."""
    before: Mapping[str, Any]
    """The candidate's state when it was asked."""
    answer: str
    named: tuple[int, ...]
    lowered: float
    """The candidate's depth after the answer."""

    @property
    def own(self) -> Colour:
        """The candidate's colour."""
        length, node, life = self.before["colour"]
        return (length, node, life)

    @property
    def same(self) -> bool:
        """Whether candidate and requester are of one colour."""
        return self.own == self.colour

    @property
    def safe(self) -> bool:
        """Whether requester → candidate."""
        return can_connect(self.colour, self.depth, self.own, self.before["depth"])

    @property
    def searching(self) -> bool:
        """Whether the candidate was itself looking for a parent."""
        return self.before["parent"] == LOCAL and not self.before["root"]

    @property
    def allowed(self) -> bool:
        """Whether it was accepted, as far as colours and depths are concerned."""
        return self.answer in ("accepted", *LIMITS)


class Observed:
    """What the nodes of a run noted: places, requests and answers, in the order of time."""

    def __init__(self, run: Run) -> None:
        self.places: list[Place] = []
        self.answers: list[Answer] = []
        self.asks: list[tuple[float, int, int, dict[str, Any]]] = []
        """When, who asks, whom, and how the search stands."""
        self._asked: dict[tuple[int, int], list[tuple[float, dict[str, Any]]]] = defaultdict(list)
        """When, and how the search stood, per pair of who asks and who is asked."""
        self.sighted: set[tuple[float, int, int]] = set()
        self.ups: dict[int, list[float]] = defaultdict(list)
        self.downs: dict[int, list[float]] = defaultdict(list)
        rows: list[tuple[float, int, int, Any, dict[str, Any]]] = []
        for note in run.notes:
            what = note["what"]
            if what == "node up":
                self.ups[note["node"]].append(note["time"])
            elif what == "node down":
                self.downs[note["node"]].append(note["time"])
            elif what in ("place", "answer", "asks", "sighted"):
                value = json.loads(note["value"])
                rows.append((note["time"], note["node"], value["n"], note, value))
        rows.sort(key=lambda row: row[:3])
        for at, node, _, note, value in rows:
            self._read(at, node, note["what"], note["peer"], value)

    def _read(self, at: float, node: int, what: str, peer: int, value: dict[str, Any]) -> None:
        if what == "asks":
            self.asks.append((at, node, peer, value))
            self._asked[node, peer].append((at, value))
        elif what == "sighted":
            self.sighted.add((at, node, peer))
        elif what == "place":
            place = {"at": at, "node": node, "parent": peer, **value}
            self.places.append(msgspec.convert(place, Place))
        else:
            answer = {"at": at, "node": node, "requester": peer, **value}
            self.answers.append(msgspec.convert(answer, Answer))

    def lives(self) -> Iterable[list[Place]]:
        """The places of every life of a node, in order."""
        lives: dict[tuple[int, int], list[Place]] = defaultdict(list)
        for place in self.places:
            life = sum(start <= place.at for start in self.ups[place.node])
            lives[place.node, life].append(place)
        return lives.values()

    def instants(self) -> Iterator[tuple[float, dict[int, Place], set[int]]]:
        """After every instant the places of all nodes that are up, and who moved in it."""
        now: dict[int, Place] = {}
        changes: list[tuple[float, int, Place | int]] = [(p.at, 1, p) for p in self.places]
        changes += [(at, 0, node) for node, times in self.downs.items() for at in times]
        changes.sort(key=lambda change: change[:2])
        for at, group in groupby(changes, key=lambda change: change[0]):
            moved: set[int] = set()
            for _, _, what in group:
                if isinstance(what, Place):
                    now[what.node] = what
                    moved.add(what.node)
                else:
                    now.pop(what, None)
            yield at, now, moved

    def cause(self, answer: Answer) -> str:
        """Why the requester was looking for a parent: what it last asked this candidate for."""
        causes = [
            value["cause"]
            for at, value in self._asked[answer.requester, answer.node]
            if at <= answer.at
        ]
        return causes[-1] if causes else ""

    def end(self) -> dict[int, Place]:
        """The places of all nodes that are up at the end."""
        last: dict[int, Place] = {}
        for _, now, _ in self.instants():
            last = now
        return last
