"""What whoever runs brokers uses: reload, metrics, the example configuration, unit and image."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from live_world import run, until
from prometheus_client.parser import text_string_to_metric_families
from test_commands import ENVIRONMENT, SHOAL, shoal

from shoal import connect
from shoal.cli.access import DEFAULT
from shoal.live import Broker, LiveError, RefusedError, Settings, metrics
from shoal.live.example import example_config
from shoal.live.security import hash_token
from shoal.live.settings import Limits, settings_from
from shoal.testing import QUICK

ROOT = Path(__file__).parents[2]


# The example configuration


def test_the_example_configuration_equals_the_defaults() -> None:
    printed = shoal("broker", "--example-config")
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout == example_config(Settings(listen=DEFAULT))
    assert settings_from(tomllib.loads(printed.stdout)) == Settings(listen=DEFAULT)


def test_the_example_configuration_has_every_setting_with_a_comment() -> None:
    lines = example_config(Settings()).splitlines()
    for name in (*Settings.__struct_fields__, *Limits.__struct_fields__):
        at = next(
            i for i, line in enumerate(lines) if re.match(rf"(# )?{name} = |\[{name}\]", line)
        )
        assert lines[at - 1].startswith("# "), name


def test_a_broker_runs_with_the_example_configuration(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(example_config(Settings()))
    with subprocess.Popen(
        [*SHOAL, "broker", "--listen", "127.0.0.1:0", "--config", str(file)],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert " listens on " in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


# Metrics


async def fetch(address: str, request: str = "GET /metrics") -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{request} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    assert f"Content-Length: {len(body)}" in head or request.startswith("HEAD")
    return head.splitlines()[0], body


def samples(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {s.name: s.value for family in families for s in family.samples}


def test_metrics_count_what_happened() -> None:
    async def story() -> None:
        settings = Settings(metrics="127.0.0.1:0", **QUICK)
        async with Broker(settings) as broker, connect(broker.address) as bus:
            subscription = await bus.subscribe("n > 0").start()
            for n in range(5):
                await bus.publish(n=n)
            for _ in range(4):
                await anext(subscription)
            status, body = await fetch(broker.metrics_address)
            assert status == "HTTP/1.1 200 OK"
            found = samples(body)
            assert found["shoal_events_published_total"] == 5
            assert found["shoal_events_delivered_total"] == 4
            assert found["shoal_clients"] == found["shoal_subscriptions"] == 1
            assert found["shoal_memory_peak_bytes"] > 1 << 20
            assert (await fetch(broker.metrics_address, "POST /metrics"))[0].split()[1] == "405"
            assert (await fetch(broker.metrics_address, "GET /"))[0].split()[1] == "404"
            assert (await fetch(broker.metrics_address, "HEAD /metrics"))[1] == ""

    run(story())


def test_what_was_dropped_for_clients_that_left_is_still_counted() -> None:
    async def story() -> None:
        settings = Settings(metrics="127.0.0.1:0", **QUICK)
        async with Broker(settings) as broker:
            bus = await connect(broker.address, window=1, queue=1)
            held = await bus.subscribe("TRUE").start()
            async with connect(broker.address) as publisher:
                for n in range(10):
                    await publisher.publish(n=n)
            before = samples((await fetch(broker.metrics_address))[1])
            assert before["shoal_events_missed_total"] == 8
            await held.stop()
            await bus.close()
            await until(lambda: not broker.sessions, "the client is gone")
            after = samples((await fetch(broker.metrics_address))[1])
            assert after["shoal_events_missed_total"] == 8

    run(story())


def test_the_page_has_exactly_the_metrics_that_there_are() -> None:
    async def story() -> str:
        async with Broker(Settings(metrics="127.0.0.1:0", **QUICK)) as broker:
            return (await fetch(broker.metrics_address))[1]

    shown = dict(re.findall(r"^# HELP (\S+) (.*)$", run(story()), re.MULTILINE))
    page = (ROOT / "docs" / "operating.md").read_text()
    told = dict(re.findall(r"^\| `(shoal_\w+)` \| (.*) \|$", page, re.MULTILINE))
    assert told == shown


def test_metrics_are_not_shown_beyond_this_machine_without_tls() -> None:
    async def story() -> None:
        with pytest.raises(LiveError, match=r"refusing to show metrics on 0\.0\.0\.0:0"):
            await Broker(Settings(metrics="0.0.0.0:0", **QUICK)).start()
        async with Broker(Settings(**QUICK)) as other:
            with pytest.raises(LiveError, match=r"cannot show metrics on .*; check --metrics"):
                await Broker(Settings(metrics=other.address, **QUICK)).start()

    run(story())


def test_idle_connections_do_not_keep_prometheus_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor do they take descriptors from clients: for one too many, the oldest is closed."""
    monkeypatch.setattr(metrics, "PATIENCE", 1e6)

    async def story() -> None:
        async with Broker(Settings(metrics="127.0.0.1:0", **QUICK)) as broker:
            host, _, port = broker.metrics_address.rpartition(":")
            idle = [await asyncio.open_connection(host, int(port)) for _ in range(100)]
            for reader, _ in idle[: -metrics.AT_ONCE]:
                assert await reader.read() == b""
            assert (await fetch(broker.metrics_address))[0] == "HTTP/1.1 200 OK"
            for _, writer in idle:
                writer.close()

    run(story())


