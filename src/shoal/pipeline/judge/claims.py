"""Claims: what a work says about its results, as data that the judge can decide.

A claim is one or more *checks*. A check names a measure, where it was taken (experiment, variants,
points of the axis), how a curve becomes one number (``relative_to``, ``over``, ``across``), and the
relation that number must stand in. ``docs/claims.md`` explains the words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import yaml
from msgspec import structs

from shoal.pipeline.errors import PipelineError

Kind: TypeAlias = Literal["quantitative", "ordinal", "invariant", "worked-example"]
EVERY_RUN = ("invariant", "worked-example")
"""Kinds of claim that must hold in every single run."""
Relation: TypeAlias = Literal[
    "equals", "at_least", "at_most", "about", "ordering", "same order", "trend", "always", "never"
]
Comparison: TypeAlias = Literal["improvement", "ratio", "difference", "saving", "reduction"]
Over: TypeAlias = Literal[
    "each",
    "mean",
    "max",
    "min",
    "spread",
    "relative_spread",
    "max_over_min",
    "change",
    "fall",
    "rise",
    "fall_from_peak",
    "hump",
    "peak_at",
    "largest_drop_at",
    "linearity",
]
ANY = "any"
"""In place of a reading: nothing that the claim looks at depends on how the text is read."""
DIRECTIONS = ("increasing", "decreasing", "not increasing", "not decreasing")


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a compared value is taken: the fields in which that differs from the check."""

    variant: str | None = None
    experiment: str | None = None
    x: tuple[float, float] | None = None
    """Range of x, both ends included."""
    measure: str | None = None

    def of(self, variant: str) -> Term:
        """This term, for a variant if it names none itself."""
        return self if self.variant is not None else structs.replace(self, variant=variant)

    def label(self) -> str:
        """The term in a few words."""
        points = None
        if self.x is not None:
            points = f"{self.x[0]:g}" if self.x[0] == self.x[1] else f"{self.x[0]:g}–{self.x[1]:g}"
        named = [self.variant, self.experiment, self.measure, points]
        return " ".join(part for part in named if part is not None)


Tier: TypeAlias = tuple[Term, ...]


class Check(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """One thing that must hold. See ``docs/claims.md``."""

    measure: str
    experiment: str
    relation: Relation
    variants: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}
    x: tuple[float, float] | None = None
    """First and last point of the axis that count; all points if not given."""
    relative_to: str | None = None
    """Another variant to compare with, at the same point and seed."""
    as_: Comparison = "improvement"
    over: Over = "each"
    """Summary over the points of the axis: one number each, or one for all."""
    across: Literal["each", "mean", "spread", "max", "min"] = "each"
    """Summary over the variants."""
    less: Term | None = None
    """Subtrahend: the same number of another variant, experiment or range."""
    ratio_to: Term | None = None
    """Divisor, likewise."""
    expected: Any = None
    tolerance: float | tuple[float, float] = 0.0
    """Largest accepted distance from ``expected``; or the lowest and the highest accepted value."""
    neutral: float | None = None
    """Value of the figure without the effect; a figure on the expected side has the right sign."""
    significant: bool | None = None
    """True: only the whole interval decides. False: the mean does. By default an interval no wider
    than a band of accepted values lets the mean decide, and otherwise the whole interval does."""
    factor: float = 1.0
    """Ordering: the greater is at least so many times the smaller."""
    test: Literal["monotone", "correlation", "ends"] = "monotone"
    """Trend: how it is tested."""

    def tiers(self) -> tuple[Tier, ...]:
        """The ordering, smallest first; terms within a tier are not ordered."""
        return tuple(_tier(item) for item in self.expected)

    def terms(self) -> list[Term]:
        """Terms that the check compares, each with its variant."""
        if self.relation == "ordering":
            named = [term for tier in self.tiers() for term in tier]
        else:
            named = [Term(), *(term for term in (self.less, self.ratio_to) if term is not None)]
        return [t.of(v) for t in named for v in (self.variants or ("",))]

    def places(self) -> set[tuple[str, str]]:
        """The experiments and variants it needs runs of."""
        needed = set()
        for term in self.terms():
            experiment = term.experiment or self.experiment
            needed.add((experiment, term.variant or ""))
            if self.relative_to is not None:
                needed.add((experiment, self.relative_to))
        return needed


def _tier(item: Any) -> Tier:
    members = item if isinstance(item, list) else [item]
    return tuple(_term(member) for member in members)


def _term(member: Any) -> Term:
    if isinstance(member, Term):
        return member
    return Term(variant=member) if isinstance(member, str) else msgspec.convert(member, Term)


