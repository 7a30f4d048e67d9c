"""``shoal bench live``: a broker on loopback, beside Mosquitto, NATS and RabbitMQ where installed.

The load comes from this process, over raw sockets; a broker's cost is its own processor time, read
from the operating system. Peers do the part of the job that they can express: Mosquitto and NATS
the equality of one attribute, a topic; RabbitMQ's headers exchange the equality of several.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from shoal.live.client import connect
from shoal.live.messages import VERSIONS, Accepted, Beat, Consumed, Hello, Known, Publish, Subscribe
from shoal.live.wire import LENGTH, encode

run_loop: Callable[[Coroutine[Any, Any, Any]], Any]
try:  # the load must not be what is measured
    from uvloop import run as run_loop
except ImportError:
    run_loop = asyncio.run


def _beside(name: str) -> ModuleType:
    """A module beside this one, wherever the benchmarks are."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = spec_from_file_location(f"shoal.benchmarks.{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


work = _beside("_live_workload")
SUBSCRIBERS: int = work.SUBSCRIBERS
FILTERS: int = work.FILTERS
TICK = os.sysconf("SC_CLK_TCK")


class Broker:
    """A broker in a process of its own, on one core."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shoal", "broker", "--listen", "127.0.0.1:0", *arguments],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]
        self.port = int(self.address.rpartition(":")[2])

    def cpu(self) -> float:
        return cpu(self.process.pid)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


def cpu(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def memory(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no memory of process {pid}")


class Client(asyncio.Protocol):
    """A client that only counts; parsing every event would measure the client."""

    def __init__(self) -> None:
        self.count = self.accepted = 0
        self.latencies: list[float] | None = None
        self._rest = b""
        self._taken = 0
        self.drained = asyncio.Event()
        self.drained.set()
        self.news = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        me = Known(-1, "bench", "", 0)
        hello = Hello(VERSIONS, "client", "link", me, time.time(), window=1_000_000)
        transport.write(encode(hello))  # type: ignore[attr-defined]  # a stream's
        self._beat()

    def _beat(self) -> None:
        """Say that one is alive: a broker gives silent clients up."""
        if not self.transport.is_closing():
            self.transport.write(encode(Beat()))
            asyncio.get_running_loop().call_later(10.0, self._beat)

    def connection_lost(self, error: Exception | None) -> None:
        self.drained.set()
        self.news.set()

    async def hears(self) -> None:
        """Wait until something arrives here."""
        self.news.clear()
        async with asyncio.timeout(60):
            await self.news.wait()
        if self.transport.is_closing():
            raise RuntimeError("the broker has closed a connection of the benchmark")

    def pause_writing(self) -> None:
        self.drained.clear()

    def resume_writing(self) -> None:
        self.drained.set()

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        at, end, count = 0, len(data), 0
        unpack = LENGTH.unpack_from
        while end - at >= 4:
            until = at + 4 + unpack(data, at)[0]
            if until > end:
                break
            if data[at + 5] == 0xA5:  # ["event", …
                count += 1
                if self.latencies is not None:
                    (sent,) = struct.unpack_from(">d", data, until - 10)  # no marks: two bytes
                    self.latencies.append(time.monotonic() - sent)
            elif data[at + 5] == 0xA2:  # ["ok", request]
                import msgspec

                answer = msgspec.msgpack.decode(data[at + 4 : until], type=Accepted)
                self.accepted = answer.request
            at = until
        self._rest = data[at:]
        self.news.set()
        self.count += count
        self._taken += count
        if self._taken >= 100_000:
            self.transport.write(encode(Consumed(self._taken)))
            self._taken = 0


async def clients(port: int, count: int) -> list[Client]:
    loop = asyncio.get_running_loop()
    return [(await loop.create_connection(Client, "127.0.0.1", port))[1] for _ in range(count)]


async def load(
    broker: Broker, filters: list[str], event: Any, events: int, rate: float = 0.0
) -> dict[str, float]:
    """Subscribe, wait for the index, publish, count."""
    subscribers = await clients(broker.port, SUBSCRIBERS)
    (publisher,) = await clients(broker.port, 1)
    for i, text in enumerate(filters):
        subscribers[i % SUBSCRIBERS].transport.write(encode(Subscribe(i + 1, text)))
    await ready(broker, len(set(filters)), publisher, event)
    base = sum(s.count for s in subscribers)
    chance = random.Random(5)
    contents = [event(chance) for _ in range(min(events, 20_000))]
    start = publisher.accepted + 1
    frames = [encode(Publish(start + i, contents[i % len(contents)])) for i in range(events)]
    began, used = time.monotonic(), broker.cpu()
    for at in range(0, events, 100):
        publisher.transport.write(b"".join(frames[at : at + 100]))
        await publisher.drained.wait()
        while start + at - publisher.accepted > 10_000:
            await publisher.hears()
    while publisher.accepted < start + events - 1:
        await publisher.hears()
    seconds, used = time.monotonic() - began, broker.cpu() - used
    await asyncio.sleep(0.3)
    deliveries = sum(s.count for s in subscribers) - base
    latency = await latencies(subscribers, publisher, event, rate or 0.5 * events / seconds)
    for one in (*subscribers, publisher):
        one.transport.close()
    return {
        "events_per_second": events / seconds,
        "events_per_cpu_second": events / used,
        "deliveries_per_second": deliveries / seconds,
        "deliveries_per_cpu_second": deliveries / used,
        "deliveries_per_event": deliveries / events,
        **latency,
    }


async def ready(broker: Broker, filters: int, publisher: Client, event: Any) -> None:
    """Until all filters are there and the index has them."""
    async with connect(broker.address) as bus:
        while (await bus.inspect()).filters < filters:
            await asyncio.sleep(0.1)
        for number in range(300):  # until an event takes no longer than it should
            began = time.monotonic()
            await bus.publish(event(random.Random(number)))
            if time.monotonic() - began < 0.003 and number > 20:
                return
            await asyncio.sleep(0.05)


async def latencies(
    subscribers: list[Client], publisher: Client, event: Any, rate: float, seconds: float = 3.0
) -> dict[str, float]:
    """From publication to arrival, at a steady rate; the body carries the time."""
    for subscriber in subscribers:
        subscriber.latencies = []
    chance = random.Random(6)
    contents = [event(chance) for _ in range(5000)]
    number, began = publisher.accepted, time.monotonic()
    sent = 0
    while (now := time.monotonic()) - began < seconds:
        due = int((now - began) * rate) - sent
        out = []
        for _ in range(due):
            number += 1
            body = struct.pack(">d", time.monotonic())
            out.append(encode(Publish(number, contents[number % 5000], body)))
        sent += due
        publisher.transport.write(b"".join(out))
        await asyncio.sleep(0.001)  # the finest that uvloop knows
    await asyncio.sleep(0.5)
    found = sorted(x for s in subscribers for x in s.latencies or ())
    for subscriber in subscribers:
        subscriber.latencies = None
    if not found:
        return {}
    return {
        "latency_load_events_per_second": sent / seconds,
        "latency_ms_p50": 1e3 * found[len(found) // 2],
        "latency_ms_p99": 1e3 * found[int(len(found) * 0.99)],
    }


async def chain(filters: list[str], event: Any, events: int) -> tuple[float, float]:
    """Events through five brokers: published at one end, the clients at the other.

    Per second, from end to end, with all brokers and the clients sharing this machine's cores; and
    per processor second of the busiest broker, which is what bounds a chain whose brokers have a
    core each.
    """
    brokers = [Broker("--overlay", "links")]
    for _ in range(4):
        brokers.append(Broker("--link", brokers[-1].address))
    try:
        subscribers = await clients(brokers[-1].port, SUBSCRIBERS)
        (publisher,) = await clients(brokers[0].port, 1)
        for i, text in enumerate(filters):
            subscribers[i % SUBSCRIBERS].transport.write(encode(Subscribe(i + 1, text)))
        (last,) = await clients(brokers[-1].port, 1)
        last.transport.write(encode(Subscribe(1, "last = TRUE")))
        async with connect(brokers[0].address) as bus:
            while (await bus.inspect()).entries < len(set(filters)) + 1:
                await asyncio.sleep(0.2)
            for number in range(60):  # the indexes are being loaded
                await bus.publish(event(random.Random(number)))
                await asyncio.sleep(0.05)
        chance = random.Random(5)
        contents = [event(chance) for _ in range(10_000)]
        sent = [contents[i % 10_000] for i in range(events)]
        step = 1000
        for at in range(step - 1, events, step):  # marks, by which to see how far events have come
            sent[at] = {"last": True}
        owed = sum(work.deliveries(filters, sent))
        frames = [encode(Publish(i + 1, values)) for i, values in enumerate(sent)]
        await asyncio.sleep(1.0)
        base = sum(s.count for s in subscribers)
        began, used = time.monotonic(), [broker.cpu() for broker in brokers]
        for at in range(0, events, 100):
            publisher.transport.write(b"".join(frames[at : at + 100]))
            while at - step * last.count > 5 * step:
                await last.hears()
        while last.count < events // step:
            await last.hears()
        through = step * last.count
        seconds = time.monotonic() - began
        busiest = max(broker.cpu() - before for broker, before in zip(brokers, used, strict=True))
        await asyncio.sleep(0.5)
        got = sum(s.count for s in subscribers) - base
        if got != owed:
            raise RuntimeError(f"{owed} deliveries were due at the end of the chain, not {got}")
        return through / seconds, through / busiest
    finally:
        for broker in brokers:
            broker.stop()


async def tree(brokers: int = 24) -> dict[str, float]:
    """Seconds until brokers with default timers are one tree: started, and without their root."""
    running: list[Broker] = []
    try:
        for n in range(brokers):
            running.append(Broker(*(("--join", running[n // 3].address) if n else ())))
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            buses = {b: await stack.enter_async_context(connect(b.address)) for b in running}

            async def one_tree() -> Broker:
                while True:
                    states = [(await bus.inspect(), broker) for broker, bus in buses.items()]
                    roots = [b for s, b in states if s.overlay["parent"] == "none (root)"]
                    links = sum(len(state.links) for state, _ in states)
                    if len(roots) == 1 and links == 2 * (len(states) - 1):
                        return roots[0]
                    await asyncio.sleep(0.01)

            root = await one_tree()
            started = time.monotonic() - began
            await buses.pop(root).close()
            root.process.kill()
            began = time.monotonic()
            await one_tree()
            return {
                f"tree_of_{brokers}_seconds": started,
                f"tree_of_{brokers}_without_root_seconds": time.monotonic() - began,
            }
    finally:
        for broker in running:
            broker.stop()


async def idle(subscriptions: int, distinct: int) -> float:
    """Bytes that an idle subscription takes beyond the index, if there are so many filters.

    The growth of the broker's resident memory, as the operating system sees it, from 5,000
    subscriptions of one client (with the index loaded and in use, so that its code is not counted)
    to as many more; less the bytes of the arrays of an index that holds the filters which are new.
    Everything else counts: the filters and their text, routing's table, the client's numbers, what
    the allocator wastes.
    """
    broker = Broker()
    try:
        (client,) = await clients(broker.port, 1)

        async def fill(first: int, last: int) -> int:
            for at in range(first, last):
                text = work.idle_filter(at % distinct)
                client.transport.write(encode(Subscribe(at + 1, text)))
                if at % 500 == 0:
                    await client.drained.wait()
                    await asyncio.sleep(0)
            async with connect(broker.address, patience=120) as bus:
                while (await bus.inspect()).clients[0].subscriptions < last:
                    await asyncio.sleep(0.2)
            await ready(broker, min(last, distinct), client, work.idle_event)
            return memory(broker.process.pid)

        small = await fill(0, 5000)
        large = await fill(5000, 5000 + subscriptions)
        grown: int = large - small - work.index_bytes(max(0, distinct - 5000))
        return grown / subscriptions
    finally:
        broker.stop()


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """All of it."""
    events = 50_000 if quick else 200_000
    filters = work.mixed_filters(random.Random(1))
    content = _one_broker("content", filters, work.mixed_event, events)
    yield content
    topics = [f"topic = 't{i}'" for i in range(SUBSCRIBERS)]
    plain = _one_broker("topic", topics, work.topic_event, events)
    yield plain
    equality = _one_broker("equality", work.equality_filters(), work.equality_event, events)
    yield equality
    rate, each = run_loop(chain(filters, work.mixed_event, events // 2))
    yield {
        "chain_of_5_events_per_second": rate,
        "chain_share": rate / content["content_events_per_second"],
        "chain_of_5_events_per_cpu_second_of_busiest": each,
        "chain_share_per_core": each / content["content_events_per_cpu_second"],
    }
    yield run_loop(tree())
    many = 20_000 if quick else 100_000
    yield {
        "idle_subscription_bytes": run_loop(idle(many, 5000)),
        "idle_subscription_bytes_if_all_differ": run_loop(idle(many, 5000 + many)),
    }
    peers = _beside("_live_peers")
    if shutil.which("mosquitto"):
        theirs = peers.mosquitto(events, cpu)
        yield theirs
        share = (
            plain["topic_deliveries_per_cpu_second"] / theirs["mosquitto_deliveries_per_cpu_second"]
        )
        yield {"topic_share_of_mosquitto": share}
    if shutil.which("nats-server"):
        yield peers.nats(events, cpu)
    rabbit = _beside("_live_rabbit")
    if Path(rabbit.SERVER).exists():
        keys = ("symbol", "venue", "lot")
        values = [dict(zip(keys, work.equality_values(n), strict=True)) for n in range(FILTERS)]
        sent = [values[n * 37 % FILTERS] for n in range(300 if quick else 1000)]
        theirs = rabbit.rabbitmq(values, sent, peers.free_port)
        yield theirs
        times = equality["equality_events_per_second"] / theirs["rabbitmq_events_per_second"]
        yield {"equality_times_rabbitmq": times}


def _one_broker(
    name: str, filters: list[str], event: Callable[[random.Random], dict[str, Any]], events: int
) -> dict[str, float]:
    """What one broker makes of a load, each number with the load's name."""
    broker = Broker()
    try:
        numbers = run_loop(load(broker, filters, event, events))
    finally:
        broker.stop()
    return {f"{name}_{key}": value for key, value in numbers.items()}
