"""Filters of the drawn workloads, written in the filter language."""

from __future__ import annotations

from math import inf

from shoal.content.normal import NormalForm, Number, Predicate, Present, Text, Truth


def spell(form: NormalForm) -> str:
    """A workload's filter in the language.

    There, ``a = 1 OR b = 2`` fails where ``a`` is absent, whatever ``b`` is; hence the guards.
    """
    parts = [" AND ".join(map(_spell, c.predicates)) for c in form.disjuncts]
    if len(parts) == 1:
        return parts[0]
    guards = [
        " AND ".join(f"EXISTS {predicate.attribute}" for predicate in c.predicates)
        for c in form.disjuncts
    ]
    return " OR ".join(f"({g} AND {part})" for g, part in zip(guards, parts, strict=True))


def _spell(predicate: Predicate) -> str:
    name = predicate.attribute
    if isinstance(predicate, Present):
        return f"EXISTS {name}"
    if isinstance(predicate, Truth):
        return f"{name} = {'TRUE' if predicate.value else 'FALSE'}"
    if isinstance(predicate, Text):
        if predicate.among is not None:
            quoted = [f"'{text}'" for text in predicate.among]
            return (
                f"{name} = {quoted[0]}" if len(quoted) == 1 else f"{name} IN ({', '.join(quoted)})"
            )
        if predicate.holes:
            return f"{name} != '{predicate.holes[0]}'"
        contained = predicate.contains[0] if predicate.contains else ""
        middle = f"%{contained}%" if contained else "%"
        return f"{name} LIKE '{predicate.prefix}{middle}{predicate.suffix}'"
    assert isinstance(predicate, Number)
    if predicate.holes:
        return f"{name} != {predicate.holes[0]}"
    if predicate.low == predicate.high:
        return f"{name} = {predicate.low}"
    bounds = []
    if predicate.low != -inf:
        bounds.append(f"{name} {'>' if predicate.low_open else '>='} {predicate.low}")
    if predicate.high != inf:
        bounds.append(f"{name} {'<' if predicate.high_open else '<='} {predicate.high}")
    return " AND ".join(bounds)
