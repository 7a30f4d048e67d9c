"""Labels: the order that keeps MAODV and WiTree free of cycles.

A node's label says which group hello it has heard, and how far it is from the leader that sent it.
Label b is *ahead* of label a if ``leads(a, b)``: then a node with label a may be the child of one
with label b. Every parent's label is ahead of its children's, and the label of a node with children
only ever moves ahead (``docs/witree.md`` has the proof).
"""

from __future__ import annotations

from typing import Final, TypeAlias

Label: TypeAlias = tuple[int, int, int, int, float]
"""Generation; leader; number of the leader's tree; its sequence number; distance from the
leader."""

BLANK: Final[Label] = (0, 0, 0, 0, 0.0)
"""Label of a node without a tree."""

GAP: Final = 1e-9
"""Distances that differ by no more than this are equal."""

LONGEST: Final = 2**40
"""Largest generation; only a node that lies reaches it."""


def same_group(first: Label, second: Label) -> bool:
    """Whether two labels are of one leader and one sequence number."""
    return first[:4] == second[:4]


def same_tree(first: Label, second: Label) -> bool:
    """Whether two labels are of one tree of one leader."""
    return first[:3] == second[:3]


def older(first: Label, second: Label) -> bool:
    """Whether the second label is of a later generation, a prevailing leader, or a later number."""
    return first[:4] < second[:4]


def leads(first: Label, second: Label) -> bool:
    """Whether a node with the first label may be the child of one with the second."""
    if same_group(first, second):
        return first[4] - second[4] > GAP
    return older(first, second)


def below(own: Label, parent: Label) -> Label:
    """The label of a node with this parent: a hop further, and never behind where it was."""
    distance = parent[4] + 1.0
    if same_group(own, parent) and own[4] < distance:
        distance = own[4]
    return (parent[0], parent[1], parent[2], parent[3], distance)


def nearer(label: Label, step: float) -> Label:
    """The label of the same group, nearer to the leader by a step."""
    return (label[0], label[1], label[2], label[3], label[4] - step)
