"""What a broker was told counts, from wherever: command line, file, ``--set``; the rest are
documented defaults."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as parquet
import pytest
from live_world import run, until

from patience import STORY
from shoal.live import Broker, LiveError, Received, Settings
from shoal.live.identity import advertised
from shoal.live.processes import free_port
from shoal.live.settings import differences, settings_from
from shoal.live.status import Status
from shoal.live.sync import connect
from shoal.overlay.configured_messages import ConfiguredParameters
from shoal.overlay.graph_messages import GraphParameters
from shoal.stack import StackError
from shoal.testing import Network

ENVIRONMENT = {**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONUNBUFFERED": "1"}


@contextmanager
def broker(*arguments: str) -> Iterator[str]:
    """A broker process with exactly these arguments: the address it says it listens on."""
    with subprocess.Popen(
        [sys.executable, "-m", "shoal", "broker", *arguments],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        assert " listens on " in line, process.stderr.read()
        try:
            yield line.split()[-1]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(STORY) == 0


def read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    return rows


def state(address: str) -> Status:
    with connect(address) as bus:
        return bus.inspect()


def test_a_file_and_set_are_not_overridden_by_defaults(tmp_path: Path) -> None:
    port, other = free_port(), free_port()
    config = tmp_path / "broker.toml"
    config.write_text(
        f'listen = "0.0.0.0:{port}"\nadvertise = "127.0.0.1"\ninsecure = true\n'
        f'run = "mine"\nname = "kitchen"\nrecord = "{tmp_path / "logs"}"\n'
        "[overlay]\nmax_degree = 3\n"
    )
    with broker("--config", str(config)) as address:
        assert address == f"0.0.0.0:{port}"
        found = state(f"127.0.0.1:{port}")
        assert (found.name, found.address) == ("kitchen", f"127.0.0.1:{port}")
    rows = [row for path in (tmp_path / "logs").rglob("*.parquet") for row in read(path)]
    assert {row["run_id"] for row in rows} == {"mine"}
    assert any('"max_degree":3' in str(row.get("value")) for row in rows)
    with broker("--config", str(config), "--set", f"listen=127.0.0.1:{other}") as address:
        assert address == f"127.0.0.1:{other}"
    with broker("--config", str(config), "--listen", "127.0.0.1:0", "--name", "hall") as address:
        assert address not in (f"127.0.0.1:{port}", "127.0.0.1:7464")
        assert state(address).name == "hall"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--overlay", "graph", "--set", "routing.threshold=1.0"),
        ("--routing", "semi-probabilistic", "--set", "routing.threshold=1.0"),
        ("--set", "routing.name=semi-probabilistic", "--set", "routing.threshold=1.0"),
    ],
)
def test_naming_the_routing_changes_nothing_else(arguments: tuple[str, ...]) -> None:
    with broker("--listen", "127.0.0.1:0", *arguments) as address:
        assert "horizon=3" in state(address).stack
        assert "threshold=1.0" in state(address).stack


def test_a_broker_that_names_its_routing_is_linked_to_one_that_does_not() -> None:
    with (
        Network(1, heartbeat=1.0, overlay={"heartbeat": 1.0}) as network,
        broker(
            *("--listen", "127.0.0.1:0", "--name", "b", "--routing", "subscription-forwarding"),
            *("--join", network.brokers[0].address),
        ) as address,
        connect(address) as bus,
        network.connect_sync() as other,
        other.subscribe("n > 0") as numbers,
    ):
        for n in range(1, 10_000):  # until the two are linked and the subscription has come
            bus.publish(n=n)
            try:
                assert isinstance(numbers.next(timeout=0.05), Received)
                return
            except TimeoutError:
                continue
        raise AssertionError("never linked")


def test_what_follows_from_the_other_settings() -> None:
    usual, tree = Settings(), Settings(links=("127.0.0.1:1",))
    assert (usual.overlay["name"], usual.routing["name"]) == ("lstree", "subscription-forwarding")
    assert usual.reconfiguration == {"name": "timed", "unsubscription_timer": 1.5}
    for graph in (Settings(overlay={"name": "graph"}), Settings(routing={"name": "flooding"})):
        assert graph.overlay["name"] == "graph"
        assert graph.reconfiguration is None
        graph.stack()
    assert (tree.overlay["name"], tree.routing["name"]) == ("links", "subscription-forwarding")
    assert tree.reconfiguration == {"name": "strawman"}
    assert Settings(routing={"name": "subscription-forwarding"}) == usual
    assert Settings(reconfiguration={"name": "strawman"}).reconfiguration == {"name": "strawman"}
    assert tree.overlay["tree"]
    assert not Settings(links=(":1",), routing={"name": "flooding"}).overlay["tree"]
    assert Settings(routing={"name": "event-forwarding"}).reconfiguration is None
    assert settings_from({"overlay": {"name": "graph"}}).routing["threshold"] == 0.5
    for settings in (usual, tree):
        settings.stack()
    with pytest.raises(LiveError, match="unknown setting 'rotat'"):
        settings_from({"rotat": 3})
    with pytest.raises(StackError, match="overlay 'graph' has no parameter 'degre'; did you mean"):
        settings_from({"overlay": {"name": "graph", "degre": 3}}).stack()
    for section, parameter in (("overlay", "degree"), ("routing", "threshold")):  # of a graph
        with pytest.raises(StackError, match=f"no parameter '{parameter}'.*told --overlay graph"):
            settings_from({section: {parameter: 1.0}}).stack()
    with pytest.raises(StackError, match=r"'given' runs in a simulation only; one of: .*graph"):
        settings_from({"overlay": {"name": "given"}}).stack()
    with pytest.raises(StackError, match="'advertisement-forwarding' runs in a simulation only"):
        settings_from({"routing": {"name": "advertisement-forwarding"}}).stack()
    with pytest.raises(StackError, match="give brokers to begin with as 'join'"):
        settings_from({"overlay": {"name": "graph"}, "links": [":1"]}).stack()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({}, ""),
        ({"overlay": {"name": "graph"}, "routing": {"threshold": 1.0}}, ""),
        ({"overlay": {"name": "graph"}}, "about 99.9%"),
        ({"overlay": {"name": "graph"}, "routing": {"threshold": 0.1}}, "not known"),
        ({"routing": {"name": "adaptive"}}, "about 99.5%"),
    ],
)
def test_a_broker_says_what_to_expect_of_chance(
    raw: dict[str, Any], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with Broker(settings_from(raw)):
            pass

    asyncio.run(story())
    lines = [r.getMessage() for r in caplog.records if "goes by chance" in r.getMessage()]
    assert (said in lines[0] and "--overlay lstree" in lines[0]) if said else not lines


def test_mixed_defaults_are_refused_and_the_reason_is_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with Broker(Settings(name="new")) as new:
            old = Settings(name="old", overlay={"name": "graph"}, join=(new.address,))
            async with Broker(old) as broker:
                await until(lambda: "no link" in caplog.text, "it is refused")
                assert not broker.links
                assert not new.links

    run(story())
    (said,) = [r.getMessage() for r in caplog.records if "no link" in r.getMessage()]
    assert "brokers must route alike" in said
    assert "overlay: graph here, lstree there" in said
    assert "routing: semi-probabilistic here, subscription-forwarding there" in said


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        ({"heartbeat": 0.5}, {"heartbeat": 10.0}, "heartbeat: 0.5 here, 10 there"),
        (
            {"overlay": {"name": "graph", "heartbeat": 10.0}},
            {"overlay": {"name": "graph"}},
            "overlay.heartbeat: 10.0 here, 1.0 there",
        ),
        (
            {"overlay": {"name": "lstree", "instance": "AGM"}},
            {"overlay": {"name": "lstree"}},
            "overlay.instance: AGM here, RDGM there",
        ),
        (
            {"overlay": {"name": "dhtree", "fan_out": 3}},
            {"overlay": {"name": "dhtree"}},
            "overlay.fan_out: 3 here, 2 there",
        ),
        (
            {"overlay": {"name": "lstree", "instance": "AGM"}},
            {"overlay": {"name": "overcast"}},
            "overlay: lstree here, overcast there",
        ),
        ({"overlay": {"name": "lstree", "max_degree": 9}}, {"overlay": {"name": "lstree"}}, ""),
        ({"recovery": {"name": "push"}}, {}, "recovery: push (format 2) here, none there"),
    ],
)
def test_brokers_agree_on_what_must_be_the_same_everywhere(
    ours: dict[str, Any], theirs: dict[str, Any], said: str
) -> None:
    here, there = settings_from(ours), settings_from(theirs)
    assert differences(here.described(here.stack()), there.described(there.stack())) == said


def test_brokers_with_other_marks_are_refused_by_name() -> None:
    """An earlier version named the recovery only, and read marks otherwise."""
    with_recovery = settings_from({"recovery": {"name": "push"}})
    now = with_recovery.described(with_recovery.stack())
    earlier = now.replace(" (format 2)", "")
    said = "recovery: push here, push (format 2) there"
    assert differences(earlier, now) == said


def test_a_broker_with_another_overlay_parameter_is_refused_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With signs of life ten times as rare, its links would end as soon as they were made."""

    async def story() -> None:
        lstree = {"name": "lstree", "heartbeat": 0.2}
        async with Broker(Settings(name="one", overlay=lstree)) as one:
            slow = {"name": "lstree", "heartbeat": 2.0}
            async with Broker(Settings(name="two", overlay=slow, join=(one.address,))) as two:
                await until(lambda: "no link" in caplog.text, "it is refused")
                assert "overlay.heartbeat: 2.0 here, 0.2 there; trying on" in caplog.text
                assert not one.links
                assert not two.links

    run(story())


