"""``shoal bench recovery``: a node on the way is killed and comes back; what still arrives?

A publisher sends a steady stream to a subscriber, over a broker in the middle (Zenoh: its router).
Once that is killed with SIGKILL a third of the way through and started again a second later; once
it stays, and the wire between it and the subscriber's side is cut every second. Shoal runs with no
recovery and with combined pull; Zenoh with its plain, and with its advanced publisher and
subscriber (cache, miss detection, heartbeat), where ``eclipse-zenoh`` is installed. Publisher and
subscriber are in this process, so that delays are of one clock. *Late* is what took longer than
half a second.

The cost where nothing is lost is the processor time per delivery of all brokers together. Two
chains of brokers, with and without a recovery, run side by side and get slices of events in turn,
so that whatever else the machine does concerns both. Each pair of slices gives one ratio.

The memory of a buffered event is what a broker's buffer takes for it, as it came from a neighbour,
beyond its encoded attributes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import AsyncExitStack
from importlib import import_module
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import msgspec

from shoal.content import Attributes, Event
from shoal.content.event import MARK_BYTES
from shoal.live.client import connect
from shoal.live.processes import BrokerProcess, free_port
from shoal.live.proxy import Proxy
from shoal.recovery.buffer import EventBuffer

RATE = 200.0
DOWN = 1.0
LATE = 0.5
QUIET = 5.0
"""Seconds without a delivery after which none is expected."""
CUTTING = 1.0
"""Seconds from one cut of a wire to the next."""
SLICE = 200
"""Events that one chain gets before it is the other's turn."""
AT_ONCE = 100
"""Events that are published without waiting for one another."""
BUFFERED = 100_000
"""Events in a buffer whose memory is measured."""
OPTIONS = {"no_recovery": (), "recovered": ("--recovery=combined-pull",)}
CHAIN = ("--overlay=links", "--routing=subscription-forwarding", "--reconfiguration=strawman")


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    yield {"shoal_bytes_per_buffered_event": _memory()}
    events = 1200 if quick else 4000
    for label, options in OPTIONS.items():
        yield _summary(f"shoal_{label}", events, asyncio.run(_shoal(events, options)))
        found = asyncio.run(_shoal(events, options, cut=True))
        yield _summary(f"shoal_{label}_cut", events, found)
    try:
        import_module("zenoh")
    except ImportError:
        print("eclipse-zenoh is not installed: measured without it")
    else:
        for label, advanced in (("plain", False), ("advanced", True)):
            yield _summary(f"zenoh_{label}", events, _zenoh(events, advanced))
            found = _zenoh(events, advanced, cut=True)
            yield _summary(f"zenoh_{label}_cut", events, found)
    yield from asyncio.run(_cost(50 if quick else 400))


