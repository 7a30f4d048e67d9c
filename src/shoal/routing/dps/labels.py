"""Labels: what the members of a group have in common (section 3, definitions 1 to 4).

A label is the conjunction of all predicates of a subscription on one attribute: an interval of
numbers; texts that are equal to, begin with, end with or contain something. It is made from the
normal form of a filter, and is spelt in the filter language on the wire. The empty text labels the
root of a tree, which every event with the attribute matches.

Inclusion orders labels partially. Where several incomparable successors of a group include a label
(constraints C1 and C2), its place is below the one that is first in :attr:`Label.order`: the
shortest interval, then "greater than" before "less than", then the lowest bound. The order depends
on the predecessor alone, so a group that lies between two others is never missed by descending from
the root.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any, Final

from shoal.content.attributes import AttributeFilter, Attributes
from shoal.content.conjunctions import by_attribute
from shoal.content.covering import expression_of_conjunction
from shoal.content.language import FilterError
from shoal.content.language.printer import show
from shoal.content.normal import Absent, Conjunction, Number, Present, Text, Truth
from shoal.content.patterns import Pattern, Patterns
from shoal.content.sets import Group, group_within
from shoal.content.values import INT_MAX, INT_MIN, native

if TYPE_CHECKING:
    from shoal.content import Content, Filter

ROOT: Final = ""
"""The text of a root's label."""
EVERYTHING: Final = ""
"""The attribute of the tree that every event enters, for filters that no attribute can label."""
KEPT: Final = 65_536
"""Labels remembered by their text."""


class LabelError(ValueError):
    """A text that labels no group; only a faulty or hostile node sends one."""


class Label:
    """A predicate on one attribute. Equal labels of one tree have equal texts."""

    def __init__(self, attribute: str, text: str, group: Group) -> None:
        self.attribute = attribute
        self.text = text
        self.group = group
        """The predicates that must all hold; none for a root."""
        self.order = _order(group, text)
        """Rank: of incomparable labels that include another, the lowest is its predecessor."""
        self.interval = len(group) == 1 and isinstance(group[0], Number) and not group[0].holes
        self.low: int | float = -inf
        self.high: int | float = inf
        self.low_open = False
        self.high_open = False
        self.weak = all(
            (isinstance(p, Number) and p == Number(attribute))
            or (isinstance(p, Truth) and p.value is None)
            for p in group
        )
        """Whether the label only asks for the attribute, or for its type."""
        self.single = len(group) == 1 and (
            (isinstance(group[0], Number) and group[0].low == group[0].high)
            or (isinstance(group[0], Text) and len(group[0].among or ()) == 1)
        )
        """Whether the label asks for a single value, so that it includes no other label."""
        first = group[0] if group else None
        if self.interval and isinstance(first, Number):
            self.low, self.high = first.low, first.high
            self.low_open, self.high_open = first.low_open, first.high_open
        self.side = (self.low > -inf) - (self.high < inf)
        """1 for "greater than" a number, -1 for "less than", 0 for everything else."""

    def covers(self, other: Label) -> bool:
        """Whether every event that matches the other label matches this one (definition 3)."""
        if self.interval and other.interval:
            if self.low > other.low or self.high < other.high:
                return False
            return not (
                (self.low_open and self.low == other.low and not other.low_open)
                or (self.high_open and self.high == other.high and not other.high_open)
            )
        if not self.group:
            return True
        return bool(other.group) and group_within(other.group, self.group)

    def precedes(self, other: Label) -> bool:
        """Whether this label strictly includes the other."""
        return self.text != other.text and self.covers(other) and not other.covers(self)

    def overlaps(self, other: Label) -> bool:
        """Whether a third label may be included in both."""
        if self.interval and other.interval:
            return self.low <= other.high and other.low <= self.high
        return not self.single and not other.single

    def leads_to(self, other: Label) -> bool:
        """Whether the way from the root to a group of the other label passes this one for certain.

        Where incomparable labels include the other one only the root knows its place. Those that
        include "greater than" a number, or "less than", are all in one line.
        """
        if not self.group:
            return other.text != ROOT
        return self.side != 0 and self.side == other.side and self.precedes(other)

    def matches(self, content: Content) -> bool:
        """Whether an event that has the attribute matches."""
        if not self.group:
            return True
        if not isinstance(content, Attributes):
            return False
        value: Any = content.values.get(self.attribute)
        if type(value) is not int or not INT_MIN <= value <= INT_MAX:
            value = native(value)
            if value is None:
                return False
        if self.interval and (type(value) is int or type(value) is float):
            if value < self.low or value > self.high:
                return False
            return not (
                (self.low_open and value == self.low) or (self.high_open and value == self.high)
            )
        return all(predicate.holds(value) for predicate in self.group)