def test_the_documented_defaults_are_the_defaults() -> None:
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text().partition("## Settings")[2]
    rows = re.findall(r"^\| `([a-z_.]+)` \| `?([^`|]*?)`? \|", page, re.MULTILINE)
    documented = dict(rows)
    known = Settings()
    for field in Settings.__struct_fields__:
        if field not in ("limits", "routing", "overlay", "reconfiguration"):
            assert field in documented, f"docs/live.md does not tell of the setting '{field}'"
    for key, text in rows:
        value: object = known
        for part in key.split("."):
            value = value[part] if isinstance(value, dict) else getattr(value, part)
        shown = "none" if value in (None, "", ()) else str(value)
        shown = "false" if value is False else shown
        if key == "listen":
            assert text == "127.0.0.1:7464"
        elif key == "reconnect":
            assert text == "[0.1, 5.0]"
        else:
            assert text == shown, f"{key}: documented {text}, really {shown}"


@pytest.mark.parametrize(
    ("name", "parameters"), [("graph", GraphParameters), ("links", ConfiguredParameters)]
)
def test_the_documented_parameters_of_overlays_are_theirs(name: str, parameters: type) -> None:
    page = (Path(__file__).parents[2] / "docs" / "live.md").read_text()
    rows = page.partition(f"| of `{name}` |")[2].partition("\n\n")[0]
    documented = dict(re.findall(r"^\| `overlay\.(\w+)` \| `(.*?)` \|", rows, re.MULTILINE))
    assert documented == {
        field: json.dumps(value) for field, value in msgspec.to_builtins(parameters()).items()
    }


