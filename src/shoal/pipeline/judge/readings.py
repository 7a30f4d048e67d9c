"""Readings of a text: where a work leaves something open, each claim is measured in all of them.

A reading says where its runs are: it takes an experiment and a variant to those that read the text
this way. A claim is judged in the readings in which it is stated. In every other one the same
checks are measured and decided too, and shown beside its verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import structs

from shoal.pipeline.judge.claims import ANY, Check, Claim, Reading, Term

Place: TypeAlias = Callable[[str, str], tuple[str, str]]
"""From an experiment and a variant to those of a reading."""


def with_readings(claim: Claim, readings: Mapping[str, Place]) -> Claim:
    """A claim with its checks in each of these readings, by name, before those it has already."""
    stated = _figures(claim.checks)
    read = {name: _checks(claim, place) for name, place in readings.items()}
    if all(_figures(checks) == stated for checks in read.values()):
        return structs.replace(claim, readings=(ANY,))
    judged = tuple(name for name, checks in read.items() if _figures(checks) <= stated)
    if not judged:
        raise ValueError(f"claim {claim.id} is stated in no reading")
    others = tuple(Reading(name, read[name]) for name in readings if name not in judged)
    return structs.replace(claim, readings=judged, others=(*others, *claim.others))


def _checks(claim: Claim, place: Place) -> tuple[Check, ...]:
    """The checks of a claim in a reading; of two that have become the same, one."""
    read = [_read(check, place) for check in claim.checks]
    return tuple({msgspec.json.encode(check): check for check in read}.values())


def _read(check: Check, place: Place) -> Check:
    """A check where a reading has its runs."""
    ordering = check.relation == "ordering"
    tiers = check.tiers() if ordering else ()
    first = check.variants[0] if check.variants else tiers[0][0].variant or ""

    def term(one: Term) -> Term:
        where, variant = place(one.experiment or check.experiment, one.variant or first)
        return structs.replace(
            one,
            variant=variant if one.variant is not None else None,
            experiment=where if one.experiment is not None else None,
        )

    def other(one: Term | None) -> Term | None:
        return None if one is None else term(one)

    variants = [place(check.experiment, variant)[1] for variant in check.variants]
    reference = check.relative_to
    return structs.replace(
        check,
        experiment=place(check.experiment, first)[0],
        variants=tuple(dict.fromkeys(variants)),
        relative_to=None if reference is None else place(check.experiment, reference)[1],
        less=other(check.less),
        ratio_to=other(check.ratio_to),
        expected=[[term(one) for one in tier] for tier in tiers] if ordering else check.expected,
    )


def _figures(checks: tuple[Check, ...]) -> set[bytes]:
    """What checks look at, each variant by itself."""
    found = set()
    for check in checks:
        expected = check.tiers() if check.relation == "ordering" else check.expected
        for variant in check.variants or ("",):
            figure = structs.replace(check, variants=(variant,), expected=expected)
            found.add(msgspec.json.encode(figure))
    return found
