"""A broker dies with events that only it held: who wanted them is told, wherever it is by then."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from shoal.content import AttributeFilter, Attributes, Event
from shoal.live import virtual
from shoal.live.broker import Broker
from shoal.live.client import connect
from shoal.live.errors import RefusedError
from shoal.live.identity import first_sequence
from shoal.live.lives import MOST
from shoal.live.messages import Life
from shoal.live.settings import settings_from
from shoal.live.subscription import Gap, Subscription
from shoal.live.virtual import VirtualLoop, _here
from shoal.live.virtual_process import VirtualWire
from shoal.recovery.copies import Copies
from shoal.recovery.holding import HOLDING
from shoal.recovery.messages import Compare, Follow, Following, Hold
from shoal.recovery.pulls import CombinedPull
from shoal.stack import Contact
from shoal.stack.message import OLDEST

LONG = 400.0
"""Seconds of virtual time after which nothing is told any more."""


class Brokers:
    """Brokers on a virtual loop; each is linked to ``hub``, which is there from the beginning."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.hub: Broker | None = None
        self.recovery: dict[str, Any] = {"name": "combined-pull"}

    async def start(self, name: str, listen: str = "127.0.0.1:0") -> Broker:
        raw: dict[str, Any] = {
            "name": name,
            "seed": 1,
            "listen": listen,
            "overlay": {"name": "links"},
            "routing": {"name": "subscription-forwarding"},
            "reconfiguration": {"name": "strawman"},
            "recovery": self.recovery,
            "links": () if self.hub is None else (self.hub.address,),
        }
        broker = await self.loop.start(settings_from(raw))
        self.hub = self.hub or broker
        while broker is not self.hub and self.hub.node not in broker.links:
            await asyncio.sleep(0.01)
        return broker

    def lose(self, broker: Broker) -> None:
        """From now on no event reaches this broker from others, or others from it."""
        VirtualWire(self.loop, broker.address, "").fault(loss=1.0)


def tell(story: Callable[[VirtualLoop, Brokers], Awaitable[None]]) -> None:
    async def bounded(loop: VirtualLoop) -> None:
        async with asyncio.timeout(LONG):
            await story(loop, Brokers(loop))

    with VirtualLoop() as loop:
        loop.run(bounded(loop))


async def publish(broker: Broker, **values: int) -> None:
    async with connect(broker.address) as bus:
        await bus.publish(dict(values))


async def gap_of(publisher: Broker, events: Subscription) -> Gap:
    """The next gap that names a publisher."""
    item: Any
    async for item in events:
        if isinstance(item, Gap) and item.publisher == publisher.node:
            return item
    raise AssertionError("the subscription has ended")


async def event(n: int, events: Subscription) -> None:
    """Wait for an event."""
    item: Any
    async for item in events:
        if not isinstance(item, Gap) and item["n"] == n:
            return


