"""Connections that say nothing do not keep out those that do."""

from __future__ import annotations

import asyncio
import resource
import socket
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from fleet import Fleet
from live_world import run, until

import shoal
from shoal.live import Broker
from shoal.live.settings import settings_from
from shoal.live.wire import parse_address
from shoal.testing import QUICK

SILENT = 400
STRANGERS = 20


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])
def test_silent_connections_have_a_room_of_their_own(secure: bool, tmp_path: Path) -> None:
    tls: dict[str, Any] = {}
    trust: dict[str, Any] = {}
    if secure:
        authority = Authority(tmp_path, "ours")
        pair = authority.issue("localhost")
        tls = {"certificate": pair.certificate, "key": pair.key}
        tls["authority"] = authority.certificate
        trust = {"ca": authority.certificate, "broker": "localhost"}
    limits = {"connections": 5, "strangers": STRANGERS, "handshake": 600.0}

    async def story() -> None:
        raw = {"name": "localhost", "listen": "localhost:0", **QUICK, **tls, "limits": limits}
        async with Broker(settings_from(raw)) as broker:
            host, port = parse_address(broker.address)
            address = f"localhost:{port}"
            silent: list[socket.socket] = []
            try:
                async with shoal.connect(address, **trust) as early:
                    for _ in range(SILENT):
                        one = socket.socket()
                        one.setblocking(False)
                        await asyncio.get_running_loop().sock_connect(one, (host, port))
                        silent.append(one)
                    await early.publish(n=1)
                    async with shoal.connect(address, **trust) as late:
                        await late.publish(n=2)
                    await until(
                        lambda: sum(not closed(one) for one in silent) <= STRANGERS,
                        "the oldest had to go",
                    )
                    assert not closed(silent[-1]), "the youngest may still introduce itself"
            finally:
                for one in silent:
                    one.close()
            await until(lambda: not broker.connections, "nothing is left behind")

    run(story())


def test_silent_connections_do_not_take_the_last_descriptors() -> None:
    async def story() -> None:
        fleet = Fleet()
        silent: list[socket.socket] = []
        try:
            process = fleet.add(["--set", "limits.handshake=1e6"])
            process.listens()
            most = process.descriptors() + 50
            resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (most, most))
            for _ in range(200):
                one = socket.socket()
                one.setblocking(False)
                silent.append(one)
                at = parse_address(process.address)
                await asyncio.get_running_loop().sock_connect(one, at)
            async with shoal.connect(process.address, patience=1e6) as bus:
                await bus.publish(n=1)
        finally:
            for one in silent:
                one.close()
            await fleet.close()

    run(story())


def closed(one: socket.socket) -> bool:
    """Whether the other end has closed a connection on which it says nothing."""
    try:
        return one.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