class Reading(msgspec.Struct, frozen=True):
    """A claim's checks in another reading of the text: measured beside it, deciding nothing."""

    name: str
    checks: tuple[Check, ...]


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A statement of a work about its results."""

    id: str
    where: str
    kind: Kind
    words: str
    checks: tuple[Check, ...] = ()
    note: str = ""
    """Reading of the statement where the text leaves it open."""
    pending: str = ""
    """Why it cannot be run yet, for a claim without checks."""
    top: bool = False
    """One of the statements that matter most."""
    readings: tuple[str, ...] = ()
    """Readings of the text in which it is judged, where a work has several."""
    others: tuple[Reading, ...] = ()
    """The other readings. See :mod:`shoal.pipeline.judge.readings`."""

    def every_check(self) -> tuple[Check, ...]:
        """Its checks, and those of the other readings."""
        return self.checks + tuple(check for other in self.others for check in other.checks)

    def experiments(self) -> set[str]:
        """The names of the experiments it needs."""
        return {place for check in self.every_check() for place, _ in check.places()}


def read_yaml(path: Path) -> Any:
    """What a YAML file holds, read by libyaml if that is there: it takes a tenth of the time."""
    return yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def load_claims(path: Path) -> tuple[Claim, ...]:
    """Claims from a YAML file; a mistake in it is an error that names the claim."""
    claims = tuple(parse_claim(entry) for entry in read_yaml(path))
    seen: set[str] = set()
    for claim in claims:
        if claim.id in seen:
            raise PipelineError(f"{path.name}: claim {claim.id} stands twice", "remove one of them")
        seen.add(claim.id)
    return claims


def parse_claim(entry: Mapping[str, Any]) -> Claim:
    """One claim from plain data, wholly checked."""
    name = entry.get("id", "?")
    try:
        claim = msgspec.convert(entry, Claim)
        if not claim.checks and not claim.pending:
            raise msgspec.ValidationError("needs checks, or says in 'pending' why it has none")
        for check in claim.every_check():
            _validate(check)
            if claim.kind in EVERY_RUN and check.relation in ("ordering", "same order", "trend"):
                raise msgspec.ValidationError(f"{claim.kind}: a matter of every run, not of means")
    except msgspec.ValidationError as error:
        raise PipelineError(f"claim {name}: {error}", "see docs/claims.md") from None
    return claim


def _validate(check: Check) -> None:
    """Raise an error for a check whose fields are valid one by one, but not together."""
    if check.relation == "ordering":
        if not isinstance(check.expected, list) or len(check.expected) < 2:
            raise msgspec.ValidationError("an ordering lists at least two terms, smallest first")
        by_variant = any(t.variant is not None for tier in check.tiers() for t in tier)
        if by_variant and check.variants:
            raise msgspec.ValidationError("an ordering of variants names them in 'expected' alone")
        if not by_variant and not check.variants:
            raise msgspec.ValidationError("an ordering of other things names its variants")
    elif not check.variants:
        raise msgspec.ValidationError("a check names the variants it is for")
    if check.relation == "trend":
        if check.expected not in DIRECTIONS:
            raise msgspec.ValidationError(f"a trend is one of: {', '.join(DIRECTIONS)}")
    elif check.relation not in ("ordering", "same order", "always", "never") and not isinstance(
        check.expected, int | float
    ):
        raise msgspec.ValidationError(f"'{check.relation}' expects a number")
    if check.less is not None and check.ratio_to is not None:
        raise msgspec.ValidationError("'less' and 'ratio_to' exclude each other")
    if check.across != "each" and check.over == "each":
        raise msgspec.ValidationError("'across' needs one number per variant: say 'over'")


def accepted(check: Check) -> tuple[float, float]:
    """The values that a check accepts, lowest and highest."""
    if isinstance(check.tolerance, tuple):
        return check.tolerance
    expected = 1.0 if check.relation == "always" else 0.0
    if check.expected is not None:
        expected = float(check.expected)
    low = -math.inf if check.relation == "at_most" else expected - check.tolerance
    high = math.inf if check.relation == "at_least" else expected + check.tolerance
    return low, high


def expectations(claim: Claim) -> float | str | None:
    """What a claim expects: a number where it is one, else a few words."""
    if len(claim.checks) == 1 and isinstance(claim.checks[0].expected, int | float):
        return float(claim.checks[0].expected)
    return "; ".join(dict.fromkeys(expectation(check) for check in claim.checks)) or None


def expectation(check: Check) -> str:
    """What a check expects, in a few words."""
    if check.relation == "ordering":
        times = "" if check.factor == 1 else f" (at least {check.factor:g} ×)"
        return " < ".join(", ".join(t.label() for t in tier) for tier in check.tiers()) + times
    if check.relation == "trend":
        return str(check.expected)
    if check.relation == "same order":
        return check.relation
    expected = (check.relation == "always") * 1.0 if check.expected is None else check.expected
    if isinstance(check.tolerance, tuple):
        return f"{expected:g} ({check.tolerance[0]:g} to {check.tolerance[1]:g})"
    sign = {"about": "≈ ", "at_least": "≥ ", "at_most": "≤ "}.get(check.relation, "")
    slack = f" ± {check.tolerance:g}" if check.tolerance else ""
    return f"{sign}{expected:g}{slack}"
