"""RabbitMQ's headers exchange under the equality load of ``shoal bench live``.

Just enough AMQP 0-9-1 over a raw socket: queues, bindings, publications and their count.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
EXCHANGE = "bench"
PAYLOAD = b"x" * 20
QUEUES = 100


def _short(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def _long(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _table(values: Mapping[str, str | int]) -> bytes:
    parts = []
    for name, value in values.items():
        if isinstance(value, int):
            parts.append(_short(name) + b"I" + struct.pack(">i", value))
        else:
            parts.append(_short(name) + b"S" + _long(value.encode()))
    return _long(b"".join(parts))


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def _method(number: tuple[int, int], arguments: bytes, channel: int = 1) -> bytes:
    return _frame(1, channel, struct.pack(">HH", *number) + arguments)


class Channel:
    """One connection with one channel."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._rest = b""
        self.send(b"AMQP\x00\x00\x09\x01")
        self.wait((10, 10))
        start = _long(b"") + _short("PLAIN") + _long(b"\0guest\0guest") + _short("en_US")
        self.send(_method((10, 11), start, 0))
        tune = self.wait((10, 30))
        self.send(_method((10, 31), tune[:6] + b"\0\0", 0))
        self.send(_method((10, 40), _short("/") + _short("") + b"\0", 0))
        self.wait((10, 41))
        self.send(_method((20, 10), _short("")))
        self.wait((20, 11))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def wait(self, number: tuple[int, int]) -> bytes:
        """The arguments of the next method of that number; others are passed over."""
        while True:
            while len(self._rest) >= 7:
                kind, _, size = struct.unpack_from(">BHI", self._rest)
                if len(self._rest) < size + 8:
                    break
                payload, self._rest = self._rest[7 : 7 + size], self._rest[size + 8 :]
                if kind == 1 and struct.unpack_from(">HH", payload) == number:
                    return payload[4:]
            data = self._socket.recv(65_536)
            if not data:
                raise OSError("RabbitMQ closed the connection")
            self._rest += data

    def count(self, wanted: int, seconds: float) -> int:
        """How many deliveries come within a time, at most as many as wanted."""
        end, found, tail = time.monotonic() + seconds, 0, b""
        while found < wanted and (left := end - time.monotonic()) > 0:
            self._socket.settimeout(left)
            try:
                data = tail + self._socket.recv(65_536)
            except TimeoutError:
                break
            found += data.count(PAYLOAD)
            tail = b"" if data.endswith(PAYLOAD + b"\xce") else data[-19:]
        return found

    def close(self) -> None:
        self._socket.close()


def rabbitmq(
    bindings: Sequence[Mapping[str, str | int]],
    headers: Sequence[Mapping[str, str | int]],
    free_port: Callable[[], int],
) -> dict[str, float]:
    """Events a second through a headers exchange with these bindings."""
    port, epmd = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "HOME": folder,
            "RABBITMQ_MNESIA_BASE": folder,
            "RABBITMQ_LOG_BASE": folder,
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "ERL_EPMD_PORT": str(epmd),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        with subprocess.Popen(
            [SERVER],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as server:
            try:
                rate = _measure(_open(port), port, bindings, headers)
            finally:
                server.terminate()
                server.wait(30)
                subprocess.run(["epmd", "-kill"], env=environment, capture_output=True)
    return {"rabbitmq_events_per_second": rate}


def _open(port: int) -> Channel:
    for _ in range(240):
        try:
            return Channel(port)
        except OSError:
            time.sleep(0.25)
    raise OSError("RabbitMQ does not start")


def _measure(
    consumer: Channel,
    port: int,
    bindings: Sequence[Mapping[str, str | int]],
    headers: Sequence[Mapping[str, str | int]],
) -> float:
    consumer.send(
        _method((40, 10), b"\0\0" + _short(EXCHANGE) + _short("headers") + b"\0" + _table({}))
    )
    consumer.wait((40, 11))
    for number in range(QUEUES):
        queue = _short(f"q{number}")
        consumer.send(_method((50, 10), b"\0\0" + queue + b"\x18" + _table({})))
        consume = b"\0\0" + queue + _short(f"c{number}") + b"\x0a" + _table({})
        consumer.send(_method((60, 20), consume))
    for number, binding in enumerate(bindings):
        queue = _short(f"q{number % QUEUES}")
        arguments = _table({"x-match": "all", **binding})
        bind = b"\0\0" + queue + _short(EXCHANGE) + _short("") + b"\x01" + arguments
        consumer.send(_method((50, 20), bind))
    consumer.send(_method((50, 10), b"\0\0" + _short("q0") + b"\x08" + _table({})))
    consumer.wait((50, 11))  # all bindings are there
    publisher = Channel(port)
    began = time.monotonic()
    publish = _method((60, 40), b"\0\0" + _short(EXCHANGE) + _short("") + b"\0")
    for header in headers:
        properties = struct.pack(">HHQH", 60, 0, len(PAYLOAD), 0x2000) + _table(header)
        publisher.send(publish + _frame(2, 1, properties) + _frame(3, 1, PAYLOAD))
    got = consumer.count(len(headers), 30)
    seconds = time.monotonic() - began
    consumer.close()
    publisher.close()
    return got / seconds
