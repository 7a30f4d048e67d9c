"""A client goes to another broker: what it had loses it nothing, and what it misses it is told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from live_world import run
from test_hostile import Raw, hello
from test_lives import Brokers, tell

from shoal.content import AttributeFilter
from shoal.live.client import Bus, connect
from shoal.live.messages import Accepted, Bye, Leave, Missed, Moved, Subscribe, ToClient, Welcome
from shoal.live.subscription import Gap, Received, Subscription
from shoal.live.virtual import VirtualLoop
from shoal.live.virtual_process import VirtualWire
from shoal.live.wire import encode
from shoal.routing.seen import WORDS
from shoal.testing import Network


async def holds(condition: Callable[[], bool]) -> None:
    """Wait until something holds; the clock is virtual."""
    while not condition():
        await asyncio.sleep(0.0005)


def ready(events: Subscription) -> tuple[list[Any], list[Gap]]:
    """What there is: the numbers of events, and gaps."""
    items: list[Any] = list(events._ready)
    numbers: list[Any] = [item["n"] for item in items if isinstance(item, Received)]
    return sorted(numbers), [item for item in items if isinstance(item, Gap)]


def moving(
    story: Callable[[VirtualLoop, Brokers, Bus, Subscription], Awaitable[None]], promise: Any
) -> None:
    """Tell what becomes of a client at broker ``b`` that can go to ``hub``; ``a`` publishes."""

    async def told(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a, b = [await brokers.start(name) for name in ("hub", "a", "b")]
        await asyncio.sleep(10.0)
        async with (
            connect(f"{b.address},{hub.address}", window=1) as bus,
            bus.subscribe("n >= 0", gaps=True, promise=promise) as events,
            connect(a.address) as publisher,
        ):
            await bus.settled()
            for n in range(10):
                await publisher.publish(n=n)
            await holds(lambda: any(session.queued == 9 for session in b.sessions))
            await story(loop, brokers, bus, events)

    tell(told)


@pytest.mark.parametrize("promise", ["best effort", "recovered"])
def test_a_broker_that_is_killed_while_its_client_moves_is_a_gap(promise: str) -> None:
    """It may have had events for the client, which is at another broker already."""

    async def story(loop: VirtualLoop, brokers: Brokers, bus: Bus, events: Subscription) -> None:
        b = next(p.broker for p in loop.places.values() if p.broker and p.broker.name == "b")
        stopping = asyncio.create_task(loop.terminate(b))
        await holds(lambda: bus.broker is not None and bus.broker.name == "hub")
        loop.kill(b)
        stopping.cancel()
        await asyncio.sleep(1.0)
        assert bus.reconnects == 0
        assert Gap(None, "the connection was lost") in ready(events)[1]

    moving(story, promise)


@pytest.mark.parametrize("promise", ["best effort", "recovered"])
def test_a_broker_that_stops_in_good_order_is_no_gap(promise: str) -> None:
    async def story(loop: VirtualLoop, brokers: Brokers, bus: Bus, events: Subscription) -> None:
        b = next(p.broker for p in loop.places.values() if p.broker and p.broker.name == "b")
        await loop.terminate(b)
        await asyncio.sleep(1.0)
        assert ready(events) == (list(range(10)), [])

    moving(story, promise)


@pytest.mark.parametrize("last", [3, 4])
@pytest.mark.parametrize("buffer", [1500, 1])
def test_what_a_broker_that_stops_still_lacks_is_fetched_or_a_gap(buffer: int, last: int) -> None:
    """It has noticed that events 1 to 3 are missing, as the fourth came, or it has not."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        brokers.recovery["buffer"] = buffer
        hub, a, b = [await brokers.start(name) for name in ("hub", "a", "b")]
        async with (
            connect(f"{b.address},{hub.address}") as bus,
            bus.subscribe("n >= 0", gaps=True) as events,
            connect(a.address) as publisher,
        ):
            await bus.settled()
            for n in range(last + 1):
                await publisher.publish(n=n)
                if n == 0:
                    await asyncio.sleep(10.0)  # b knows a's numbers
                    brokers.lose(b)
                if n == 3:
                    await asyncio.sleep(0.1)
                    VirtualWire(loop, b.address, "").fault()  # it is a good wire again
            await holds(lambda: last == 3 or len(ready(events)[0]) == 2)
            await loop.terminate(b)
            await asyncio.sleep(1.0)
            lost = [(gap.publisher, gap.count) for gap in ready(events)[1]]
            assert lost == ([] if buffer > 1 else [(a.node, last - 1)])
            assert ready(events)[0] == (list(range(last + 1)) if buffer > 1 else [0, last])

    tell(story)