def test_a_publisher_that_dies_with_its_first_event_is_a_gap_all_the_same() -> None:
    """Nobody had got an event of it, or followed it."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a = await brokers.start("hub"), await brokers.start("a")
        async with (
            connect(hub.address) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            brokers.lose(a)
            await publish(a, n=1)
            loop.kill(a)
            await brokers.start("a", a.address)
            assert (await gap_of(a, events)).count is None

    tell(story)


def test_a_publisher_that_dies_for_good_with_its_first_event_is_a_gap() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a = await brokers.start("hub"), await brokers.start("a")
        async with (
            connect(hub.address) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            brokers.lose(a)
            await publish(a, n=1)
            await asyncio.sleep(0.01)  # that it publishes is told, but nobody asked for numbers
            loop.kill(a)
            assert (await gap_of(a, events)).count is None

    tell(story)


def test_a_broker_that_starts_or_stops_in_order_is_no_gap() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub = await brokers.start("hub")
        async with (
            connect(hub.address) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            for n in range(3):
                a = await brokers.start("a")
                await publish(a, n=n)
                await event(n, events)
                await asyncio.sleep(10.0)
                await loop.terminate(a)
            await asyncio.sleep(200.0)
            assert events.gaps == 0

    tell(story)


def test_a_client_that_moves_is_told_what_its_broker_could_not() -> None:
    """The publisher's broker and the client's die together; either may be back first."""

    async def story(loop: VirtualLoop, brokers: Brokers, pause: tuple[float, float]) -> None:
        hub, a, b = [await brokers.start(name) for name in ("hub", "a", "b")]
        async with (
            connect(f"{b.address},{hub.address}", reconnect=pause) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            brokers.lose(a)
            await publish(a, n=1)
            loop.kill(a)
            loop.kill(b)
            await asyncio.sleep(0.5)
            await brokers.start("a", a.address)
            assert (await gap_of(a, events)).count is None
            assert bus.broker is not None
            assert bus.broker.name == "hub"

    for pause in (0.01, 0.01), (5.0, 5.0):
        tell(partial(story, pause=pause))


def test_a_client_is_told_of_a_death_once_however_often_it_moves() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a, b = [await brokers.start(name) for name in ("hub", "a", "b")]
        async with (
            connect(f"{b.address},{hub.address}", reconnect=(0.01, 0.01)) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            loop.kill(a)
            await brokers.start("a", a.address)
            await gap_of(a, events)
            for at, to in ((b, "hub"), (hub, "b"), (b, "hub")):
                wire = VirtualWire(loop, at.address, "")
                while bus.broker is None or bus.broker.name != to:
                    wire.cut()
                    await asyncio.sleep(1.0)
            names = []
            while events._ready:
                names.append((await anext(events)).publisher)
            assert a.node not in names
            assert names  # the connection was lost, again and again

    tell(story)


def test_a_client_whose_next_broker_dies_before_it_has_settled_moves_on() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a, b = [await brokers.start(name) for name in ("hub", "a", "b")]
        async with (
            connect(f"{a.address},{b.address}", reconnect=(0.01, 0.01)) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            loop.stop_process(hub)  # nobody settles meanwhile
            leaving = asyncio.create_task(loop.terminate(a))
            while bus.broker is None or bus.broker.name != "b":
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            VirtualWire(loop, b.address, "").cut()
            await asyncio.sleep(0.1)
            loop.go_on(hub)
            await leaving
            b.publish({"n": 1})
            await event(1, events)

    tell(story)


def test_a_client_that_moves_to_where_others_want_the_same_misses_nothing() -> None:
    """Others there wanted it later than this client did, which lacks an earlier event."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a, b = [await brokers.start(name) for name in ("hub", "a", "b")]
        async with (
            connect(f"{b.address},{hub.address}", reconnect=(0.01, 0.01)) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
            connect(hub.address) as other,
        ):
            await bus.settled()
            brokers.lose(b)
            await publish(a, n=1)
            await asyncio.sleep(10.0)
            async with other.subscribe("n >= 0"):
                await other.settled()
                loop.kill(b)
                await event(1, events)

    tell(story)


def test_a_broker_fetches_what_it_published_in_an_earlier_life() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a, b = [await brokers.start(name) for name in ("hub", "a", "b")]
        async with (
            connect(f"{b.address},{a.address}", reconnect=(0.1, 0.1)) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
            connect(hub.address) as other,
            other.subscribe("n >= 0") as holds,
        ):
            await bus.settled()
            await other.settled()
            brokers.lose(b)
            await publish(a, n=1)
            await event(1, holds)
            loop.kill(a)
            loop.kill(b)
            again = await brokers.start("a", a.address)
            again.publish({"n": 2})
            await event(1, events)

    tell(story)


def test_a_publisher_that_came_back_is_followed_before_it_publishes() -> None:
    """What it then loses is noticed by its last number, long before it is asked again."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        brokers.recovery["compare"] = 0.0
        hub, a = await brokers.start("hub"), await brokers.start("a")
        async with (
            connect(hub.address) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            await publish(a, n=0)
            await event(0, events)
            loop.kill(a)
            await brokers.start("a", a.address)
            await gap_of(a, events)
            await asyncio.sleep(10.0)
            brokers.lose(a)
            await publish(a, n=1)
            VirtualWire(loop, a.address, "").fault()
            async with asyncio.timeout(30.0):
                await event(1, events)

    tell(story)


def test_events_of_an_earlier_life_are_not_counted_among_those_of_this_one() -> None:
    """A follower that has others of them would take these for what it lacks."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        a = await brokers.start("a")
        recovery = a.layers.recovery
        assert isinstance(recovery, CombinedPull)
        answers: list[Any] = []
        a.host.send_direct = lambda to, message: answers.append(message)  # type: ignore[method-assign]  # the follower
        wanted = AttributeFilter("n >= 0")
        recovery.keep(Event(a.node, 5, Attributes({"n": 0})), loop.time())
        first = a.publish({"n": 1}).sequence
        recovery.on_follow(9, Follow(Contact(9, "x:1"), a.node, (wanted,), (100.0,), (-1,), 1))
        (answer,) = [each for each in answers if isinstance(each, Following)]
        (start,) = answer.starts
        assert (start.first, start.count - start.before) == (first - 1, 1)

    tell(story)


