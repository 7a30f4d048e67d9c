"""Other brokers under the load of ``shoal bench live``, spoken to over raw sockets."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

SUBSCRIBERS = 100
PAYLOAD = b"x" * 20


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def process(*command: str, port: int) -> Iterator[int]:
    """A peer while it listens; its process id."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as peer:
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield peer.pid
        finally:
            peer.terminate()
            peer.wait(10)


class Counting(asyncio.Protocol):
    """Counts messages by their marker; that is all the parsing there is."""

    def __init__(self, opening: bytes, marker: bytes) -> None:
        self._opening, self._marker = opening, marker
        self._tail = b""
        self.count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._opening)

    def data_received(self, data: bytes) -> None:
        data = self._tail + data
        self.count += data.count(self._marker)
        self._tail = data[-(len(self._marker) - 1) :]
        if self._marker in self._tail:
            self._tail = b""


async def _load(
    port: int,
    events: int,
    opening: Callable[[int], bytes],
    publication: Callable[[int], bytes],
    used: Callable[[], float],
) -> tuple[float, float]:
    loop = asyncio.get_running_loop()
    subscribers = []
    for number in range(SUBSCRIBERS):

        def make(number: int = number) -> Counting:
            return Counting(opening(number), PAYLOAD)

        subscribers.append((await loop.create_connection(make, "127.0.0.1", port))[1])
    _, publisher = await loop.create_connection(
        lambda: Counting(opening(-1), PAYLOAD), "127.0.0.1", port
    )
    await asyncio.sleep(1.0)
    chance = random.Random(5)
    frames = [publication(chance.randrange(SUBSCRIBERS)) for _ in range(events)]
    began, before = time.monotonic(), used()
    for at in range(0, events, 100):
        publisher.transport.write(b"".join(frames[at : at + 100]))
        await asyncio.sleep(0)
        while at - sum(s.count for s in subscribers) > 5000 and time.monotonic() - began < 60:
            await asyncio.sleep(0.001)
    while (got := sum(s.count for s in subscribers)) < events and time.monotonic() - began < 60:
        await asyncio.sleep(0.001)
    seconds, cost = time.monotonic() - began, used() - before
    for one in (*subscribers, publisher):
        one.transport.close()
    return got / seconds, got / max(cost, 1e-3)


def _text(content: str) -> bytes:
    return struct.pack(">H", len(content)) + content.encode()


def _packet(kind: int, content: bytes) -> bytes:
    length, size = b"", len(content)
    while True:
        size, low = size >> 7, size & 127
        length += bytes([low | (128 if size else 0)])
        if not size:
            return bytes([kind]) + length + content


def _mqtt_opening(number: int) -> bytes:
    name = f"bench{number}"
    connect = _packet(0x10, _text("MQTT") + b"\x04\x02\x00\x00" + _text(name))
    if number < 0:
        return connect
    return connect + _packet(0x82, b"\x00\x01" + _text(f"t{number}") + b"\x00")


def _mqtt_publication(topic: int) -> bytes:
    return _packet(0x30, _text(f"t{topic}") + PAYLOAD)


def mosquitto(events: int, cpu: Callable[[int], float]) -> dict[str, float]:
    """Mosquitto: topics, quality of service 0."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "mosquitto.conf")
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"
            "persistence false\n"
        )
        with process("mosquitto", "-c", str(config), port=port) as pid:
            rate, each = asyncio.run(
                _load(port, events, _mqtt_opening, _mqtt_publication, lambda: cpu(pid))
            )
    return {"mosquitto_deliveries_per_second": rate, "mosquitto_deliveries_per_cpu_second": each}


def _nats_opening(number: int) -> bytes:
    connect = b'CONNECT {"verbose":false}\r\nPING\r\n'
    return connect if number < 0 else connect + f"SUB t{number} 1\r\n".encode()


def _nats_publication(topic: int) -> bytes:
    return f"PUB t{topic} {len(PAYLOAD)}\r\n".encode() + PAYLOAD + b"\r\n"


def nats(events: int, cpu: Callable[[int], float]) -> dict[str, float]:
    """NATS: subjects."""
    port = free_port()
    with process("nats-server", "-a", "127.0.0.1", "-p", str(port), port=port) as pid:
        rate, each = asyncio.run(
            _load(port, events, _nats_opening, _nats_publication, lambda: cpu(pid))
        )
    return {"nats_deliveries_per_second": rate, "nats_deliveries_per_cpu_second": each}