def _summary(label: str, events: int, delays: dict[int, list[float]]) -> dict[str, float]:
    """What arrived of so many events, and how late what was late."""
    first = [got[0] for got in delays.values()]
    late = sorted(delay for delay in first if delay > LATE)
    found = {
        f"{label}_share_delivered": len(first) / events,
        f"{label}_delivered_twice": float(sum(len(got) - 1 for got in delays.values())),
        f"{label}_late": float(len(late)),
    }
    if late:
        found[f"{label}_late_delay_p50_s"] = late[len(late) // 2]
        found[f"{label}_late_delay_p99_s"] = late[min(len(late) - 1, len(late) * 99 // 100)]
    return found


# Shoal


def _memory() -> float:
    """Bytes per event that a broker's buffer takes beyond the event's encoded attributes."""
    buffer = EventBuffer(BUFFERED, 1 << 40, 1e9)
    encoded = 0
    tracemalloc.start()
    for number in range(BUFFERED):
        content = Attributes({"n": number})
        event = Event(1 << 60, (1 << 50) + number, content, b"", bytes(MARK_BYTES))
        encoded += len(msgspec.msgpack.encode(content.values))
        came = bytes(bytearray(msgspec.msgpack.encode(event)))  # cut from a frame
        buffer.add(event, float(number), came)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (taken - encoded) / len(buffer)


def _broker(name: str, options: tuple[str, ...], link: str = "") -> BrokerProcess:
    started = BrokerProcess(name, [*CHAIN, *options, *([f"--link={link}"] if link else [])])
    started.listens()
    return started


async def _cut(proxy: Proxy) -> None:
    """Cut a wire again and again."""
    while True:
        await asyncio.sleep(CUTTING)
        proxy.cut()


async def _shoal(
    events: int, options: tuple[str, ...], cut: bool = False
) -> dict[int, list[float]]:
    """Delays per event, with the middle broker killed or the wire from it cut."""
    brokers = [_broker("a", options)]
    brokers.append(_broker("b", options, brokers[0].address))
    wire = await Proxy(brokers[1].address).start()
    cutting: asyncio.Task[None] | None = None
    brokers.append(await asyncio.to_thread(_broker, "c", options, wire.address))
    delays: dict[int, list[float]] = {}
    sent: dict[int, float] = {}
    try:
        async with (
            connect(brokers[0].address) as publisher,
            connect(brokers[2].address) as subscriber,
            subscriber.subscribe("n >= 0") as wanted,
        ):
            await subscriber.settled()

            async def collect() -> None:
                async for event in wanted:
                    number = int(event["n"])  # type: ignore[arg-type]
                    delays.setdefault(number, []).append(time.monotonic() - sent[number])

            collecting = asyncio.create_task(collect())
            if cut:
                cutting = asyncio.create_task(_cut(wire))
            began = time.monotonic()
            for number in range(events):
                if number == events // 3 and not cut:
                    brokers[1].signal(signal.SIGKILL)
                    brokers[1].process.wait()
                    asyncio.get_running_loop().call_later(DOWN, brokers[1].start)
                await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
                sent[number] = time.monotonic()
                await publisher.publish(n=number)
            if cutting is not None:
                cutting.cancel()
            await _until_quiet(delays, events)
            collecting.cancel()
    finally:
        for broker in brokers:
            broker.close()
        await wire.stop()
    return delays


async def _until_quiet(delays: dict[int, list[float]], events: int) -> None:
    known, since = len(delays), time.monotonic()
    while known < events and time.monotonic() - since < QUIET:
        await asyncio.sleep(0.1)
        if len(delays) > known:
            known, since = len(delays), time.monotonic()


class _Chain:
    """Three brokers, a publisher at the first and a subscriber at the last."""

    def __init__(self, options: tuple[str, ...]) -> None:
        self.brokers = [_broker("a", options)]
        for name in ("b", "c"):
            self.brokers.append(_broker(name, options, self.brokers[-1].address))
        self.sent = 0

    async def open(self, stack: AsyncExitStack) -> None:
        """Connect the clients, and let happen what happens only once."""
        self._publisher = await stack.enter_async_context(connect(self.brokers[0].address))
        subscriber = await stack.enter_async_context(connect(self.brokers[2].address))
        self._wanted = await stack.enter_async_context(subscriber.subscribe("n >= 0"))
        await subscriber.settled()
        await self.slice(200)

    async def slice(self, events: int = SLICE) -> list[float]:
        """Microseconds of processor time that each broker takes for one of so many events."""
        before = [_cpu(broker) for broker in self.brokers]
        for first in range(self.sent, self.sent + events, AT_ONCE):
            async with asyncio.TaskGroup() as group:
                for number in range(first, first + AT_ONCE):
                    group.create_task(self._publisher.publish(n=number))
            for _ in range(AT_ONCE):
                await anext(self._wanted)
        self.sent += events
        after = [_cpu(broker) for broker in self.brokers]
        return [1e6 * (b - a) / events for a, b in zip(before, after, strict=True)]

    def close(self) -> None:
        """Kill the brokers."""
        for broker in self.brokers:
            broker.close()


async def _cost(pairs: int) -> list[dict[str, float]]:
    """Processor time per delivery with and without a recovery, with nothing lost."""
    costs: dict[str, list[list[float]]] = {label: [] for label in OPTIONS}
    async with AsyncExitStack() as stack:
        chains: dict[str, _Chain] = {}
        for label, options in OPTIONS.items():
            chains[label] = await asyncio.to_thread(_Chain, options)
            stack.callback(chains[label].close)
        for chain in chains.values():
            await chain.open(stack)
        await asyncio.sleep(2.0)
        for pair in range(pairs):
            for label in list(chains) if pair % 2 else reversed(chains):  # ABBA
                costs[label].append(await chains[label].slice())
    found: dict[str, float] = {}
    for label, slices in costs.items():
        found[f"shoal_{label}_us_per_delivery"] = median(map(sum, slices))
        for place, name in enumerate("abc"):
            found[f"shoal_{label}_us_of_broker_{name}"] = median(one[place] for one in slices)
    both = zip(costs["recovered"], costs["no_recovery"], strict=True)
    ratios = [sum(recovered) / sum(plain) for recovered, plain in both]
    low, _, high = quantiles(ratios)
    cost = "shoal_recovered_to_no_recovery_time"
    return [found, {cost: median(ratios), f"{cost}_q1": low, f"{cost}_q3": high}]


def _cpu(broker: BrokerProcess) -> float:
    """Seconds of processor time of a broker: to the nanosecond where Linux counts so."""
    process = Path(f"/proc/{broker.process.pid}")
    try:
        threads = [
            one.joinpath("schedstat").read_text() for one in process.joinpath("task").iterdir()
        ]
        return sum(int(text.split()[0]) for text in threads) / 1e9
    except FileNotFoundError:
        fields = process.joinpath("stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# Zenoh

_ROUTER = """
import sys, time, zenoh
config = zenoh.Config()
config.insert_json5("mode", '"router"')
config.insert_json5("listen/endpoints", '["tcp/127.0.0.1:%s"]' % sys.argv[1])
config.insert_json5("scouting/multicast/enabled", "false")
session = zenoh.open(config)
print("listens", flush=True)
time.sleep(3600)
"""


def _router(port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _ROUTER, str(port)]
    environment = {**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)}
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert started.stdout is not None
    started.stdout.readline()
    return started


def _session(port: int) -> Any:
    zenoh: Any = import_module("zenoh")
    config = zenoh.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", f'["tcp/127.0.0.1:{port}"]')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("timestamping/enabled", "true")
    return zenoh.open(config)


class _Wire:
    """A proxy in a thread of its own, cut again and again once that is asked for."""

    def __init__(self, port: int) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._proxy = Proxy(f"127.0.0.1:{port}", frames=False)
        self._run(self._proxy.start())
        self.port = int(self._proxy.address.rpartition(":")[2])
        self._cutting: Any = None

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def cut(self) -> None:
        self._cutting = asyncio.run_coroutine_threadsafe(_cut(self._proxy), self._loop)

    def heal(self) -> None:
        if self._cutting is not None:
            self._cutting.cancel()

    def stop(self) -> None:
        self._run(self._proxy.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)


def _zenoh(events: int, advanced: bool, cut: bool = False) -> dict[int, list[float]]:
    """Delays per event, with the router killed or the wire from it cut."""
    ext: Any = import_module("zenoh.ext")
    port = free_port()
    router = [_router(port)]
    wire = _Wire(port)
    delays: dict[int, list[float]] = {}
    sent: dict[int, float] = {}

    def collect(sample: Any) -> None:
        number = int(bytes(sample.payload))
        delays.setdefault(number, []).append(time.monotonic() - sent[number])

    try:
        with _session(port) as source, _session(wire.port) as sink:
            if advanced:
                subscriber = ext.declare_advanced_subscriber(
                    sink, "bench/n", collect, recovery=ext.RecoveryConfig(heartbeat=True)
                )
                publisher = ext.declare_advanced_publisher(
                    source,
                    "bench/n",
                    cache=ext.CacheConfig(max_samples=events),
                    sample_miss_detection=ext.MissDetectionConfig(heartbeat=1.0),
                    publisher_detection=True,
                )
            else:
                subscriber = sink.declare_subscriber("bench/n", collect)
                publisher = source.declare_publisher("bench/n")
            time.sleep(1.0)
            if cut:
                wire.cut()
            began = time.monotonic()
            for number in range(events):
                if number == events // 3 and not cut:
                    router[-1].kill()
                    router[-1].wait()
                    threading.Timer(DOWN, lambda: router.append(_router(port))).start()
                time.sleep(max(0.0, began + number / RATE - time.monotonic()))
                sent[number] = time.monotonic()
                publisher.put(str(number).encode())
            wire.heal()
            asyncio.run(_until_quiet(delays, events))
            del subscriber
    finally:
        for one in router:
            one.kill()
            one.wait()
        wire.stop()
    return delays