def _order(group: Group, text: str) -> tuple[float, int, float, str]:
    first = group[0] if group else None
    if isinstance(first, Number):
        upwards = first.low > -inf and first.high == inf
        return (float(first.high) - float(first.low), 0 if upwards else 1, float(first.low), text)
    if isinstance(first, Text):
        if first.among is not None:
            return (inf, 2, len(first.among), text)
        kind = 3 if first.prefix else 4 if first.suffix else 5
        length = len(first.prefix) + len(first.suffix) + sum(map(len, first.contains))
        return (inf, kind, -length, text)
    return (inf, 6 if group else 7, 0.0, text)


@lru_cache(maxsize=KEPT)
def label(attribute: str, text: str) -> Label:
    """The label of a tree with this text; :class:`LabelError` if there can be none."""
    if text == ROOT:
        return Label(attribute, ROOT, ())
    try:
        normal = AttributeFilter(text).normal
    except FilterError as error:
        raise LabelError(f"'{text}' labels no group: {error}") from None
    if len(normal.disjuncts) == 1 and not normal.disjuncts[0].residue:
        group = normal.disjuncts[0].predicates
        if group and all(
            p.attribute == attribute and not isinstance(p, (Absent, Present)) for p in group
        ):
            return Label(attribute, text, group)
    raise LabelError(f"'{text}' labels no group: it is no predicate on '{attribute}' alone")


def labels_of(filter: Filter) -> list[list[Label]]:
    """Per disjunct of a filter the labels it may join by, one per attribute.

    A filter that never matches has no disjunct. A residue narrows the disjunct at its subscriber
    only; a disjunct without any predicate that could be a label joins the tree of everything. One
    that only asks whether an attribute is there, or is a number, joins by another if it can.
    """
    if isinstance(filter, Pattern):
        return [[label(f"#{filter.number}", ROOT)]]
    if not isinstance(filter, AttributeFilter):
        raise TypeError(f"{type(filter).__name__} is no filter over attributes or patterns")
    found: dict[tuple[tuple[str, str], ...], list[Label]] = {}
    for conjunction in filter.normal.disjuncts:
        labels = _labels(conjunction) or [label(EVERYTHING, ROOT)]
        found[tuple((one.attribute, one.text) for one in labels)] = labels
    return list(found.values())


def _labels(conjunction: Conjunction) -> list[Label]:
    labels = []
    for attribute, group in by_attribute(conjunction).items():
        if any(isinstance(predicate, Absent) for predicate in group):
            continue
        if all(isinstance(predicate, Present) for predicate in group):
            labels.append(label(attribute, ROOT))
            continue
        try:
            text = show(expression_of_conjunction(Conjunction(group)))
            labels.append(label(attribute, AttributeFilter(text).text))
        except (LabelError, FilterError):  # cannot be spelt as one predicate: another may do
            continue
    return [one for one in labels if not one.weak] or labels


def exact(filter: Filter) -> bool:
    """Whether an event matches a filter iff it matches all labels of a disjunct of it."""
    return isinstance(filter, AttributeFilter) and all(
        not conjunction.residue
        and {p for one in _labels(conjunction) for p in one.group} == set(conjunction.predicates)
        for conjunction in filter.normal.disjuncts
    )


def trees_of(content: Content) -> list[str]:
    """The attributes whose trees an event enters; the tree of everything comes first."""
    if isinstance(content, Attributes):
        names = [name for name, value in content.values.items() if native(value) is not None]
        return [EVERYTHING, *names]
    if isinstance(content, Patterns):
        return [EVERYTHING, *dict.fromkeys(f"#{number}" for number in content.numbers)]
    return [EVERYTHING]
