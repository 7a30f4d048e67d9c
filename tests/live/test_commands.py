"""``shoal broker``, ``pub`` and ``sub`` as processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import msgspec
import pytest

from patience import STORY

ENVIRONMENT = {**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONUNBUFFERED": "1"}
SHOAL = [sys.executable, "-m", "shoal"]


def shoal(*arguments: str, input: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command, with more variables in its environment."""
    return subprocess.run(
        [*SHOAL, *arguments],
        env={**ENVIRONMENT, **more},
        input=input,
        capture_output=True,
        text=True,
        timeout=STORY,
        check=False,
    )


@contextmanager
def broker(*arguments: str) -> Iterator[tuple[str, str]]:
    """A broker's address, and the libraries that it has loaded when it listens."""
    with subprocess.Popen(
        [*SHOAL, "broker", "--listen", "127.0.0.1:0", *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert " listens on " in line, process.stderr and process.stderr.read()
            yield line.split()[-1], Path(f"/proc/{process.pid}/maps").read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(STORY) == 0


def test_a_network_from_the_shell() -> None:
    with (
        broker("--name", "a") as (first, loaded),
        broker("--name", "b", "--join", first) as (second, _),
    ):
        for heavy in ("numpy", "llvmlite", "arrow"):
            assert heavy not in loaded, f"a broker starts at once, so without {heavy}"
        with subprocess.Popen(
            [*SHOAL, "sub", "--broker", second, "--count", "3", "t > 30 AND room LIKE 'lab%'"],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            text=True,
        ) as subscriber:
            assert subscriber.stdout is not None
            lines: list[str] = []
            for attempt in range(50):  # until the subscription has reached the other broker
                ran = shoal(
                    "pub", "--broker", first, "room=lab1", "t=31.5", f"n={attempt}", "ok=true"
                )
                assert ran.returncode == 0, ran.stderr
                ran = shoal(
                    "pub",
                    "--broker",
                    first,
                    input='{"t": 1, "room": "lab"}\n\n{"t": 40, "room": "lab2"}\n',
                )
                assert "published 2 events" in ran.stderr
                ran = shoal("pub", "--broker", first, input='{"t": 2}\n[]\n')
                assert "line 2 of the input is no JSON object; 1 of the events" in ran.stderr
                if subscriber.poll() is not None:
                    break
            lines = subscriber.stdout.read().splitlines()
        assert len(lines) == 3
        seen = [json.loads(line) for line in lines]
        assert {event["room"] for event in seen} == {"lab1", "lab2"}
        assert all(event["t"] > 30 for event in seen)
        assert any(event.get("ok") is True and event["t"] == 31.5 for event in seen)


def test_cloudevents_go_through_unchanged() -> None:
    event = {
        "specversion": "1.0",
        "id": "A234",
        "source": "/sensors/7",
        "type": "reading",
        "datacontenttype": "application/json",
        "data": {"celsius": 31.5, "tags": ["a", "b"]},
    }
    with (
        broker() as (address, _),
        subprocess.Popen(
            [
                *SHOAL,
                "sub",
                "--broker",
                address,
                "--count",
                "1",
                "--cloudevents",
                "type = 'reading'",
            ],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            text=True,
        ) as subscriber,
    ):
        assert subscriber.stdout is not None
        while subscriber.poll() is None:
            shoal("pub", "--broker", address, "--cloudevents", input=json.dumps(event) + "\n")
        assert json.loads(subscriber.stdout.read()) == event
        lines = json.dumps(event) + '\n\n{"type": "reading"}\n'
        ran = shoal("pub", "--broker", address, "--cloudevents", input=lines)
        assert "line 3 of the input: no CloudEvent: specversion, id, source missing" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("broker", "--listen", "0.0.0.0:0"), "refusing to listen on 0.0.0.0:0 without TLS"),
        (("broker", "--listen", "somewhere"), "'somewhere' is not HOST:PORT"),
        (("broker", "--routing", "gossip"), "unknown routing 'gossip'"),
        (("broker", "--set", "limits.frames=3"), "limits"),
        (("broker", "--set", "overlay.max_degre=3"), "did you mean 'max_degree'?"),
        (("broker", "--link", ":1", "--reconfiguration", "path"), "reconfiguration 'path' needs"),
        (("broker", "--link", ":1", "--reconfiguration", "informed"), "at both ends"),
        (("broker", "--ca", "x.pem"), "needs --cert"),
        (("broker", "--cert", "no.pem", "--ca", "no.pem"), "no.pem: there is no such file"),
        (("broker", "--access", "no.toml"), "access file no.toml: No such file"),
        (("broker", "--name", "two words"), "cannot be used"),
        (("broker", "--record", "/proc/nothing"), "cannot record in /proc/nothing"),
        (("sub", "temperature > "), "character 15: expected a value"),
        (("sub", "--broker", "127.0.0.1:1"), "cannot be reached"),
        (("sub", "--broker", "nosuch.invalid:1"), "cannot be resolved"),
        (("pub", "temperature"), "'temperature' is not NAME=VALUE"),
        (("pub", "--cloudevents", "a=1"), "give them as JSON lines"),
        (("pub", "--broker", "127.0.0.1:1", "a=1"), "cannot be reached"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    ran = shoal(*arguments)
    away = said == "cannot be reached"
    assert ran.returncode == (3 if away else 2)
    *waiting, line = ran.stderr.splitlines()
    assert said in line
    assert waiting == (["Waiting 5 s for a broker at 127.0.0.1:1 …"] if away else []), ran.stderr
    assert "Traceback" not in ran.stderr


def test_top_follows_the_links() -> None:
    with broker("--name", "anna") as (first, _), broker("--name", "bert", "--join", first):
        for _ in range(200):
            ran = shoal("top", "--broker", first, "--count", "1")
            assert ran.returncode == 0, ran.stderr
            if "2 brokers" in ran.stdout:
                break
        assert "anna" in ran.stdout
        assert "bert" in ran.stdout


def test_top_into_a_pipe_is_plain_and_cuts_nothing_off() -> None:
    name = "a-broker-with-a-name-of-sixty-four-signs-which-is-all-it-may-have"[:64]
    with broker("--name", name) as (first, _):
        ran = shoal("top", "--broker", first, "--count", "2", "--interval", "0.1")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("1 broker") == 2, "once per look"
    assert ran.stdout.count(f"{name} {first}") == 2
    assert not set(ran.stdout) & set("─━│┃╷╵\x1b")
    heads = [line.split() for line in ran.stdout.splitlines() if line.startswith("broker ")]
    assert heads[0][-3:] == ["CPU", "%", "MB"]


def test_a_row_of_top_fits_eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    from shoal.cli.top import view
    from shoal.live.status import Status

    with broker() as (first, _):
        told = shoal("top", "--broker", first, "--json").stdout
    (state,) = msgspec.json.decode(told, type=list[Status])
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    screen = Console(width=80, record=True, file=StringIO())
    screen.print(view({state.node: state}, {}))
    lines = [line.split() for line in screen.export_text().splitlines()]
    assert "links ents /s /s /s ters tries ued ing ped % MB" in {" ".join(x[1:]) for x in lines}
    assert any(line[:3] == [state.name, "0", "1"] and len(line) == 13 for line in lines), lines


def test_top_finds_the_brokers_of_a_routing_without_links() -> None:
    dps = ("--routing", "dps", "--set", "routing.shuffle=0.2")
    with (
        broker("--name", "anna", *dps) as (first, _),
        broker("--name", "bert", "--join", first, *dps),
        broker("--name", "carl", "--join", first, *dps),
    ):
        for _ in range(200):
            ran = shoal("top", "--broker", first, "--count", "1")
            assert ran.returncode == 0, ran.stderr
            if "3 brokers" in ran.stdout:
                break
        assert {"anna", "bert", "carl"} <= set(ran.stdout.split())
        assert "This routing keeps no links" in ran.stdout
        for _ in range(200):
            found = json.loads(shoal("top", "--broker", first, "--json").stdout)
            if len(found) == 3:
                break
        assert {one["name"] for one in found} == {"anna", "bert", "carl"}
        assert all(one["reached"] and not one["links"] for one in found)


def test_an_event_that_the_output_cannot_show_ends_nothing() -> None:
    with (
        broker() as (address, _),
        subprocess.Popen(
            [*SHOAL, "sub", "--broker", address, "--count", "1"],
            env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
            stdout=subprocess.PIPE,
            text=True,
        ) as subscriber,
    ):
        assert subscriber.stdout is not None
        while subscriber.poll() is None:
            assert shoal("pub", "--broker", address, "room=grün", "x=NaN").returncode == 0
        assert subscriber.returncode == 0
        assert json.loads(subscriber.stdout.read()) == {"room": "grün", "x": None}
