"""From a filter's normal form to lanes: boxes of key intervals, one or more per conjunction."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, isinf, nextafter
from typing import Final, TypeAlias

from shoal.content import normal
from shoal.content.index.vocabulary import EXACT_INTEGERS, Attribute, Vocabulary

Predicate: TypeAlias = tuple[int, float, float]
"""Column (with :data:`NEGATED`), lowest key, highest key."""

NEGATED: Final = 0x80000000
MAX_BOXES: Final = 64  # that several IN lists of one conjunction may multiply to


@dataclass
class Lanes:
    """Lanes of one filter, as the index stores them."""

    boxes: list[list[Predicate]] = field(default_factory=list)
    opaque: bool = False
    """Whether the boxes only bound the filter, and the reference decides."""

    @property
    def disjoint(self) -> bool:
        """Whether no event can be in two boxes (sure if true)."""
        if len(self.boxes) < 2:
            return True
        first = {column for column, _, _ in self.boxes[0] if column < NEGATED}
        for column in sorted(first):
            spans = sorted((low, high) for box in self.boxes for c, low, high in box if c == column)
            if len(spans) == len(self.boxes) and all(a[1] < b[0] for a, b in pairwise(spans)):
                return True
        return False


def lanes_of(form: normal.NormalForm, vocabulary: Vocabulary) -> Lanes:
    """The lanes of a filter; new columns and keys are added to the vocabulary."""
    found = Lanes()
    for conjunction in form.disjuncts:
        boxes, opaque = _Reader(vocabulary).read(conjunction)
        found.boxes += boxes
        found.opaque = found.opaque or opaque
    return found


def simple_box(form: normal.NormalForm, vocabulary: Vocabulary) -> list[float] | None:
    """The one box of a filter of closed intervals and equal texts that are all known; else None.

    Most filters of most workloads are such, and this takes a fraction of the time. The box is
    written as a list has it: column, lowest key, highest key, and so on.
    """
    if len(form.disjuncts) != 1 or form.disjuncts[0].residue:
        return None
    box: list[float] = []
    known = vocabulary.attributes
    for predicate in form.disjuncts[0].predicates:
        attribute = known.get(predicate.attribute)
        if attribute is None:
            return None
        if type(predicate) is normal.Number:
            low, high = predicate.low, predicate.high
            if (
                attribute.number < 0
                or predicate.low_open
                or predicate.high_open
                or predicate.holes
                or not (-EXACT_INTEGERS < low <= high < EXACT_INTEGERS)
            ):
                return None
            box += (attribute.number, low, high)
        elif type(predicate) is normal.Text:
            among = predicate.among
            if among is None or len(among) != 1:
                return None
            key = attribute.texts.get(among[0])
            if key is None:
                return None
            box += (attribute.text, key, key)
        else:
            return None
    return box


def _double(number: int | float) -> float:
    """The nearest double, infinity for what is larger than all."""
    try:
        return float(number)
    except OverflowError:
        return inf if number > 0 else -inf


def _faithful(number: int | float) -> bool:
    """Whether the number's double stands for this integer alone."""
    return -EXACT_INTEGERS < number < EXACT_INTEGERS or (
        isinstance(number, float) and isinf(number)
    )


class _Reader:
    """Reads one conjunction."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.box: list[Predicate] = []
        self.lists: list[list[Predicate]] = []
        self.opaque = False

    def read(self, conjunction: normal.Conjunction) -> tuple[list[list[Predicate]], bool]:
        self.opaque = bool(conjunction.residue)
        for predicate in conjunction.predicates:
            attribute = self.vocabulary.attribute(predicate.attribute)
            if isinstance(predicate, normal.Number):
                self._number(attribute, predicate)
            elif isinstance(predicate, normal.Text):
                self._text(attribute, predicate)
            elif isinstance(predicate, normal.Truth):
                low, high = (-inf, inf) if predicate.value is None else (predicate.value,) * 2
                self._add(self.vocabulary.truth(attribute), float(low), float(high))
            elif isinstance(predicate, normal.Present):
                self._add(self.vocabulary.present(attribute), 1.0, 1.0)
            else:
                self._add(self.vocabulary.present(attribute), 1.0, 1.0, NEGATED)
        boxes = [self.box]
        for number, alternatives in enumerate(sorted(self.lists, key=len)):
            if number and len(boxes) * len(alternatives) > MAX_BOXES:
                self.opaque = True  # the remaining lists are left to the reference
                break
            boxes = [[*box, one] for box in boxes for one in alternatives]
        return boxes, self.opaque

    def _add(self, column: int, low: float, high: float, flags: int = 0) -> None:
        if column < 0:
            self.opaque = True
        else:
            self.box.append((column | flags, low, high))

    def _bound(self, bound: int | float, is_open: bool, towards: float) -> float:
        """The same bound, closed and on doubles; if no double has it, a wider one (opaque)."""
        exact = _double(bound)
        if _faithful(bound):
            return nextafter(exact, towards) if is_open else exact
        self.opaque = True  # integers out here share a double
        return exact

    def _number(self, attribute: Attribute, predicate: normal.Number) -> None:
        column = self.vocabulary.number(attribute)
        low = self._bound(predicate.low, predicate.low_open, inf)
        high = self._bound(predicate.high, predicate.high_open, -inf)
        self._add(column, low, high)
        for hole in predicate.holes:
            if _faithful(hole):
                self._add(column, float(hole), float(hole), NEGATED)
            else:
                self.opaque = True

    def _text(self, attribute: Attribute, predicate: normal.Text) -> None:
        vocabulary = self.vocabulary
        if predicate.among is not None:
            keys = [vocabulary.text(attribute, text) for text in predicate.among]
            if keys and keys[0][0] < 0:
                self.opaque = True
            elif len(keys) == 1:
                self._add(keys[0][0], keys[0][1], keys[0][1])
            else:
                self.lists.append([(column, key, key) for column, key in keys])
            return
        before = len(self.box)
        for affix, suffix in ((predicate.prefix, False), (predicate.suffix, True)):
            if affix:
                column, key, whole = vocabulary.affix(attribute, affix, suffix=suffix)
                self._add(column, key, key)
                self.opaque = self.opaque or not whole
        for fragment in predicate.contains:
            if fragment:
                self._add(vocabulary.fragment(attribute, fragment), 1.0, 1.0)
        if len(self.box) == before:
            self._add(vocabulary.present(attribute), 1.0, 1.0)
        for hole in predicate.holes:
            column, key = vocabulary.text(attribute, hole)
            self._add(column, key, key, NEGATED)
        if predicate.like or predicate.unlike:
            self.opaque = True
