"""The last line of ``shoal reproduce``: how many claims fared how."""

from __future__ import annotations

from shoal.cli.reproduce import summary
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