def test_lives_that_a_neighbour_makes_up_take_bounded_memory_and_cut_no_link() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, liar, b = [await brokers.start(name) for name in ("hub", "liar", "b")]
        changes = hub.link_changes, b.link_changes
        async with connect(hub.address) as bus, bus.subscribe("n >= 0", promise="recovered"):
            await bus.settled()
            hostile = liar.peers.connected[hub.node]
            for node in range(10**6, 10**6 + 2 * MOST):
                for epoch in 1, 2:
                    hostile.send_own(Life(node, "127.0.0.1:1", epoch, publishes=True))
            hostile.send_own(Life(-1, "127.0.0.1:1", 1, publishes=True))
            await asyncio.sleep(1.0)
            recovery = hub.layers.recovery
            assert isinstance(recovery, CombinedPull)
            assert len(hub.lives._known) == len(b.lives._known) == MOST
            streams = recovery.streams.by_publisher
            assert max(len(recovery.unsure), len(recovery.back), len(streams)) <= 1000
            assert -1 not in streams
        assert changes == (hub.link_changes, b.link_changes)

    tell(story)


def test_made_up_lives_hide_no_death() -> None:
    """A neighbour of the dead broker knows it still, and tells those who have forgotten it."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, liar, a, b = [await brokers.start(name) for name in ("hub", "liar", "a", "b")]
        async with (
            connect(b.address) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            loop.kill(a)
            for node in range(10**6, 10**6 + 2 * MOST):
                liar.peers.connected[hub.node].send_own(Life(node, "127.0.0.1:1", 1))
            await asyncio.sleep(1.0)
            assert a.node in hub.lives._known
            assert a.node not in b.lives._known
            await brokers.start("a", a.address)
            assert (await gap_of(a, events)).count is None

    tell(story)


def test_made_up_publishers_hide_no_loss() -> None:
    """A neighbour names as many as a broker follows, before one publishes that there is."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a, liar = [await brokers.start(name) for name in ("hub", "a", "liar")]
        async with (
            connect(hub.address) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            named = tuple([(Contact(10**6 + n, "127.0.0.1:1"), 0, 1) for n in range(1000)])
            liar.host.send(hub.node, Compare(liar.host.contact(), 1, (), (), named, 0))
            await asyncio.sleep(1.0)
            brokers.lose(a)
            await publish(a, n=1)
            recovery: Any = a.layers.recovery
            recovery.buffer.forget_old(loop.time() + 3600.0)
            async with asyncio.timeout(60.0):
                assert (await gap_of(a, events)).count is None

    tell(story)


@pytest.mark.parametrize("forged", [0, 10**12])
def test_a_death_is_known_also_if_the_clock_was_set_back(
    forged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or if somebody says that the broker started in the future."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a = await brokers.start("hub"), await brokers.start("a")
        async with (
            connect(hub.address) as bus,
            bus.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            await publish(a, n=0)
            await event(0, events)
            if forged:
                a.peers.connected[hub.node].send_own(Life(a.node, a.address, forged))
                await gap_of(a, events)
            loop.kill(a)
            monkeypatch.setattr(virtual, "BORN", 5)
            again = await brokers.start("a", a.address)
            assert (await gap_of(a, events)).count is None
            assert again.publish({"n": 1}).sequence > first_sequence(forged or a.epoch)
            await event(1, events)
            brokers.lose(again)
            again.publish({"n": 2})
            VirtualWire(loop, a.address, "").fault()
            async with asyncio.timeout(30.0):
                await event(2, events)

    tell(story)


def test_a_wrong_address_of_a_publisher_is_forgotten_and_hides_no_loss() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, a, c, liar = [await brokers.start(name) for name in ("hub", "a", "c", "liar")]
        async with connect(c.address) as bus, bus.subscribe("n >= 0", gaps=True) as events:
            await bus.settled()
            await publish(a, n=0)
            await event(0, events)
            nowhere, recovery = Contact(a.node, "127.0.0.1:9"), c.layers.recovery
            assert isinstance(recovery, Copies)
            walk = Compare(Contact(liar.node), 1, (), (), ((nowhere, 0, 1),), 8)
            while recovery.contact_of(a.node) != nowhere:
                liar.host.send(hub.node, walk)
                await asyncio.sleep(0.1)
            await asyncio.sleep(30.0)
            assert recovery.contact_of(a.node).address == a.address
            brokers.lose(c)
            await publish(a, n=1)
            await asyncio.sleep(0.5)
            VirtualWire(loop, c.address, "").fault()
            await event(1, events)
            assert events.missed == 0

    tell(story)


def later(loop: VirtualLoop, seconds: float) -> float:
    return loop.time() + seconds


def test_clocks_of_brokers_need_not_agree() -> None:
    """They are hours apart; what is lost is fetched all the same, and older events are not owed."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        _, a, c = [await brokers.start(name) for name in ("hub", "a", "c")]
        for broker, ahead in ((a, 20_000.0), (c, 10_000.0)):
            broker.host.now = partial(later, loop, ahead)  # type: ignore[method-assign]
        await publish(a, n=-1)
        await asyncio.sleep(10.0)
        async with (
            connect(c.address) as bus,
            bus.subscribe("n >= -1", gaps=True, promise="recovered") as events,
        ):
            await bus.settled()
            brokers.lose(c)
            await publish(a, n=0)
            await publish(a, n=1)
            await asyncio.sleep(1.0)
            VirtualWire(loop, c.address, "").fault()
            async with asyncio.timeout(60.0):
                found: list[Any] = [await anext(events), await anext(events)]
            assert sorted(item["n"] for item in found) == [0, 1]
            assert events.missed == 0

    tell(story)


def test_a_life_as_old_as_can_be_told_is_passed_on_later_as_well() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        hub, liar = [await brokers.start(name) for name in ("hub", "liar")]
        liar.peers.connected[hub.node].send_own(Life(10**6, "127.0.0.1:1", 1, OLDEST))
        await asyncio.sleep(1.0)
        late = await brokers.start("late")
        await asyncio.sleep(1.0)
        assert 10**6 in late.lives._known
        assert late.link_changes == 1

    tell(story)


def test_an_event_as_old_as_can_be_told_cuts_no_link_of_others() -> None:
    """Its age, when it is passed on, is one that the next broker accepts."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        brokers.recovery["name"] = "push"
        hub, liar, b = [await brokers.start(name) for name in ("hub", "liar", "b")]
        async with (
            connect(hub.address) as here,
            here.subscribe("n >= 0", promise="recovered"),
            connect(b.address) as there,
            there.subscribe("n >= 0", promise="recovered"),
        ):
            await there.settled()
            hub.publish({"n": 0})
            await asyncio.sleep(1.0)
            before = b.link_changes
            ancient = Event(liar.node, 5, Attributes({"n": 1}))
            liar.peers.connected[hub.node].send_own(Hold(ancient, OLDEST))
            await asyncio.sleep(20.0)
            recovery = hub.layers.recovery
            assert isinstance(recovery, Copies)
            assert ancient.id in recovery.buffer
            assert b.link_changes == before

    tell(story)


def test_a_broker_that_had_to_make_room_is_no_holder() -> None:
    """Its buffer has room for one event, and two are published at once."""

    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        brokers.recovery["buffer"] = 1
        await brokers.start("hub")
        a = await brokers.start("a")
        async with connect(a.address) as bus:
            both = (bus.publish({"n": n}, held=2) for n in range(2))
            first, second = await asyncio.gather(*both, return_exceptions=True)
            assert isinstance(first, RefusedError)
            assert "1 of 2 brokers hold" in str(first)
            assert second is None

    tell(story)


def test_who_waits_for_holders_is_answered_in_time_however_seldom_rounds_come() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        brokers.recovery |= {"period": 60.0, "longest": 60.0}
        await brokers.start("hub")
        a = await brokers.start("a")
        async with connect(a.address) as bus, asyncio.timeout(HOLDING + 1.0):
            with pytest.raises(RefusedError, match="2 of 3 brokers hold"):
                await bus.publish({"n": 1}, held=3)

    tell(story)


def test_a_virtual_process_can_be_stopped_by_what_runs_beside_it() -> None:
    async def story(loop: VirtualLoop, brokers: Brokers) -> None:
        a = await brokers.start("a")
        there = contextvars.copy_context()
        there.run(_here.set, loop.places[int(a.address.rpartition(":")[2])])
        ran: list[int] = []
        loop.call_soon(loop.stop_process, a)
        loop.call_soon(ran.append, 1, context=there)
        await asyncio.sleep(1.0)
        assert not ran
        loop.go_on(a)
        await asyncio.sleep(0.0)
        assert ran == [1]

    tell(story)
