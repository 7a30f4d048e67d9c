"""The algebra of predicates: intersection, inclusion and union of sets of values.

Answers about inclusion and emptiness are sound: "within" and "empty" are never wrong. They are
exact where each attribute is read in one way and its predicates are intervals, finite sets and
prefixes; and where an attribute can have only finitely many values, however it is read. Undecided
(so neither "empty" nor "within") are whether a number with a given prefix lies in an interval, and
most questions about LIKE patterns with inner wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import product
from math import inf
from typing import TypeAlias

from shoal.content.language.like import escape, parse_pattern
from shoal.content.normal import Absent, Number, Plain, Predicate, Present, Text, Truth
from shoal.content.values import spellings

Group: TypeAlias = tuple[Predicate, ...]
"""The predicates of one attribute in a conjunction, at most one of a class."""

ORDER: dict[type, int] = {Number: 0, Text: 1, Truth: 2, Present: 3, Absent: 4}
_NUMBER_BEGINS = re.compile(r"[+-]?[0-9]*(\.[0-9]*)?([eE][+-]?[0-9]*)?")


# One predicate


def intersect_numbers(a: Number, b: Number) -> Number | None:
    """The numbers in both, or None if there are none."""
    low, low_open = a.low, a.low_open
    if b.low > low or (b.low == low and b.low_open):
        low, low_open = b.low, b.low_open
    high, high_open = a.high, a.high_open
    if b.high < high or (b.high == high and b.high_open):
        high, high_open = b.high, b.high_open
    holes = a.holes if a.holes == b.holes else tuple(sorted({*a.holes, *b.holes}))
    return make_number(a.attribute, low, high, low_open, high_open, holes)


def make_number(
    attribute: str,
    low: int | float = -inf,
    high: int | float = inf,
    low_open: bool = False,
    high_open: bool = False,
    holes: Iterable[int | float] = (),
) -> Number | None:
    """A predicate in its one spelling, or None if no number satisfies it."""
    inside = []
    for hole in holes:
        if hole == low:
            low_open = True
        elif hole == high:
            high_open = True
        elif low < hole < high:
            inside.append(hole)
    if low > high or (low == high and (low_open or high_open)):
        return None
    return Number(attribute, low, high, low_open, high_open, tuple(inside))


def number_within(b: Number, a: Number) -> bool:
    """Whether every number in ``b`` is in ``a``."""
    if a.low > b.low or a.high < b.high:
        return False
    if (a.low_open and a.low == b.low and not b.low_open) or (
        a.high_open and a.high == b.high and not b.high_open
    ):
        return False
    return not a.holes or not any(b.holds(hole) for hole in a.holes)


def intersect_texts(a: Text, b: Text) -> Text | None:
    """The texts in both, or None if there are none."""
    if a.among is not None or b.among is not None:
        finite, other = (a, b) if a.among is not None else (b, a)
        among = tuple(text for text in finite.among or () if other.admits(text))
        return Text(a.attribute, among) if among else None
    prefix, shorter = (
        (a.prefix, b.prefix) if len(a.prefix) > len(b.prefix) else (b.prefix, a.prefix)
    )
    suffix, other_end = (
        (a.suffix, b.suffix) if len(a.suffix) > len(b.suffix) else (b.suffix, a.suffix)
    )
    if not prefix.startswith(shorter) or not suffix.endswith(other_end):
        return None
    return make_text(
        a.attribute,
        prefix,
        suffix,
        (*a.contains, *b.contains),
        (*a.like, *b.like),
        (*a.unlike, *b.unlike),
        (*a.holes, *b.holes),
    )


def make_text(
    attribute: str,
    prefix: str = "",
    suffix: str = "",
    contains: Iterable[str] = (),
    likes: Iterable[str] = (),
    unlikes: Iterable[str] = (),
    holes: Iterable[str] = (),
) -> Text | None:
    """A predicate without ``among`` in its one spelling, or None if it is known to be empty."""
    parts = sorted(set(contains))
    parts = [p for p in parts if p not in prefix and p not in suffix]
    parts = [p for p in parts if not any(p != q and p in q for q in parts)]
    whole = Text(attribute, None, prefix, suffix, tuple(parts), tuple(sorted(set(likes))))
    unlike = []
    for pattern in sorted(set(unlikes)):
        excluded = of_pattern(attribute, pattern)
        if isinstance(excluded, Present) or text_within(whole, excluded):
            return None
        if not _apart(whole, excluded):
            unlike.append(pattern)
    kept = tuple(hole for hole in sorted(set(holes)) if whole.admits(hole))
    return Text(attribute, None, prefix, suffix, whole.contains, whole.like, tuple(unlike), kept)


def _apart(a: Text, b: Text) -> bool:
    """Whether prefixes or suffixes alone show that no text is in both."""
    return not (
        (a.prefix.startswith(b.prefix) or b.prefix.startswith(a.prefix))
        and (a.suffix.endswith(b.suffix) or b.suffix.endswith(a.suffix))
    )


@lru_cache(maxsize=4096)
def of_pattern(attribute: str, pattern: str) -> Text | Present:
    """The predicate that ``attribute LIKE pattern`` is."""
    parsed = parse_pattern(pattern)
    plain = parsed.plain
    if plain is not None and len(plain) == 1:
        return Text(attribute, plain)
    if plain is not None and len(plain) == 2 and "" in plain:
        return Text(attribute, None, *plain) if plain != ("", "") else Present(attribute)
    if plain is not None and len(plain) == 3 and plain[0] == plain[2] == "":
        return Text(attribute, contains=(plain[1],))
    return Text(attribute, None, parsed.prefix, parsed.suffix, like=(pattern,))


def text_within(b: Text, a: Text) -> bool:
    """Whether every text in ``b`` is in ``a``; False if that is not known."""
    if b.among is not None:
        return all(a.admits(text) for text in b.among)
    if a.among is not None:
        return False
    return (
        b.prefix.startswith(a.prefix)
        and b.suffix.endswith(a.suffix)
        and all(_contains(b, part) for part in a.contains)
        and all(pattern in b.like for pattern in a.like)
        and not any(b.admits(hole) for hole in a.holes)
        and all(_avoids(b, pattern) for pattern in a.unlike)
    )


def _contains(b: Text, part: str) -> bool:
    return part in b.prefix or part in b.suffix or any(part in held for held in b.contains)


def _avoids(b: Text, pattern: str) -> bool:
    """Whether nothing in ``b`` is like the pattern."""
    if pattern in b.unlike:
        return True
    avoided = of_pattern(b.attribute, pattern)
    if isinstance(avoided, Present):
        return False
    if avoided.among is not None:
        return not b.admits(avoided.among[0])
    wider = (of_pattern(b.attribute, other) for other in b.unlike)
    return _apart(b, avoided) or any(
        isinstance(other, Present) or text_within(avoided, other) for other in wider
    )


def excluding(prefix: str = "", suffix: str = "", part: str = "") -> str | None:
    r"""The LIKE pattern for one of these; None where LIKE cannot say it (``\`` before a ``%``)."""
    if suffix:
        return "%" + escape(suffix)
    if (prefix or part).endswith("\\"):
        return None
    return f"{escape(prefix)}%" if prefix else f"%{escape(part)}%"


# One attribute


@lru_cache(maxsize=1)
def _spelt_truths() -> dict[bool, tuple[Plain, ...]]:
    """Every value that reads as true, and every one that reads as false."""
    return {
        truth: (truth, *("".join(s) for s in product(*((c, c.upper()) for c in word))))
        for truth, word in ((True, "true"), (False, "false"))
    }


def finite(group: Group) -> list[Plain] | None:
    """The values that satisfy all predicates, where these can be listed."""
    candidates: list[Plain] | None = None
    for predicate in group:
        if isinstance(predicate, Text) and predicate.among is not None:
            candidates = [value for text in predicate.among for value in spellings(text)]
            break
        if isinstance(predicate, Truth):
            wanted = (True, False) if predicate.value is None else (predicate.value,)
            candidates = [value for truth in wanted for value in _spelt_truths()[truth]]
    if candidates is None:
        return None
    return [value for value in candidates if all(p.holds(value) for p in group)]


def tidy(group: list[Predicate]) -> Group | None:
    """The predicates of one attribute in their one spelling, or None if no value satisfies them."""
    if len(group) == 1:
        return tuple(group)
    if any(isinstance(p, Absent) for p in group):
        return None if any(not isinstance(p, Absent) for p in group) else (group[0],)
    merged: dict[type, Predicate] = {}
    for predicate in group:
        both: Predicate | None = predicate
        kind = type(predicate)
        held = merged.get(kind)
        if isinstance(predicate, Number) and isinstance(held, Number):
            both = intersect_numbers(held, predicate)
        elif isinstance(predicate, Text) and isinstance(held, Text):
            both = intersect_texts(held, predicate)
        elif isinstance(predicate, Truth) and isinstance(held, Truth):
            clash = None not in (held.value, predicate.value) and held.value != predicate.value
            both = None if clash else held if predicate.value is None else predicate
        if both is None:
            return None
        merged[kind] = both
    if len(merged) > 1:
        merged.pop(Present, None)
    return _across_readings(merged) if len(merged) > 1 else tuple(merged.values())


def _across_readings(merged: dict[type, Predicate]) -> Group | None:
    """A tidy group for an attribute that is read in two ways at once."""
    group = tuple(sorted(merged.values(), key=lambda p: ORDER[type(p)]))
    satisfying = finite(group)
    text = merged.get(Text)
    if satisfying is None:  # an interval, and a prefix or the like
        assert isinstance(text, Text)
        possible = _NUMBER_BEGINS.fullmatch(text.prefix) is not None
        natives: tuple[Plain, ...] = (True, False, inf, -inf)
        if not possible and not any(all(p.holds(v) for p in group) for v in natives):
            return None
        return group
    if not satisfying:
        return None
    if isinstance(text, Text) and text.among is not None:
        kept = [s for s in text.among if any(all(p.holds(v) for p in group) for v in spellings(s))]
        smaller = Text(text.attribute, tuple(kept))
        others = [
            p
            for p in group
            if not isinstance(p, Text) and not all(p.holds(v) for s in kept for v in spellings(s))
        ]
        return tuple(sorted((smaller, *others), key=lambda p: ORDER[type(p)]))
    return group


def group_within(b: Group, a: Group) -> bool:
    """Whether every value that satisfies ``b`` satisfies ``a``; False if that is not known."""
    if len(a) == len(b) == 1 and type(a[0]) is type(b[0]):
        if isinstance(a[0], Number) and isinstance(b[0], Number):
            return number_within(b[0], a[0])
        if isinstance(a[0], Text) and isinstance(b[0], Text):
            return text_within(b[0], a[0])
    elif a == b:
        return True
    listed = finite(b)
    if listed is not None:
        return all(p.holds(value) for p in a for value in listed)
    return all(any(_within(mine, theirs) for mine in b) for theirs in a)


def _within(b: Predicate, a: Predicate) -> bool:
    if isinstance(a, Present):
        return not isinstance(b, Absent)
    if isinstance(a, Number) and isinstance(b, Number):
        return number_within(b, a)
    if isinstance(a, Text) and isinstance(b, Text):
        return text_within(b, a)
    return a == b


def unite(a: Predicate, b: Predicate) -> Predicate | None:
    """A predicate satisfied by exactly what satisfies one or the other, if there is one."""
    if _within(a, b):
        return b
    if _within(b, a):
        return a
    if isinstance(a, Number) and isinstance(b, Number):
        return _unite_numbers(a, b)
    if isinstance(a, Text) and isinstance(b, Text) and None not in (a.among, b.among):
        return Text(a.attribute, tuple(sorted({*(a.among or ()), *(b.among or ())})))
    if isinstance(a, Truth) and isinstance(b, Truth):
        return Truth(a.attribute)
    return None


def _unite_numbers(a: Number, b: Number) -> Number | None:
    if (b.low, b.low_open) < (a.low, a.low_open):
        a, b = b, a
    if b.low > a.high:
        return None
    gap = [b.low] if b.low == a.high and b.low_open and a.high_open else []
    if (a.high, not a.high_open) > (b.high, not b.high_open):
        high, high_open = a.high, a.high_open
    else:
        high, high_open = b.high, b.high_open
    holes = [h for h in a.holes if not b.holds(h)] + [h for h in b.holes if not a.holds(h)]
    return make_number(a.attribute, a.low, high, a.low_open, high_open, sorted({*holes, *gap}))
