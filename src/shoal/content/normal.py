"""The normal form of a filter: what the index, covering and merging work on.

A filter over attributes is a disjunction of conjunctions. A conjunction holds *predicates*, each a
set of values of one attribute under one reading (see :mod:`shoal.content.values`), and a *residue*:
conditions that fit no predicate, left as expressions and evaluated last.

The form is exact. An event matches the filter if and only if it satisfies some conjunction, and it
satisfies a conjunction iff every predicate holds and every residue evaluates to true without error.
CESQL's third outcome, the error, has been compiled away: ``A OR B`` became ``A`` or ``B`` where A
can be evaluated, with the guard spelt as a predicate (:class:`Present`, a :class:`Number` without
bounds, a :class:`Truth` without a value). A predicate is thus plain true or false; it is false on
an absent attribute and on a value that cannot be read its way, :class:`Absent` excepted.

Per conjunction there is at most one predicate of a class per attribute, sorted by attribute and
then class; :class:`Present` stands only where no other predicate implies it; contradictory
conjunctions are dropped. No conjunction: matches nothing. One empty conjunction: matches all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from shoal.content import values
from shoal.content.language.evaluate import holds
from shoal.content.language.like import like

if TYPE_CHECKING:
    from shoal.content.language.syntax import Expression

Plain: TypeAlias = bool | int | float | str
"""A value that is there: what :func:`shoal.content.values.native` gives, None aside."""


@dataclass(frozen=True, slots=True)
class Number:
    """Read as a number, the value lies in an interval and is none of the holes.

    Bounds are exact: integers are not rounded to floats, so compare a bound beyond 2**53 with care.
    ``holes`` are sorted and lie inside the interval. Without bounds and holes: it is a number.
    """

    attribute: str
    low: int | float = -inf
    high: int | float = inf
    low_open: bool = False
    high_open: bool = False
    holes: tuple[int | float, ...] = ()

    def holds(self, value: Plain) -> bool:
        """Whether a value that is there satisfies the predicate."""
        found = values.number(value)
        if found is None or found < self.low or found > self.high:
            return False
        if (self.low_open and found == self.low) or (self.high_open and found == self.high):
            return False
        return found not in self.holes


@dataclass(frozen=True, slots=True)
class Text:
    """Read as text, the value is one of ``among``; or has this prefix, suffix and so on.

    ``x IN (1, 2)`` is such a set, ``('1', '2')``: CESQL casts the list to the value's type, so the
    number 2 and the text ``'2'`` are in it and ``'02'`` is not. A number equals one of ``among``
    iff its digits do (:func:`shoal.content.values.text`): look it up under that spelling.

    Where ``among`` is given every other field is empty (they were applied to it). ``like`` and
    ``unlike`` are LIKE patterns as written in a filter. A pattern in ``like`` that begins or ends
    with plain text has also put that text into ``prefix`` or ``suffix``, so that an index may
    prune on them; ``LIKE 'p%'``, ``'%s'`` and ``'%c%'`` alone become ``prefix``, ``suffix`` and
    ``contains`` and leave nothing in ``like``. Tuples are sorted and without duplicates.
    """

    attribute: str
    among: tuple[str, ...] | None = None
    prefix: str = ""
    suffix: str = ""
    contains: tuple[str, ...] = ()
    like: tuple[str, ...] = ()
    unlike: tuple[str, ...] = ()
    holes: tuple[str, ...] = ()

    def holds(self, value: Plain) -> bool:
        """Whether a value that is there satisfies the predicate."""
        return self.admits(values.text(value))

    def admits(self, found: str) -> bool:
        """Whether a text satisfies the predicate."""
        if self.among is not None:
            return found in self.among
        return (
            found.startswith(self.prefix)
            and found.endswith(self.suffix)
            and found not in self.holes
            and all(part in found for part in self.contains)
            and all(like(pattern, found) for pattern in self.like)
            and not any(like(pattern, found) for pattern in self.unlike)
        )


@dataclass(frozen=True, slots=True)
class Truth:
    """Read as a condition, the value is true or false as given; None: it can be read as one."""

    attribute: str
    value: bool | None = None

    def holds(self, value: Plain) -> bool:
        """Whether a value that is there satisfies the predicate."""
        found = values.truth(value)
        return found is not None and (self.value is None or found is self.value)


@dataclass(frozen=True, slots=True)
class Present:
    """The attribute is there, whatever it holds."""

    attribute: str

    def holds(self, value: Plain) -> bool:
        """Whether a value that is there satisfies the predicate."""
        return True


@dataclass(frozen=True, slots=True)
class Absent:
    """The attribute is not there (or null, or NaN)."""

    attribute: str

    def holds(self, value: Plain) -> bool:
        """Whether a value that is there satisfies the predicate."""
        return False


Predicate: TypeAlias = Number | Text | Truth | Present | Absent


@dataclass(frozen=True, slots=True)
class Conjunction:
    """All predicates hold, and every residue evaluates to true."""

    predicates: tuple[Predicate, ...] = ()
    residue: tuple[Expression, ...] = ()

    def matches(self, attributes: Mapping[str, object]) -> bool:
        """Whether an event's attributes satisfy the conjunction (the reference for evaluators)."""
        for predicate in self.predicates:
            value = values.native(attributes.get(predicate.attribute))
            if value is None:
                if not isinstance(predicate, Absent):
                    return False
            elif not predicate.holds(value):
                return False
        return all(holds(expression, attributes) for expression in self.residue)


@dataclass(frozen=True, slots=True)
class NormalForm:
    """A disjunction: some conjunction holds."""

    disjuncts: tuple[Conjunction, ...]
    source: Expression | None = field(default=None, compare=False, repr=False)
    """The filter's expression, where evaluating that is cheaper than trying every conjunction."""

    def decide(self, attributes: Mapping[str, object]) -> bool:
        """Whether an event satisfies the filter, decided within the filter's stated cost."""
        if self.source is not None:
            return holds(self.source, attributes)
        return self.matches(attributes)

    def matches(self, attributes: Mapping[str, object]) -> bool:
        """Whether an event's attributes satisfy the filter."""
        return any(conjunction.matches(attributes) for conjunction in self.disjuncts)
