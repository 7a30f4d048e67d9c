"""A claim in several readings of the text: one is judged, the others stand beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.cli.reproduce import show
from shoal.pipeline.judge.claims import ANY, Claim, parse_claim
from shoal.pipeline.judge.readings import Place, with_readings
from shoal.pipeline.judge.samples import Row, Samples
from shoal.pipeline.judge.verdicts import Judgement, judge
from shoal.pipeline.measure.compute import questions
from shoal.pipeline.paper import Paper
from shoal.pipeline.plan.experiment import Experiment, plan
from shoal.pipeline.report.page import Reproduced, render
from shoal.pipeline.simulate.sweep import SweepOutcome


def narrow(experiment: str, variant: str) -> tuple[str, str]:
    return experiment, variant.removesuffix("*")


def wide(experiment: str, variant: str) -> tuple[str, str]:
    return experiment, variant.removesuffix("*") + "*"


READINGS: dict[str, Place] = {"narrow": narrow, "wide": wide}
AT_MOST: dict[str, Any] = {"relation": "at_most", "expected": 12}


def claim(*checks: dict[str, Any], **more: Any) -> Claim:
    stated = [{"measure": "m", "experiment": "e", **check} for check in checks]
    entry = {"id": "X", "where": "", "kind": "ordinal", "words": "so it is", "checks": stated}
    return with_readings(parse_claim({**entry, **more}), READINGS)


def judged(stated: Claim) -> Judgement:
    values = {"A": 10.0, "B": 11.0, "A*": 20.0, "B*": 15.0}
    rows: list[Row] = [
        ("m", "e", variant, None, seed, value + 0.01 * seed)
        for variant, value in values.items()
        for seed in range(5)
    ]
    (found,) = judge([stated], Samples(rows))
    return found


def test_one_reading_is_judged_and_the_other_is_decided_beside_it() -> None:
    found = judged(claim({"variants": ["A"], **AT_MOST}))
    assert found.verdict == "reproduced"
    row = found.row()
    assert row["readings"] == ["narrow"]
    (other,) = row["others"]
    assert (other["reading"], other["verdict"]) == ("wide", "not reproduced")
    assert other["value"] == pytest.approx(20.02)
    assert other["low"] < 20.02 < other["high"]


def test_the_terms_of_an_ordering_and_a_reference_are_read_alike() -> None:
    found = judged(claim({"relation": "ordering", "expected": ["A", "B"]}))
    assert (found.verdict, found.others[0][1].verdict) == ("reproduced", "not reproduced")
    ratio = {"variants": ["A"], "relative_to": "B", "as": "ratio", **AT_MOST}
    assert judged(claim(ratio)).others[0][1].value == pytest.approx(20.02 / 15.02)
    other = {"variants": ["A"], "less": {"variant": "B"}, **AT_MOST}
    assert judged(claim(other)).others[0][1].value == pytest.approx(5.0)


def test_a_claim_stated_in_every_reading_has_no_others() -> None:
    both = claim({"variants": ["A", "A*"], **AT_MOST})
    assert (both.readings, both.others) == (("narrow", "wide"), ())
    apart = claim({"variants": ["A"], **AT_MOST}, {"variants": ["A*"], **AT_MOST})
    assert (apart.readings, apart.others) == (("narrow", "wide"), ())


def test_a_claim_stated_in_one_reading_as_a_whole_is_judged_in_that_one() -> None:
    mixed = claim({"variants": ["A", "A*"], **AT_MOST}, {"variants": ["B*"], **AT_MOST})
    assert mixed.readings == ("wide",)
    assert [check.variants for check in mixed.others[0].checks] == [("A",), ("B",)]


def test_a_claim_that_no_reading_touches_says_so() -> None:
    stated = parse_claim(
        {
            "id": "X",
            "where": "",
            "kind": "ordinal",
            "words": "",
            "checks": [{"measure": "m", "experiment": "e", "variants": ["A"], **AT_MOST}],
        }
    )
    same = with_readings(stated, {"one": lambda e, v: (e, v), "two": lambda e, v: (e, v)})
    assert (same.readings, same.others) == ((ANY,), ())


def test_a_claim_that_mixes_readings_is_refused() -> None:
    with pytest.raises(ValueError, match="claim X is stated in no reading"):
        claim({"variants": ["A"], **AT_MOST}, {"variants": ["B*"], **AT_MOST})


def test_a_reading_of_its_own_stands_after_the_others() -> None:
    check = {"measure": "m", "experiment": "e", "variants": ["B"], **AT_MOST}
    stated = claim({"variants": ["A"], **AT_MOST}, others=[{"name": "B", "checks": [check]}])
    assert [other.name for other in stated.others] == ["wide", "B"]
    assert stated.experiments() == {"e"}


def test_another_reading_may_need_experiments_of_its_own() -> None:
    check = {"measure": "other", "experiment": "f", "variants": ["B"], **AT_MOST}
    stated = claim({"variants": ["A"], **AT_MOST}, others=[{"name": "B", "checks": [check]}])
    assert stated.experiments() == {"e", "f"}
    assert {q.measure for q in questions([stated], ())} == {"m", "other"}
    found = judged(stated)
    assert found.verdict == "reproduced"  # what is not run beside it decides nothing
    assert found.others[-1][1].verdict == "not run"


def test_the_table_has_a_column_for_other_readings(capsys: pytest.CaptureFixture[str]) -> None:
    stated = [claim({"variants": ["A"], **AT_MOST}), claim({"variants": ["A", "A*"], **AT_MOST})]
    show([judged(one) for one in stated])
    heads, one, both, _ = capsys.readouterr().out.splitlines()
    assert heads.endswith("other readings  ")
    assert one.rstrip().endswith("wide 20 ✗")
    assert both.rstrip().endswith("judged in all")


def test_the_page_shows_them_beside_what_was_found() -> None:
    stated = claim({"variants": ["A"], **AT_MOST})
    runs = Experiment("e", "An experiment", {}, {"A": {}, "A*": {}}, seeds=1)
    paper = Paper("p", "A title", "", (runs,), (stated,))
    result = Reproduced(paper, "full", [judged(stated)], Samples([]), plan([runs]), SweepOutcome())
    page = render([result], Path("out"))
    assert "in the reading: narrow" in page
    beside = page.partition("wide: ")[2].partition("</p>")[0]
    assert "20" in beside
    assert "not reproduced" in beside
