"""Conjunctions as sets of events: intersection, inclusion, union. Sound, as in :mod:`.sets`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shoal.content.language.syntax import Expression, In, Literal
from shoal.content.normal import Conjunction, Number, Predicate, Text
from shoal.content.sets import Group, group_within, tidy, unite

ALWAYS = Conjunction()
"""Matches every event."""


def conjoin(a: Conjunction, b: Conjunction) -> Conjunction | None:
    """Both conjunctions in one, or None if they contradict each other."""
    if not b.predicates and not b.residue:
        return a
    if not a.predicates and not a.residue:
        return b
    residue = a.residue + tuple(e for e in b.residue if e not in a.residue)
    groups: dict[str, list[Predicate]] = {}
    for predicate in a.predicates:
        groups.setdefault(predicate.attribute, []).append(predicate)
    for predicate in b.predicates:
        held = groups.setdefault(predicate.attribute, [])
        if predicate not in held:
            held.append(predicate)
    predicates: list[Predicate] = []
    for attribute in sorted(groups):
        group = tidy(groups[attribute])
        if group is None:
            return None
        predicates.extend(group)
    return Conjunction(tuple(predicates), residue)


def conjunction(predicates: Iterable[Predicate], *residue: Expression) -> Conjunction | None:
    """A conjunction of any predicates in its one spelling, or None if it is contradictory."""
    found: Conjunction | None = Conjunction((), residue)
    for predicate in predicates:
        found = None if found is None else conjoin(found, Conjunction((predicate,)))
    return found


def by_attribute(found: Conjunction) -> dict[str, Group]:
    """The predicates of a conjunction, grouped."""
    groups: dict[str, Group] = {}
    for predicate in found.predicates:
        groups[predicate.attribute] = (*groups.get(predicate.attribute, ()), predicate)
    return groups


def within(b: Conjunction, a: Conjunction) -> bool:
    """Whether every event that satisfies ``b`` satisfies ``a``; False if that is not known."""
    mine, theirs = a.predicates, b.predicates
    at = place = 0  # both are sorted by attribute
    while at < len(mine):
        attribute = mine[at].attribute
        while place < len(theirs) and theirs[place].attribute < attribute:
            place += 1
        start, first = place, at
        while place < len(theirs) and theirs[place].attribute == attribute:
            place += 1
        while at < len(mine) and mine[at].attribute == attribute:
            at += 1
        if start == place or not group_within(theirs[start:place], mine[first:at]):
            return False
    return all(any(_implies(held, wanted) for held in b.residue) for wanted in a.residue)


def _implies(b: Expression, a: Expression) -> bool:
    """Whether one residue follows from another: the same, or IN with fewer constants."""
    if isinstance(a, In) and isinstance(b, In) and a.operand == b.operand:
        return all(isinstance(e, Literal) and e in a.elements for e in b.elements)
    return a == b


def merge_alike(
    disjuncts: list[Conjunction], spend: Callable[[int], None] | None = None
) -> list[Conjunction]:
    """Unite conjunctions that differ in one predicate, where the union is a predicate again.

    The result matches exactly the same events. ``spend`` is called with the work about to be done.
    """
    changed = True
    while changed and len(disjuncts) > 1:
        changed = False
        shapes: dict[tuple[object, ...], list[Conjunction]] = {}
        for one in disjuncts:
            shape = (one.residue, *((p.attribute, type(p)) for p in one.predicates))
            shapes.setdefault(shape, []).append(one)
        disjuncts = []
        for alike in shapes.values():
            for at in range(len(alike[0].predicates)):
                if len(alike) > 1:
                    if spend is not None:
                        spend(len(alike) * len(alike[0].predicates))
                    before = len(alike)
                    alike = _merge_along(alike, at)
                    changed = changed or len(alike) < before
            disjuncts += alike
    return disjuncts


def _merge_along(alike: list[Conjunction], at: int) -> list[Conjunction]:
    """Unite those that differ in the predicate at this place only."""
    buckets: dict[tuple[Predicate, ...], list[Predicate]] = {}
    for one in alike:
        rest = one.predicates[:at] + one.predicates[at + 1 :]
        buckets.setdefault(rest, []).append(one.predicates[at])
    residue = alike[0].residue
    return [
        Conjunction((*rest[:at], predicate, *rest[at:]), residue)
        for rest, predicates in buckets.items()
        for predicate in unite_all(predicates)
    ]


def unite_all(predicates: list[Predicate]) -> list[Predicate]:
    """The union of predicates of one class, as few predicates as are found."""
    if len(predicates) < 2:
        return predicates
    first = predicates[0]
    if isinstance(first, Text):
        listed = [p.among for p in predicates if isinstance(p, Text) and p.among is not None]
        if len(listed) > 1:
            union = Text(
                first.attribute, tuple(sorted({text for among in listed for text in among}))
            )
            others = [p for p in predicates if isinstance(p, Text) and p.among is None]
            return [union, *others]
        return predicates
    if isinstance(first, Number):
        numbers = [p for p in predicates if isinstance(p, Number)]
        numbers.sort(key=lambda p: (p.low, p.low_open))
        predicates = [*numbers]
    merged = [predicates[0]]
    for predicate in predicates[1:]:
        united = unite(merged[-1], predicate)
        if united is None:
            merged.append(predicate)
        else:
            merged[-1] = united
    return merged
