"""What a user sees of a sweep under way."""

from __future__ import annotations

import threading
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from patience import CONDITION
from shoal.pipeline.progress import ConsoleProgress, Pace, duration, lasting


def test_time_left_is_the_work_left_and_counts_down_until_a_run_is_over() -> None:
    pace = Pace(runs=10, work=100.0, cores=2, now=0.0)
    assert pace.left(100.0, now=5.0) == 45.0
    assert pace.left(20.0, now=40.0) == 10.0
    assert pace.left(20.0, now=43.0) == 7.0
    assert pace.rate(4, now=2.0) == 2.0
    assert pace.text(4, 1, 18.0, False, 50.0) == "5/10 runs, 1 failed, 0.1 runs/s, 9 s left"
    assert pace.text(9, 0, 1.0, False, 50.0) == "9/10 runs, 0.18 runs/s, soon done"
    assert pace.text(0, 0, 0.0, True, 10.0) == "0/10 runs, waiting for a worker"


def test_stages_are_named_once_where_there_is_no_terminal() -> None:
    said = StringIO()
    progress = ConsoleProgress(Console(file=said, width=100))
    for text in ("Starting Spark", "", "Measuring: 0 of 2", "Measuring: 1 of 2", ""):
        progress.stage(text)
    assert said.getvalue().splitlines() == ["Starting Spark …", "Measuring: 0 of 2 …"]


def test_a_long_stage_says_now_and_then_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.pipeline.progress.EVERY", 0.001)
    said = Lines("3 of 5 steps done … (")
    progress = ConsoleProgress(Console(file=said, width=100))
    for step in range(4):
        progress.stage(f"Measuring: {step} of 5 steps done")
    assert said.seen.wait(CONDITION), "the stage lasts, and nothing is said"
    progress.stage("")


class Lines(StringIO):
    """A pipe that tells when some words have been written to it."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self.words, self.seen = words, threading.Event()

    def write(self, text: str, /) -> int:
        if self.words in text:
            self.seen.set()
        return super().write(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.34, "0.3 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")],
)
def test_durations_read_easily(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_without_a_terminal_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 16.0, 20.0, 20.0])
    own_time = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr("shoal.pipeline.progress.time", own_time)
    said = StringIO()
    progress = ConsoleProgress(Console(file=said, width=100))
    progress.start(4, 40.0, 2)
    progress.update(1, 0, 30.0, False)
    progress.update(2, 1, 16.0, False)
    progress.update(3, 1, 0.0, False)
    progress.finish()
    assert said.getvalue().splitlines() == [
        "4 runs to simulate, about 20 s on 2 cores",
        "3/4 runs, 1 failed, 0.188 runs/s, 8 s left",
        "4 of 4 runs simulated in 20 s, 1 failed",
    ]


def test_on_a_terminal_a_bar_that_goes_away() -> None:
    said = StringIO()
    progress = ConsoleProgress(Console(file=said, force_terminal=True, width=100))
    progress.start(2, 2.0, 1)
    progress.update(1, 0, 1.0, False)
    progress.note("removed the remains of [1] run")
    progress.update(2, 0, 0.0, False)
    progress.finish()
    text = said.getvalue()
    assert "0/2 runs, about 2 s" in text
    assert "removed the remains of [1] run" in text
    assert "2 of 2 runs simulated in " in text.rstrip().splitlines()[-1]


def test_where_there_is_no_terminal_what_lasts_is_named_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with lasting(60.0, "Trouble") as tell:
        assert capsys.readouterr().err == "Trouble …\n"
        tell(30.0, "7 histories")
    assert capsys.readouterr() == ("", "")