def test_metrics_show_the_certificate_that_was_read_last(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "test authority")
    files = (tmp_path / "cert.pem", tmp_path / "key.pem")

    def issue() -> None:
        pair = authority.issue("kitchen")
        shutil.copy(pair.certificate, files[0])
        shutil.copy(pair.key, files[1])

    async def story() -> None:
        issue()
        settings = Settings(
            name="kitchen",
            metrics="0.0.0.0:0",
            certificate=files[0],
            key=files[1],
            authority=authority.certificate,
            **QUICK,
        )
        async with Broker(settings) as broker:
            port = int(broker.metrics_address.rpartition(":")[2])

            async def shown() -> str:
                return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))

            before = await shown()
            assert before == await shown()
            issue()
            await broker.reload()
            assert before != await shown()

    run(story())


# SIGHUP


def rules(path: Path, **entries: dict[str, str]) -> None:
    lines = []
    for name, fields in entries.items():
        lines.append(f"[[allow]]\nname = {json.dumps(name)}")
        lines += [f"{key} = {json.dumps(value)}" for key, value in fields.items()]
    path.write_text("\n".join(lines))


def test_sighup_reads_certificates_and_rules_again_and_drops_nobody(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca", "test authority")
    first = authority.issue("kitchen")
    files = {name: tmp_path / name for name in ("cert.pem", "key.pem", "access.toml")}
    shutil.copy(first.certificate, files["cert.pem"])
    shutil.copy(first.key, files["key.pem"])
    token = {"token": hash_token("t" * 32)}
    rules(files["access.toml"], anonymous={}, gauge={**token, "publish": "n < 10"})

    async def story() -> None:
        process = await asyncio.create_subprocess_exec(
            *SHOAL, "broker", "--listen", "127.0.0.1:0", "--name", "kitchen",
            "--cert", str(files["cert.pem"]), "--key", str(files["key.pem"]),
            "--ca", str(authority.certificate), "--access", str(files["access.toml"]),
            env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None

        async def reload(said: str) -> None:
            process.send_signal(signal.SIGHUP)
            assert process.stderr is not None
            line = (await process.stderr.readline()).decode()
            assert said in line, line

        def serial() -> str:
            host, _, port = address.rpartition(":")
            return ssl.get_server_certificate((host, int(port)))

        try:
            line = (await process.stdout.readline()).decode()
            assert " listens on " in line
            address = line.split()[-1]
            options: dict[str, Any] = {"ca": authority.certificate, "broker": "kitchen"}
            async with (
                connect(address, token="t" * 32, **options) as gauge,
                connect(address, **options) as display,
            ):
                shown = await display.subscribe("TRUE", gaps=True).start()
                await gauge.publish(n=1)
                assert (await anext(shown))["n"] == 1
                with pytest.raises(RefusedError, match="may not publish"):
                    await gauge.publish(n=11)
                before = await asyncio.to_thread(serial)

                files["access.toml"].write_text("[[allow]]\nnam = 3")
                await reload("nothing was read again: access file")
                await gauge.publish(n=2)
                assert (await anext(shown))["n"] == 2

                again = authority.issue("kitchen")
                shutil.copy(again.certificate, files["cert.pem"])
                shutil.copy(again.key, files["key.pem"])
                rules(
                    files["access.toml"],
                    anonymous={"subscribe": "n > 20"},
                    gauge={**token, "publish": "n < 30"},
                )
                await reload("were read again")
                for n in (11, 21, 29):  # allowed now; the display is shown two of them
                    await gauge.publish(n=n)
                assert [(await anext(shown))["n"] for _ in range(2)] == [21, 29]
                assert shown.gaps == gauge.reconnects == display.reconnects == 0
                assert await asyncio.to_thread(serial) != before

                rules(files["access.toml"], anonymous={})
                await reload("were read again")
                with pytest.raises(RefusedError, match="'gauge' may not publish"):
                    await gauge.publish(n=1)
                with pytest.raises(RefusedError, match="token is not known"):
                    await connect(address, token="t" * 32, **options)
        finally:
            process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), 60)

    run(story())


