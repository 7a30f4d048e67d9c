"""``shoal chaos``: histories that hold, and one that a broken protocol does not survive."""

from __future__ import annotations

import json
import logging
import re

import pytest

from shoal.cli.main import run
from shoal.recovery.gossip import Gossip
from shoal.routing.reconfiguration import Timed


def test_all_as_the_oracle_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "--minutes", "0.01", "--reconfiguration", "informed"]) == 0
    assert "all as the oracle says" in capsys.readouterr().out


def test_a_failure_is_shrunk_and_replays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(self: Timed, key: int) -> None:
        self.pending.pop(key)

    monkeypatch.setattr(Timed, "expire", lose)
    assert run(["chaos", "--minutes", "5", "--reconfiguration", "timed"]) == 1
    said = capsys.readouterr().out
    assert "not due" in said
    found = re.search(r"replay: shoal chaos --replay '(.*)'", said)
    assert found is not None
    assert run(["chaos", "--replay", found[1]]) == 1
    monkeypatch.undo()
    assert run(["chaos", "--replay", found[1]]) == 0


@pytest.mark.parametrize("text", ["{", "{}", json.dumps({"routing": "x"})])
def test_a_history_that_is_none(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert run(["chaos", "--replay", text]) == 2
    assert "copy the whole line" in capsys.readouterr().err


def test_a_stack_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "--reconfiguration", "magic"]) == 2
    assert "shoal protocols" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["1e400", "nan", "0"])
def test_minutes_that_are_none_or_without_end(
    capsys: pytest.CaptureFixture[str], minutes: str
) -> None:
    assert run(["chaos", "--minutes", minutes]) == 2
    assert "Invalid value for '--minutes'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (["--overlay", "lstreee"], "unknown overlay 'lstreee'; did you mean 'lstree'?"),
        (["--overlay", "maodv"], "overlay 'maodv' runs in a simulation only"),
        (["--module", "x.py", "--routing", "dps"], "--routing and --module and --live do not"),
        (["--recovery", "combined-pul"], "unknown recovery 'combined-pul'; did you mean"),
        (["--recovery", "none", "--promise", "recovered"], "unknown recovery 'none'"),
        (
            ["--set", "recovery.marks=0", "--promise", "recovered"],
            "recovers no events, or with marks = 0 not all",
        ),
        (["--set", "recovery.bufer=2", "--recovery", "push"], "bufer"),
    ],
)
def test_what_live_brokers_cannot_run_is_refused_before_they_start(
    capsys: pytest.CaptureFixture[str], options: list[str], cause: str
) -> None:
    level = logging.getLogger("shoal.live").level
    assert run(["chaos", "--live", *options]) == 2
    assert cause in capsys.readouterr().err
    assert logging.getLogger("shoal.live").level == level


def test_settings_of_brokers_without_brokers_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["chaos", "--set", "recovery.buffer=2"]) == 2
    assert "--set is for brokers: add --live" in capsys.readouterr().err


def test_an_overlay_that_builds_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "--minutes", "0.01", "--overlay", "graph", "--routing", "flooding"]) == 0
    assert "on 6 stacks" in capsys.readouterr().out  # without a recovery, and with each of five


def test_a_recovery_that_finds_nothing_is_found_out_and_replays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gossip, "tick", lambda self: None)
    asked = ["--recovery", "push", "--routing", "flooding", "--overlay", "given"]
    assert run(["chaos", "--minutes", "5", *asked]) == 1
    said = capsys.readouterr().out
    assert "lacks event" in said
    found = re.search(r"replay: shoal chaos --replay '(.*)'", said)
    assert found is not None
    assert run(["chaos", "--replay", found[1]]) == 1
    monkeypatch.undo()
    assert run(["chaos", "--replay", found[1]]) == 0


def test_help_names_the_exit_code_of_each_promise(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chaos", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    rule = text.partition("With --promise recovered, ")[2].partition("With --virtual")[0]
    assert "exit code 1 also if an event was lost without a gap" in rule, text