def test_what_a_broker_that_stops_has_left_for_a_client_is_a_gap() -> None:
    """The client has moved, and takes nothing more."""

    async def story() -> None:
        async with Network(2) as network:
            broker = network.brokers[0]
            raw = await Raw.open(broker)
            greeting = hello(broker, capabilities=("moves",), window=1)
            raw.writer.write(encode(greeting) + encode(Subscribe(1, "n >= 0")))
            answer: Any = await raw.answer(Welcome)
            while not isinstance(answer, Accepted):
                answer = await raw.answer(ToClient)
            for n in range(5):
                broker.publish({"n": n})
            stopping = asyncio.create_task(broker.drain())
            while not isinstance(answer, Leave):
                answer = await raw.answer(ToClient)
            raw.writer.write(encode(Moved()))
            said = [msgspec.msgpack.decode(frame, type=ToClient) for frame in await raw.closed()]
            assert [m.count for m in said if isinstance(m, Missed)] == [4]
            assert isinstance(said[-1], Bye)
            await stopping

    run(story())


@pytest.mark.parametrize("when_full", ["drop oldest", "disconnect"])
def test_what_a_client_has_does_not_fill_its_queue_when_it_is_back(when_full: Any) -> None:
    """Its next broker holds a hundred events, and the client has all but the last five."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, b = await brokers.start("hub"), await brokers.start("b")
        await asyncio.sleep(10.0)
        async with (
            connect(
                f"{b.address},{hub.address}",
                window=10,
                queue=10,
                when_full=when_full,
                reconnect=(1.0, 1.0),
            ) as bus,
            bus.subscribe("n >= 0", promise="recovered") as events,
            connect(hub.address) as other,
        ):
            await bus.settled()
            got: Counter[Any] = Counter()

            async def collect() -> None:
                async for event in events:
                    got[event["n"]] += 1

            collecting = asyncio.create_task(collect())
            for n in range(100):
                if n == 95:
                    await holds(lambda: len(got) == 95)
                    loop.kill(b)
                await other.publish(n=n)
            await asyncio.sleep(30.0)
            collecting.cancel()
            assert got == Counter(range(100))
            assert bus.reconnects == 1
            assert events.missed == 0

    tell(story)


def test_who_subscribes_again_gets_nothing_of_the_time_in_between() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a = await brokers.start("hub"), await brokers.start("a")
        async with (
            connect(hub.address) as bus,
            bus.subscribe("n >= 0") as others,
            connect(a.address) as publisher,
        ):
            again = bus.subscribe("n >= 0", gaps=True, promise="recovered")
            for n in range(3):
                if n != 1:
                    await again.start()
                await bus.settled()
                await publisher.publish(n=n)
                assert (await anext(others))["n"] == n
                await asyncio.sleep(5.0)
                await again.stop()
            assert ready(again) == ([0, 2], [])

    tell(story)


@pytest.mark.parametrize("other", ["n >= 0", "n >= -1"])
def test_what_the_next_broker_has_had_and_holds_no_longer_is_fetched(other: str) -> None:
    """It had it for another client, with the same filter or not, and had to make room."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        brokers.recovery["buffer"] = 20
        hub, a, b, busy = [await brokers.start(name) for name in ("hub", "a", "b", "busy")]
        had: Counter[Any] = Counter()
        hub.listen_to(AttributeFilter(other), lambda event: had.update([event.sequence]))
        async with (
            connect(f"{b.address},{hub.address}", reconnect=(3.0, 3.0)) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
            connect(a.address) as publisher,
            connect(busy.address) as others,
        ):
            await bus.settled()
            loop.kill(b)
            for n in range(5):
                await publisher.publish(n=n)
            for n in range(40):
                await others.publish(n=100 + n)
            await asyncio.sleep(60.0)
            assert [n for n in ready(events)[0] if n < 100] == list(range(5))
            assert set(had.values()) == {1}, "delivered once in the broker's own process"

    tell(story)


def test_an_event_too_late_for_a_client_to_know_whether_it_is_new_is_a_gap() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub = await brokers.start("hub")
        async with connect(hub.address) as bus, bus.subscribe("n >= 0", gaps=True) as events:
            for n in range(2 * WORDS + 1):  # each in a word of its own
                events._put(Received({"n": n}, b"", 1, 64 + 32 * n))
            events._put(Received({"n": -1}, b"", 1, 0))
            events._put(Received({"n": n}, b"", 1, 64 + 32 * n))
            numbers, gaps = ready(events)
            assert len(numbers) == 2 * WORDS + 1
            assert [(gap.count, gap.publisher) for gap in gaps] == [(1, 1)]
            assert events.missed == 1

    tell(story)