# The unit and the image


def unit_lines() -> dict[str, str]:
    text = (ROOT / "examples" / "shoal-broker.service").read_text()
    return dict(re.findall(r"^(\w+)=(.+)$", text, re.MULTILINE))


def started(arguments: list[str]) -> None:
    """A broker starts with these arguments of the command line, and stops when told."""
    with subprocess.Popen(
        [*SHOAL, *arguments], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert " listens on " in process.stdout.readline()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def local(arguments: list[str], tmp_path: Path) -> list[str]:
    """The arguments with a configuration that is here, on free ports."""
    file = tmp_path / "broker.toml"
    file.write_text(example_config(Settings()))
    at = arguments.index("--config")
    assert arguments[at + 1] == "/etc/shoal/broker.toml"
    arguments = [*arguments[: at + 1], str(file), *arguments[at + 2 :], "--listen", "127.0.0.1:0"]
    return ["127.0.0.1:0" if word == "127.0.0.1:9464" else word for word in arguments]


def test_the_unit_starts_a_broker_as_the_command_line_wants_it(tmp_path: Path) -> None:
    program, *arguments = unit_lines()["ExecStart"].split()
    assert Path(program).name == "shoal"
    started(local(arguments, tmp_path))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "shoal-broker.service").read_text()
    program = tmp_path / "shoal"  # systemd-analyze wants it to be there
    program.write_text(f"#!{sys.executable}\n")
    program.chmod(0o755)
    unit = tmp_path / "shoal-broker.service"
    unit.write_text(text.replace("/usr/local/bin/shoal", str(program)))
    ran = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        env={**os.environ, "SYSTEMD_LOG_LEVEL": "warning"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    complaints = [line for line in ran.stderr.splitlines() if unit.name in line]
    assert not complaints
    assert ran.returncode == 0, ran.stderr


def test_the_image_starts_a_broker_as_the_command_line_wants_it(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "Containerfile").read_text()
    entry, command = (
        json.loads(found)
        for found in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", text, re.MULTILINE)
    )
    assert entry[0] == "/opt/shoal/bin/shoal"
    started(local([*entry[1:], *command], tmp_path))
    for copied in re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE):
        assert (ROOT / copied).exists()