def test_a_broker_on_all_interfaces_tells_others_an_address_they_can_use() -> None:
    with broker("--listen", "0.0.0.0:0", "--insecure", "--advertise", "127.0.0.1") as told:
        port = told.rpartition(":")[2]
        assert state(f"127.0.0.1:{port}").address == f"127.0.0.1:{port}"
    probe = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, check=True
    ).stdout.strip()
    arguments = ("--listen", "0.0.0.0:0", "--insecure")
    if probe:  # this machine has a route to somewhere
        with broker(*arguments) as told:
            port = told.rpartition(":")[2]
            assert state(f"127.0.0.1:{port}").address == f"{probe}:{port}"
    else:
        with pytest.raises(AssertionError, match="add --advertise HOST"), broker(*arguments):
            pass


PROBE = """
import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
    try:
        probe.connect(("192.0.2.1", 9))
        print(probe.getsockname()[0])
    except OSError:
        pass
"""


@pytest.mark.parametrize(("host", "version"), [("0.0.0.0", 4), ("::", 6)])
def test_the_address_that_is_told_is_of_the_kind_that_is_listened_on(
    host: str, version: int
) -> None:
    others = ["127.0.0.1:1", "[::1]:1", "192.0.2.7:1", "[2001:db8::7]:1"]
    try:
        found, _ = advertised("", host, 7464, others)
    except LiveError as error:  # this machine has no route of that kind
        assert "add --advertise HOST" in str(error)  # noqa: PT017  # either will do
    else:
        assert ip_address(found).version == version


def test_where_no_route_tells_the_address_it_is_demanded() -> None:
    inside = ["unshare", "--map-root-user", "--net"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("no network namespaces for this user")
    ran = subprocess.run(
        [*inside, sys.executable, "-m", "shoal", "broker", "--listen", "0.0.0.0:0", "--insecure"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=STORY,
    )  # fmt: skip
    assert ran.returncode == 2
    assert "add --advertise HOST" in ran.stderr


@pytest.mark.parametrize("told", ["0.0.0.0", "[::]:7464", "host:0"])
def test_an_advertised_address_that_nobody_can_use_is_refused(told: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "shoal", "broker", "--listen", "127.0.0.1:0", "--advertise", told],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=STORY,
    )  # fmt: skip
    assert ran.returncode == 2
    assert f"nobody can connect to '{told}'" in ran.stderr
