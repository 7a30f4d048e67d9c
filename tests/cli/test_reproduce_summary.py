"""What ``shoal reproduce`` prints: each claim's verdict, and how many claims fared how."""

from __future__ import annotations

import pytest

from shoal.cli.reproduce import show, summary
from shoal.pipeline.judge.claims import parse_claim
from shoal.pipeline.judge.decisions import Verdict
from shoal.pipeline.judge.verdicts import Judgement

CLAIM = parse_claim({"id": "X", "where": "", "kind": "ordinal", "words": "", "pending": "later"})


def judged(verdict: Verdict, means_only: bool = False) -> Judgement:
    return Judgement(CLAIM, verdict, None, means_only=means_only)


def test_it_counts_verdicts_from_best_to_worst_and_marks_those_by_means() -> None:
    found = [
        judged("not run"),
        judged("undecided"),
        judged("reproduced"),
        judged("not reproduced", means_only=True),
        judged("reproduced", means_only=True),
        judged("undecided"),
    ]
    line = summary(found).replace("[bold]", "").replace("[/]", "")
    assert line == (
        "2 reproduced (1 by means only), 2 undecided, 1 not reproduced (1 by means only), 1 not run"
    )


def test_into_a_pipe_each_claim_is_one_line_with_nothing_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    expected = " < ".join(f"a variant with a long name, the {n}th" for n in range(9))
    show([Judgement(CLAIM, "not reproduced", expected, 1.5, 1.0, 2.0, 30, means_only=True)])
    heads, row, counts = capsys.readouterr().out.splitlines()
    assert heads.split() == ["claim", "verdict", "measured", "95%", "interval", "expected", "seeds"]
    assert row.split() == f"X not reproduced (means) 1.5 1 … 2 {expected} 30".split()
    assert counts.startswith("1 not reproduced")
