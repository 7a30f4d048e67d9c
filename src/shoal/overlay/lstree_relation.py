"""The relation that keeps LSTree free of cycles (Frey, section 10.2.1).

A node's *colour* is a sequence of nodes, each appended when it became root; here it is kept as the
sequence's length and last element. A node appends itself at most once to a sequence of any given
length in one life, so two sequences with equal length and last element are the same sequence: the
short form tells apart what the long one does, and any strict total order that puts longer colours
last serves the proof (``docs/lstree.md``).
"""

from __future__ import annotations

from typing import Final, TypeAlias

Colour: TypeAlias = tuple[int, int, int]
"""Length, and of the last element the node and its life (``epoch``)."""

BLANK: Final[Colour] = (0, 0, 0)
"""The colour of a node that has never had a parent."""

LONGEST: Final = 2**40
"""A colour of this length is not extended: only a node that lies has one."""

DEEPEST: Final = 1e6
"""A node this deep has no children, and no parent is as deep: only nodes below a liar get there."""

GAP: Final = 1e-9
"""Least difference of depths between which another still fits."""


def precedes(first: Colour, second: Colour) -> bool:
    """C1 → C2: the second is longer, or as long and ends in a smaller element."""
    if first[0] != second[0]:
        return first[0] < second[0]
    if first[1] != second[1]:
        return first[1] > second[1]
    return first[2] > second[2]


def can_connect(colour: Colour, depth: float, to_colour: Colour, to_depth: float) -> bool:
    """(C, D) → (C', D'): a node may be the child of another one."""
    if colour == to_colour:
        return depth > to_depth
    return precedes(colour, to_colour)
