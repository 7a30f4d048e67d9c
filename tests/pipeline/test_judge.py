"""Every verdict arises from measures made up for it, and a wrong one cannot pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge.claims import parse_claim
from shoal.pipeline.judge.samples import Row, Samples
from shoal.pipeline.judge.statistics import jackknife
from shoal.pipeline.judge.verdicts import Judgement, Runs, judge

SEEDS = 10


def rows(
    value: Callable[[float | None, int], float],
    variant: str = "A",
    points: tuple[float | None, ...] = (None,),
    seeds: int = SEEDS,
    experiment: str = "e",
    measure: str = "m",
) -> list[Row]:
    return [
        (measure, experiment, variant, x, seed, value(x, seed))
        for x in points
        for seed in range(seeds)
    ]


def noise(seed: int, size: float = 1.0) -> float:
    """The same for every variant at a seed, mean zero over ten seeds."""
    return size * (seed - 4.5) / 4.5


def decide(
    check: dict[str, Any], *values: list[Row], kind: str = "quantitative", **more: Any
) -> Judgement:
    claim = parse_claim(
        {
            "id": "X",
            "where": "here",
            "kind": kind,
            "words": "so it is",
            "checks": [{"measure": "m", "experiment": "e", **check}],
        }
    )
    samples = Samples(row for table in values for row in table)
    (judgement,) = judge([claim], samples, **more)
    return judgement


def verdict(check: dict[str, Any], *values: list[Row], kind: str = "ordinal") -> str:
    return decide(check, *values, kind=kind).verdict


# Values


def about(expected: float, tolerance: float, **more: Any) -> dict[str, Any]:
    return {
        "variants": ["A"],
        "relation": "about",
        "expected": expected,
        "tolerance": tolerance,
        **more,
    }


def test_a_value_within_its_tolerance_is_reproduced() -> None:
    found = decide(about(70, 8), rows(lambda x, s: 72 + noise(s)))
    assert found.verdict == "reproduced"
    assert found.value == pytest.approx(72)
    assert found.seeds == SEEDS


def test_the_interval_of_a_mean_is_students() -> None:
    sample = [72 + noise(s, 5) for s in range(SEEDS)]
    found = decide(about(70, 8), rows(lambda x, s: sample[s]))
    low, high = stats.t.interval(0.95, SEEDS - 1, np.mean(sample), stats.sem(sample))
    assert [found.low, found.high] == pytest.approx([low, high])


def test_a_value_outside_with_the_right_sign_is_order_only() -> None:
    assert decide(about(70, 8, neutral=0), rows(lambda x, s: 40 + noise(s))).verdict == "order only"


def test_a_value_outside_is_not_reproduced_where_no_sign_is_claimed() -> None:
    assert decide(about(70, 8), rows(lambda x, s: 40 + noise(s))).verdict == "not reproduced"


@pytest.mark.parametrize("mean", [-40.0, 0.1])
def test_the_wrong_sign_or_no_significant_one_is_not_reproduced(mean: float) -> None:
    found = decide(about(70, 8, neutral=0), rows(lambda x, s: mean + noise(s, 5)))
    assert found.verdict == "not reproduced"


def test_a_band_is_taken_as_it_stands() -> None:
    band = {"variants": ["A"], "relation": "about", "expected": 0.5, "tolerance": [0.35, 0.65]}
    assert decide(band, rows(lambda x, s: 0.36)).verdict == "reproduced"
    assert decide(band, rows(lambda x, s: 0.34)).verdict == "not reproduced"


@pytest.mark.parametrize(
    ("relation", "value", "expected"),
    [
        ("at_least", 0.94, "reproduced"),
        ("at_least", 0.92, "not reproduced"),
        ("at_most", 0.96, "reproduced"),
        ("at_most", 0.98, "not reproduced"),
    ],
)
def test_bounds_have_their_tolerance(relation: str, value: float, expected: str) -> None:
    check = {"variants": ["A"], "relation": relation, "expected": 0.95, "tolerance": 0.02}
    assert decide(check, rows(lambda x, s: value)).verdict == expected


def test_a_bound_needs_the_whole_interval_unless_it_speaks_of_means() -> None:
    check = {"variants": ["A"], "relation": "at_least", "expected": 0}
    assert decide(check, rows(lambda x, s: 5 + noise(s))).verdict == "reproduced"
    assert decide(check, rows(lambda x, s: -5 + noise(s))).verdict == "not reproduced"
    for mean in (0.1, -0.1):
        assert decide(check, rows(lambda x, s, m=mean: m + noise(s))).verdict == "undecided"  # type: ignore[misc]
    by_means = check | {"significant": False}
    found = decide(by_means, rows(lambda x, s: 0.1 + noise(s)))
    assert (found.verdict, found.means_only) == ("reproduced", True)
    found = decide(by_means, rows(lambda x, s: 5 + noise(s)))
    assert (found.verdict, found.means_only) == ("reproduced", False), "its interval says so too"


@pytest.mark.parametrize("mean", [70.0, 60.0])
def test_an_interval_wider_than_the_tolerance_decides_nothing(mean: float) -> None:
    found = decide(about(70, 8, neutral=0), rows(lambda x, s: mean + noise(s, 100)))
    assert found.verdict == "undecided"
    assert found.value == pytest.approx(mean)
    assert "leaves it open" in found.why


def test_a_wide_interval_decides_where_it_lies_outside() -> None:
    assert decide(about(70, 8), rows(lambda x, s: 1000 + noise(s, 100))).verdict == "not reproduced"


def test_the_mean_decides_where_a_narrow_interval_reaches_over_the_edge() -> None:
    found = decide(about(70, 8), rows(lambda x, s: 77 + noise(s, 5)))
    assert (found.verdict, found.means_only) == ("reproduced", True)
    found = decide(about(70, 8, significant=True), rows(lambda x, s: 77 + noise(s, 5)))
    assert (found.verdict, found.means_only) == ("undecided", False)


def test_a_figure_is_undecided_rather_than_order_only_and_failed_rather_than_undecided() -> None:
    values = {1.0: 70.0, 2.0: 40.0, 3.0: 60.0, 4.0: -40.0}
    table = rows(
        lambda x, s: values[x or 0] + noise(s, 100 if x == 3.0 else 1), points=tuple(values)
    )
    for last, expected in ((1, "reproduced"), (2, "order only"), (3, "undecided")):
        assert decide(about(70, 8, neutral=0, x=[1, last]), table).verdict == expected
    assert decide(about(70, 8, neutral=0), table).verdict == "not reproduced"


def test_the_worst_point_decides() -> None:
    check = {"variants": ["A"], "relation": "at_least", "expected": 0}
    found = decide(check, rows(lambda x, s: (x or 0) - 3 + noise(s, 0.1), points=(1, 5, 9)))
    assert found.verdict == "not reproduced"
    assert found.value == pytest.approx(-2)
    assert "at 1" in found.why


def test_points_outside_the_range_do_not_matter() -> None:
    check = {"variants": ["A"], "relation": "at_least", "expected": 0, "x": [5, 9]}
    assert decide(check, rows(lambda x, s: (x or 0) - 3, points=(1, 5, 9))).verdict == "reproduced"


# Comparisons


def test_an_improvement_is_that_of_the_means() -> None:
    strawman = rows(lambda x, s: 100.0 if s else 1000.0, "SM")
    other = rows(lambda x, s: 50.0 if s else 100.0)
    found = decide(about(0, 100, relative_to="SM"), strawman, other)
    expected = 100 * (1 - (9 * 50 + 100) / (9 * 100 + 1000))
    assert found.value == pytest.approx(expected)


def test_a_reference_without_an_axis_serves_every_point() -> None:
    strawman = rows(lambda x, s: 10.0, "SM")
    other = rows(lambda x, s: 10 * (x or 0), points=(1, 2))
    check = about(1, 0.01, relative_to="SM", x=[1, 1]) | {"as": "ratio"}
    assert decide(check, strawman, other).verdict == "reproduced"


def test_the_difference_between_two_experiments() -> None:
    here = rows(lambda x, s: 80 + noise(s), experiment="e")
    there = rows(lambda x, s: 70 + noise(s), experiment="f")
    found = decide(about(10, 1, less={"experiment": "f"}), here, there)
    assert found.verdict == "reproduced"
    assert found.value == pytest.approx(10)
    assert found.high is not None
    assert found.high < 10.001, "paired: what seeds have in common does not widen the interval"


def test_the_ratio_to_another_point() -> None:
    values = {0.2: 10.0, 0.5: 38.0}
    table = rows(lambda x, s: values[x or 0] * (1 + noise(s, 0.5)), points=tuple(values))
    almost_four = about(4, 0, over="mean", x=[0.5, 0.5], ratio_to={"x": [0.2, 0.2]})
    for tolerance, expected in (([3.5, 4], "reproduced"), ([3.9, 4], "order only")):
        found = decide(almost_four | {"tolerance": tolerance, "neutral": 1}, table)
        assert found.verdict == expected
        assert found.value == pytest.approx(3.8)


def test_a_ratio_to_nothing_is_not_run() -> None:
    a, b = rows(lambda x, s: 1.0), rows(lambda x, s: 0.0, "B")
    assert decide(about(1, 1, over="mean", ratio_to={"variant": "B"}), a, b).verdict == "not run"
    beside = {"relative_to": "B", "as": "ratio"}
    assert decide(about(1, 1, **beside), a, b).verdict == "not run"
    assert verdict(ordering("A", "C", **beside), a, b, rows(lambda x, s: 2.0, "C")) == "not run"


@pytest.mark.parametrize(
    ("over", "value"),
    [
        ("mean", 6.0),
        ("max", 10.0),
        ("min", 2.0),
        ("spread", 8.0),
        ("change", -5.0),
        ("fall", 5.0),
        ("rise", 3 / 7),
        ("fall_from_peak", 8.0),
        ("peak_at", 2.0),
        ("largest_drop_at", 2.5),
        ("max_over_min", 5.0),
        ("relative_spread", 8 / 6),
    ],
)
def test_how_a_curve_becomes_a_number(over: str, value: float) -> None:
    curve = {1.0: 7.0, 2.0: 10.0, 3.0: 5.0, 4.0: 2.0}
    table = rows(lambda x, s: curve[x or 0], points=(1.0, 2.0, 3.0, 4.0))
    assert decide(about(0, 1e9, over=over), table).value == pytest.approx(
        -5.0 if over == "change" else value
    )


def test_spread_across_variants() -> None:
    tables = [rows(lambda x, s, v=v: v + noise(s), str(v)) for v in (1.0, 2.0, 4.0)]  # type: ignore[misc]
    check = about(0, 2, over="mean", across="spread") | {"variants": ["1.0", "2.0", "4.0"]}
    found = decide(check, *tables)
    assert found.verdict == "not reproduced"
    assert found.value == pytest.approx(3)


# Orderings


def ordering(*expected: Any, **more: Any) -> dict[str, Any]:
    return {"relation": "ordering", "expected": list(expected), **more}


def test_an_order_is_paired_over_seeds() -> None:
    """Seeds differ by far more than the variants do; within each seed the order is clear."""
    a = rows(lambda x, s: noise(s, 100))
    b = rows(lambda x, s: noise(s, 100) + 1 + noise(s, 0.1), "B")
    found = decide(ordering("A", "B"), a, b, kind="ordinal")
    assert found.verdict == "reproduced"
    assert found.value == pytest.approx(1)


def test_an_order_that_is_not_significant_is_undecided() -> None:
    a, b = rows(lambda x, s: 0.0), rows(lambda x, s: 0.1 + noise(s, 5), "B")
    assert verdict(ordering("A", "B"), a, b) == "undecided"
    assert verdict(ordering("B", "A"), a, b) == "undecided"
    found = decide(ordering("A", "B", significant=False), a, b)
    assert (found.verdict, found.means_only) == ("reproduced", True)


def test_the_wrong_order_is_not_reproduced() -> None:
    a, b = rows(lambda x, s: 1.0), rows(lambda x, s: 0.0, "B")
    assert verdict(ordering("A", "B"), a, b) == "not reproduced"
    assert decide(ordering("A", "B", significant=False), a, b).verdict == "not reproduced"


def test_equal_values_are_in_no_order() -> None:
    a, b = rows(lambda x, s: 1.0), rows(lambda x, s: 1.0, "B")
    assert verdict(ordering("A", "B"), a, b) == "not reproduced"


def test_terms_of_a_tier_are_not_ordered_among_themselves() -> None:
    tables = [rows(lambda x, s, v=v: v + noise(s), n) for n, v in {"A": 1, "B": 0, "C": 9}.items()]  # type: ignore[misc]
    assert verdict(ordering(["A", "B"], "C"), *tables) == "reproduced"
    assert verdict(ordering("A", "B", "C"), *tables) == "not reproduced"


def test_an_order_at_every_point_fails_at_one() -> None:
    a = rows(lambda x, s: 0.0, points=(1, 2, 3))
    b = rows(lambda x, s: 1.0 if x != 2 else -1.0, "B", points=(1, 2, 3))
    found = decide(ordering("A", "B"), a, b, kind="ordinal")
    assert found.verdict == "not reproduced"
    assert "at 2" in found.why
    assert decide(ordering("A", "B", over="mean", significant=False), a, b).verdict == "reproduced"


@pytest.mark.parametrize(
    ("b", "expected"), [(3.5, "reproduced"), (2.0, "order only"), (0.5, "not reproduced")]
)
def test_a_factor_between_them(b: float, expected: str) -> None:
    tables = rows(lambda x, s: 1 + noise(s, 0.01)), rows(lambda x, s: b + noise(s, 0.01), "B")
    assert verdict(ordering("A", "B", factor=3), *tables) == expected


def test_an_order_of_experiments_and_of_ranges() -> None:
    low, high = rows(lambda x, s: 0.0), rows(lambda x, s: 1.0, experiment="f")
    check = ordering({"experiment": "e"}, {"experiment": "f"}, variants=["A"])
    assert verdict(check, low, high) == "reproduced"
    curve = rows(lambda x, s: x or 0, points=(1, 2, 8, 9))
    check = ordering({"x": [1, 2]}, {"x": [8, 9]}, variants=["A"], over="mean")
    assert verdict(check, curve) == "reproduced"


# Trends


def trend(direction: str, **more: Any) -> dict[str, Any]:
    return {"variants": ["A"], "relation": "trend", "expected": direction, **more}


POINTS = (1.0, 2.0, 3.0, 4.0, 5.0)


def curve(*values: float, size: float = 0.1) -> list[Row]:
    """A curve whose neighbouring points vary in opposite ways from seed to seed."""

    def value(x: float | None, seed: int) -> float:
        number = int(x or 0)
        return values[number - 1] + noise(seed, size if number % 2 else -size)

    return rows(value, points=POINTS)


def test_a_monotone_curve() -> None:
    assert verdict(trend("increasing"), curve(1, 2, 3, 4, 5)) == "reproduced"
    assert verdict(trend("decreasing"), curve(5, 4, 3, 2, 1)) == "reproduced"
    assert verdict(trend("decreasing"), curve(1, 2, 3, 4, 5)) == "not reproduced"


def test_a_significant_step_back_leaves_the_order_only() -> None:
    assert verdict(trend("increasing"), curve(1, 4, 2, 4, 5)) == "order only"


def test_small_steps_back_can_be_allowed() -> None:
    wobbly = curve(1, 2, 1.98, 4, 5, size=0.5)
    assert verdict(trend("increasing"), wobbly) == "order only"
    assert verdict(trend("increasing", tolerance=1), wobbly) == "reproduced"


def test_a_flat_curve_does_not_increase_but_is_not_increasing() -> None:
    flat = rows(lambda x, s: 1.0, points=POINTS)
    assert verdict(trend("increasing"), flat) == "not reproduced"
    assert verdict(trend("not increasing"), flat) == "reproduced"
    assert verdict(trend("not increasing"), curve(1, 2, 3, 4, 5)) == "not reproduced"


@pytest.mark.parametrize("expected", ["not increasing", "not decreasing", "increasing"])
def test_a_trend_from_one_seed_is_undecided(expected: str) -> None:
    values = {1.0: 1.0, 2.0: 10.0, 3.0: 100.0}
    table = rows(lambda x, s: values[x or 0], points=tuple(values), seeds=1)
    assert verdict(trend(expected), table) == "undecided"
    assert verdict(trend(expected, test="correlation", tolerance=0.8), table) == "undecided"


def test_the_same_order_at_every_point() -> None:
    """Of every two, the same one is above; where the noise may hide it, nothing is decided."""
    check = {"relation": "same order", "variants": ["A", "B"]}
    flat = rows(lambda x, s: noise(s), points=POINTS[:3])

    def off_by(*by: float) -> list[Row]:
        by_point = dict(zip(POINTS[:3], by, strict=True))
        return rows(lambda x, s: noise(s) + by_point[x or 0], "B", points=POINTS[:3])

    assert verdict(check, flat, off_by(1, 2, 3)) == "reproduced"
    assert verdict(check, flat, off_by(-1, -2, -3)) == "reproduced"
    assert verdict(check, flat, off_by(1, 2, -3)) == "not reproduced"
    noisy = rows(lambda x, s: 0.1 + 5 * noise(s), "B", points=POINTS[:3])
    assert verdict(check, flat, noisy) == "undecided"


def test_a_trend_within_the_noise_is_undecided() -> None:
    """The seeds disagree by more than the curve changes, whichever way it is read."""
    table = rows(lambda x, s: (x or 0) + noise(s, 50) * (-1) ** int(x or 0), points=POINTS[:4])
    for expected in ("increasing", "decreasing", "not increasing", "not decreasing"):
        assert verdict(trend(expected), table) == "undecided"


def test_a_rise_that_the_noise_may_hide_leaves_not_increasing_undecided() -> None:
    """The curve falls for sure, but the step from 1 to 10 is as uncertain as the fall is large."""
    values = {1.0: 100.0, 2.0: 1.0, 3.0: 10.0}
    table = rows(
        lambda x, s: values[x or 0] + (noise(s, 200) if x == 2.0 else 0), points=tuple(values)
    )
    assert verdict(trend("not increasing"), table) == "undecided"
    steady = rows(
        lambda x, s: values[x or 0] - (9 * (x == 3.0)) + noise(s, 1 + (x or 0)),
        points=tuple(values),
    )
    assert verdict(trend("not increasing"), steady) == "reproduced"


def test_correlation_and_ends() -> None:
    bent = curve(1, 3, 2, 4, 5)
    correlated = trend("increasing", test="correlation", tolerance=0.8)
    assert verdict(correlated, bent) == "reproduced"
    assert decide(correlated, bent, kind="ordinal").means_only, "ranks of means have no interval"
    # 5 points with a sum of squared rank differences of 4: exactly 0.8, whatever floats make of it.
    assert verdict(correlated, curve(2, 1, 4, 3, 5)) == "reproduced"
    assert verdict(correlated, curve(3, 1, 5, 2, 4)) == "order only"
    grown = trend("increasing", test="ends", tolerance=0.1)
    assert verdict(grown, curve(10, 9, 9, 10, 12)) == "reproduced"
    assert verdict(grown, curve(10, 9, 9, 10, 10.4)) == "order only"
    assert verdict(grown, curve(10, 9, 9, 10, 9)) == "not reproduced"


# Invariants


def test_an_invariant_needs_every_run() -> None:
    check = {"variants": ["A"], "relation": "equals", "expected": 1}
    assert verdict(check, rows(lambda x, s: 1.0), kind="invariant") == "reproduced"
    found = decide(check, rows(lambda x, s: 1.0 if s != 7 else 0.999), kind="invariant")
    assert (found.verdict, found.value) == ("not reproduced", 0.999)
    assert "1 of 10" in found.why


def test_always_and_never() -> None:
    always, never = ({"variants": ["A"], "relation": r} for r in ("always", "never"))
    assert verdict(always, rows(lambda x, s: 1.0), kind="invariant") == "reproduced"
    assert verdict(never, rows(lambda x, s: 0.0), kind="invariant") == "reproduced"
    assert verdict(never, rows(lambda x, s: float(s == 3)), kind="invariant") == "not reproduced"


def test_a_failed_run_counts_against_an_invariant() -> None:
    check = {"variants": ["A"], "relation": "always"}
    runs = {"planned": planned(SEEDS), "failed": planned(1)}
    found = decide(check, rows(lambda x, s: 1.0, seeds=SEEDS - 1), kind="invariant", **runs)
    assert found.verdict == "not reproduced"
    assert "1 of 10 runs failed" in found.why


def test_an_exact_ratio_per_seed() -> None:
    check = {
        "variants": ["A"],
        "relation": "equals",
        "expected": 1,
        "relative_to": "SM",
        "as": "ratio",
    }
    strawman = rows(lambda x, s: 10.0 + s, "SM")
    assert verdict(check, strawman, rows(lambda x, s: 10.0 + s), kind="invariant") == "reproduced"
    shuffled = rows(lambda x, s: 19.0 - s)
    assert verdict(check, strawman, shuffled, kind="invariant") == "not reproduced"


# Not run


def test_without_values_a_claim_is_not_run() -> None:
    found = decide(about(1, 1), rows(lambda x, s: 1.0, "B"))
    assert (found.verdict, found.value, found.seeds) == ("not run", None, 0)
    found = decide(about(1, 1), [], missing={("e", "A"): "unknown reconfiguration 'x'"})
    assert (found.verdict, found.why) == ("not run", "unknown reconfiguration 'x'")


def test_a_point_that_was_left_out_is_not_run() -> None:
    found = decide(about(1, 1, x=[7, 7]), rows(lambda x, s: 1.0, points=(1, 2)))
    assert found.verdict == "not run"


def planned(seeds: int, *points: float, variant: str = "A") -> Runs:
    return {("e", variant): Counter(dict.fromkeys(points or (None,), seeds))}


def test_a_figure_needs_all_planned_runs() -> None:
    one = rows(lambda x, s: 70.0, seeds=1)
    found = decide(about(70, 8), one, planned=planned(10), failed=planned(9))
    assert (found.verdict, found.value) == ("not run", None)
    assert "9 of 10 runs of A in 'e' failed" in found.why


def test_a_failed_run_at_another_point_does_not_matter() -> None:
    table = rows(lambda x, s: 70.0, points=(1, 2))
    runs: dict[str, Any] = {"planned": planned(SEEDS, 1, 2), "failed": planned(1, 2)}
    assert decide(about(70, 8, x=[1, 1]), table, **runs).verdict == "reproduced"
    found = decide(about(70, 8), table, **runs)
    assert (found.verdict, found.why) == ("not run", "1 of 20 runs of A in 'e' failed")


def test_a_run_without_a_value_leaves_a_comparison_not_run() -> None:
    a = rows(lambda x, s: 0.0)
    b = [row for row in rows(lambda x, s: 1.0, "B") if row[4] != 0]
    runs = {"planned": {**planned(SEEDS), **planned(SEEDS, variant="B")}}
    found = decide(ordering("A", "B"), a, b, kind="ordinal", **runs)
    assert found.verdict == "not run"
    assert "9 of 10 seeds of B" in found.why


def test_variants_with_different_seeds_are_compared_over_those_they_share() -> None:
    a, b = rows(lambda x, s: noise(s)), rows(lambda x, s: 1 + noise(s), "B", seeds=4)
    runs = {"planned": {**planned(SEEDS), **planned(4, variant="B")}}
    found = decide(ordering("A", "B"), a, b, kind="ordinal", **runs)
    assert (found.verdict, found.seeds) == ("reproduced", 4)


def test_one_seed_gives_a_value_but_no_verdict() -> None:
    a, b = rows(lambda x, s: 0.0, seeds=1), rows(lambda x, s: 1.0, "B", seeds=1)
    assert verdict(ordering("A", "B"), a, b) == "undecided"
    found = decide(about(0, 1), a)
    assert (found.verdict, found.value, found.low) == ("undecided", 0.0, None)
    assert "one seed" in found.why
    bound = {"variants": ["A"], "relation": "at_most", "expected": 5}
    assert decide(bound, a).verdict == "undecided"
    assert decide(bound | {"significant": False}, a).verdict == "undecided"
    assert verdict(ordering("A", "B", significant=False), a, b) == "undecided"


# The data


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"relation": "roughly"}, "relation"),
        ({"expected": "much"}, "expects a number"),
        ({"relation": "trend", "expected": "up"}, "a trend is one of"),
        ({"relation": "ordering", "expected": ["A"]}, "at least two"),
        ({"relation": "ordering", "expected": ["A", "B"]}, "in 'expected' alone"),
        ({"variants": []}, "variants"),
        ({"across": "spread"}, "say 'over'"),
        ({"tolerence": 3}, "tolerence"),
        ({"less": {"x": [1, 1]}, "ratio_to": {"x": [2, 2]}}, "exclude each other"),
    ],
)
def test_a_mistake_in_a_claim_is_named(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(PipelineError, match=f"claim X: .*{complaint}"):
        decide(about(1, 1) | change)


def test_an_invariant_is_no_matter_of_means() -> None:
    with pytest.raises(PipelineError, match="every run"):
        decide(ordering("A", "B"), kind="invariant")


def test_the_row_for_claims_json() -> None:
    row = decide(about(70, 8), rows(lambda x, s: 72 + noise(s))).row()
    assert list(row) == [
        *("id", "verdict", "value", "low", "high", "expected", "seeds", "means_only", "why")
    ]
    assert (row["id"], row["verdict"], row["expected"]) == ("X", "reproduced", 70)


def test_the_jackknife_of_a_difference_is_the_paired_t_interval() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 10, 30), rng.normal(1, 10, 30)
    found = jackknife(lambda kept: float(b[kept].mean() - a[kept].mean()), 30)
    low, high = stats.t.interval(0.95, 29, (b - a).mean(), stats.sem(b - a))
    assert [found.low, found.high] == pytest.approx([low, high])
