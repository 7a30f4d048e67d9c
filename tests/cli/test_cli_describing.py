"""Commands that describe: protocols, measures, filters; and output for other programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.cli.main import run
from shoal.stack import protocols
from shoal.stack.describe import parameters


def say(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(arguments) == code, capsys.readouterr().err
    return capsys.readouterr().out


def read(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    return json.loads(say(capsys, *arguments, "--json", code=code))


def test_a_protocol_is_described_with_every_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, "protocols", "semi-probabilistic")
    for words in ("threshold", "0.25", "number > 0, ≤ 1", "share of the other links"):
        assert words in text
    (found,) = read(capsys, "protocols", "semi-probabilistic")
    named = {parameter["name"]: parameter for parameter in found["parameters"]}
    assert named["threshold"]["default"] == 0.25
    assert found["needs"] == ["links"]


def test_every_parameter_of_every_protocol_says_what_it_does() -> None:
    silent = [
        f"{protocol.name}.{parameter.name}"
        for protocol in protocols()
        for parameter in parameters(protocol.parameters)
        if protocol.make.__module__.startswith("shoal.") and not parameter.meaning
    ]
    assert not silent


def test_measures_have_a_unit_and_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    found = {measure["name"]: measure for measure in read(capsys, "measures")}
    assert found["delivery"]["unit"] == "share"
    assert "delivery" in say(capsys, "measures", "delivery")
    assert run(["measures", "nonsense"]) == 2


def test_a_run_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = read(capsys, "simulate", "--nodes", "20", "--duration", "2")
    assert found["delivery"] == found["received"] / found["owed"] > 0.9
    assert {row["kind"] for row in found["traffic"]} == {"event", "sub"}


def test_a_filter_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["filter", "explain", "x > 5 AND room = 'lab'"]
    event = '{"x": 7, "room": "attic"}'
    text = say(capsys, *words, "--event", event, "--covers", "x > 9 AND room = 'lab'", code=1)
    assert "room = 'lab' is false: room is 'attic'" in text
    assert "covers x > 9 AND room = 'lab'" in text
    found = read(capsys, *words, "--event", '{"x": 7, "room": "lab"}')
    assert found["matches"] is True
    assert run(["filter", "explain", "x >"]) == 2
    for event in ("[1]", '{"x": [1]}', '{"x": {}}'):
        assert run(["filter", "explain", "x > 5", "--event", event]) == 2
        assert "--event must be a JSON object of text, numbers" in capsys.readouterr().err
    for event in ("{", '{"x": ' + "9" * 5000 + "}", '{"x": ' + "[" * 5000 + "]" * 5000 + "}"):
        assert run(["filter", "explain", "x > 5", "--event", event]) == 2
        assert "--event is not JSON" in capsys.readouterr().err


def test_what_cannot_be_reached_is_another_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "frey-routing", "--master", "spark://127.0.0.1:1"]) == 3
    assert "no Spark master answers" in capsys.readouterr().err


def test_every_option_of_every_command_says_what_it_does() -> None:
    from typer.main import get_command

    from shoal.cli.main import app

    silent = []
    commands = [get_command(app)]
    while commands:
        command = commands.pop()
        commands += getattr(command, "commands", {}).values()
        silent += [
            f"{command.name} {parameter.name}"
            for parameter in command.params
            if not getattr(parameter, "help", "")
        ]
    assert silent == []
