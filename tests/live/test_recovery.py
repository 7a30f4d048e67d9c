"""Live recovery: what is lost between brokers is fetched, or its subscribers are told."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from typing import Any

import pytest
from live_world import run, until
from test_hostile import Raw, hello

import shoal
from patience import CONDITION
from shoal.content import Attributes
from shoal.live.broker import Broker
from shoal.live.errors import RefusedError
from shoal.live.messages import Delivery, Subscribe, ToClient, Welcome
from shoal.live.processes import BrokerProcess, free_port
from shoal.live.proxy import Proxy
from shoal.live.security import Principal, Rule
from shoal.live.settings import Settings
from shoal.live.subscription import Gap, Received
from shoal.live.wire import encode, parse_address
from shoal.recovery.messages import Hold

RECOVERY = {"name": "combined-pull", "period": 0.05, "retry": 0.1, "tail": 0.2, "compare": 0.5}
IMPATIENT = {**RECOVERY, "patience": 1.0}


class Chain:
    """Brokers a, b, c in a line, with a way to lose what b forwards."""

    def __init__(self, recovery: dict[str, Any] | None = RECOVERY) -> None:
        self.recovery = recovery
        self.losing = False

    async def __aenter__(self) -> Chain:
        self.a = await self.start("a")
        self.b = await self.start("b", self.a)
        self.c = await self.start("c", self.b)
        send = self.b.host.send

        def lossy(to: int, message: Any) -> None:
            if not (self.losing and message.events()):
                send(to, message)

        self.b.host.send = lossy  # type: ignore[method-assign]  # a wire that loses events
        return self

    async def start(self, name: str, *to: Broker, listen: str = "127.0.0.1:0") -> Broker:
        """One more broker, linked to others."""
        tree: dict[str, Any] = {
            "overlay": {"name": "links"},
            "routing": {"name": "subscription-forwarding"},
            "reconfiguration": {"name": "strawman"},
        }
        links = tuple(broker.address for broker in to)
        return await Broker(
            Settings(name=name, listen=listen, recovery=self.recovery, links=links, **tree)
        ).start()

    async def __aexit__(self, *error: object) -> None:
        for broker in (self.c, self.b, self.a):
            await broker.stop()


async def take(events: Any, count: int) -> list[int]:
    """The numbers of the next events."""
    return [(await anext(events))["n"] for _ in range(count)]


def test_what_a_broker_on_the_way_loses_arrives_all_the_same() -> None:
    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0") as events,
        ):
            await subscriber.settled()
            for n in range(5):
                await publisher.publish(n=n)
            assert await take(events, 5) == [0, 1, 2, 3, 4]
            chain.losing = True
            for n in range(5, 10):
                await publisher.publish(n=n)
            assert sorted(await take(events, 5)) == [5, 6, 7, 8, 9]
            assert events.missed == 0
            chain.losing = False
            await publisher.publish(n=10)
            assert await take(events, 1) == [10]
            assert chain.c.recovered == 5
            recovery = chain.c.status().recovery
            assert recovery["recovered"] == 5
            assert recovery["unrecoverable"] == 0

    run(story())


def test_the_first_event_of_all_may_be_the_one_that_is_lost() -> None:
    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0") as events,
        ):
            await subscriber.settled()
            chain.losing = True
            await publisher.publish(n=0)
            assert await take(events, 1) == [0]

    run(story())


def test_what_nobody_has_any_more_is_a_gap_that_names_its_publisher_and_how_many() -> None:
    async def story() -> None:
        async with (
            Chain(IMPATIENT) as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0", gaps=True) as events,
        ):
            await subscriber.settled()
            await publisher.publish(n=0)
            assert await take(events, 1) == [0]
            await until(lambda: followed(chain.c, chain.a), "c knows a's numbers")
            chain.losing = True
            for n in range(1, 4):
                await publisher.publish(n=n)
            forget(chain.a)
            forget(chain.b)
            gap = await anext(events)
            assert isinstance(gap, Gap)
            assert (gap.count, gap.publisher) == (3, chain.a.node)

    run(story())


def forget(broker: Broker) -> None:
    """A broker's buffer was too small."""
    recovery: Any = broker.layers.recovery
    recovery.buffer.forget_old(1e18)


def followed(follower: Broker, publisher: Broker) -> bool:
    recovery: Any = follower.layers.recovery
    streams = recovery.streams.by_publisher.get(publisher.node, {})
    return bool(streams) and all(stream.index >= 0 for stream in streams.values())


def test_a_client_gets_what_was_published_while_it_was_away() -> None:
    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(f"{chain.c.address},{chain.b.address}") as subscriber,
            subscriber.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):
            await subscriber.settled()
            await publisher.publish(n=0)
            assert await take(events, 1) == [0]
            await chain.c.stop()
            for n in range(1, 6):
                await publisher.publish(n=n)
            found: list[int] = []
            while len(found) < 5:
                item = await anext(events)
                if isinstance(item, Received):
                    found.append(int(item["n"]))  # type: ignore[arg-type]
            assert sorted(found) == [1, 2, 3, 4, 5]

    run(story())


@pytest.mark.parametrize("wanted", [False, True])
def test_what_the_next_broker_held_once_and_holds_no_longer_is_a_gap(wanted: bool) -> None:
    """A client's broker dies while it seeks events; the next one has had them, or published them.

    ``wanted``: the next one has delivered them to a client of its own; if not, it published them.
    """

    async def story() -> None:
        async with Chain() as chain, shoal.connect(chain.a.address) as publisher:
            heir = chain.b if wanted else chain.a
            async with (
                shoal.connect(f"{chain.c.address},{heir.address}") as subscriber,
                shoal.connect(chain.b.address) as other,
                subscriber.subscribe("n >= 0", gaps=True, promise="recovered") as events,
                other.subscribe("n >= 0") as beside,
            ):
                await subscriber.settled()
                await other.settled()
                await publisher.publish(n=0)
                assert await take(events, 1) == await take(beside, 1) == [0]
                chain.losing = True
                await publisher.publish(n=1)
                assert await take(beside, 1) == [1]
                forget(chain.a)
                forget(chain.b)
                recovery: Any = heir.layers.recovery
                recovery._born.clear()  # as if all brokers had started long ago
                for one in recovery.interests.filters.values():
                    one.since -= 60.0  # and their clients were there since then
                await chain.c.stop()
                await until(
                    lambda: sum(len(one.filters) for one in heir.sessions) == 1 + wanted,
                    "the client has moved",
                )
                await publisher.publish(n=2)
                items: list[Any] = [await anext(events)]
                while not isinstance(items[-1], Received):
                    items.append(await anext(events))
                assert items.pop()["n"] == 2
                assert (None, chain.a.node) in [(gap.count, gap.publisher) for gap in items]

    run(story())


def test_two_subscriptions_that_overlap_both_get_what_was_published_meanwhile() -> None:
    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(f"{chain.c.address},{chain.b.address}") as subscriber,
            shoal.connect(chain.b.address) as other,
            other.subscribe("n >= 0") as beside,
            other.subscribe("n >= 1") as besides,
            subscriber.subscribe("n >= 0", promise="recovered") as events,
            subscriber.subscribe("n >= 1", promise="recovered") as more,
        ):
            await subscriber.settled()
            await other.settled()
            await publisher.publish(n=0)
            assert await take(events, 1) == [0]
            await chain.c.stop()
            for n in range(1, 6):
                await publisher.publish(n=n)
            assert sorted(await take(events, 5)) == [1, 2, 3, 4, 5]
            assert sorted(await take(more, 5)) == [1, 2, 3, 4, 5]
            assert await take(beside, 6) == [0, 1, 2, 3, 4, 5]
            assert await take(besides, 5) == [1, 2, 3, 4, 5]

    run(story())


@pytest.mark.parametrize("recovery", [None, {**RECOVERY, "marks": 0}])
def test_a_broker_that_cannot_notice_all_losses_promises_nothing(
    recovery: dict[str, Any] | None,
) -> None:
    async def story() -> None:
        async with Chain(recovery) as chain, shoal.connect(chain.a.address) as bus:
            with pytest.raises(RefusedError, match="--recovery"):
                await bus.subscribe("n >= 0", promise="recovered").start()
            with pytest.raises(shoal.LiveError, match="best effort"):
                bus.subscribe("n >= 0", promise="certain")  # type: ignore[arg-type]
            await bus.subscribe("n >= 0").start()
            assert (chain.a.status().recovery == {}) == (recovery is None)

    run(story())


def test_a_publisher_that_dies_and_comes_back_is_a_gap_of_unknown_size() -> None:
    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0", gaps=True) as events,
        ):
            await subscriber.settled()
            await publisher.publish(n=0)
            assert await take(events, 1) == [0]
            await until(lambda: followed(chain.c, chain.a), "c knows a's numbers")
            address = chain.a.address
            await chain.a.stop()
            await asyncio.sleep(1.1)
            chain.a = await chain.start("a", listen=address)
            await until(lambda: bool(chain.a.status(tables=True).table), "a knows who wants what")
            async with shoal.connect(address) as again:
                await again.publish(n=1)
                found = [await anext(events), await anext(events)]
            gaps: list[Any] = [item for item in found if isinstance(item, Gap)]
            assert [(gap.count, gap.publisher) for gap in gaps] == [(None, chain.a.node)]

    run(story())


# In order


def test_events_after_a_lost_one_wait_for_it_if_order_was_asked_for() -> None:
    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0", promise="recovered", ordered=True) as events,
            subscriber.subscribe("n >= 3") as beside,
        ):
            await subscriber.settled()
            for n in range(40):
                chain.losing = n % 4 in (1, 2)
                await publisher.publish(n=n)
            assert await take(events, 40) == list(range(40))
            assert events.missed == 0
            assert sorted(await take(beside, 37)) == list(range(3, 40))

    run(story())


def test_events_in_order_wait_no_longer_than_until_the_gap_is_reported() -> None:
    async def story() -> None:
        async with (
            Chain(IMPATIENT) as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0", promise="recovered", ordered=True, gaps=True) as events,
        ):
            await subscriber.settled()
            await publisher.publish(n=0)
            assert await take(events, 1) == [0]
            await until(lambda: followed(chain.c, chain.a), "c knows a's numbers")
            chain.losing = True
            await publisher.publish(n=1)
            forget(chain.a)
            forget(chain.b)
            chain.losing = False
            for n in range(2, 5):
                await publisher.publish(n=n)
            gap = await anext(events)
            assert isinstance(gap, Gap)
            assert (gap.count, gap.publisher) == (1, chain.a.node)
            assert await take(events, 3) == [2, 3, 4]

    run(story())


def test_what_waits_to_be_in_order_is_withheld_if_new_rules_say_so() -> None:
    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0", promise="recovered", ordered=True) as events,
        ):
            await subscriber.settled()
            await publisher.publish(n=0)
            assert await take(events, 1) == [0]
            await until(lambda: followed(chain.c, chain.a), "c knows a's numbers")
            chain.losing = True
            await publisher.publish(n=1)
            forget(chain.a)
            forget(chain.b)
            chain.losing = False
            for n in range(2, 6):
                await publisher.publish(n=n)
            await until(lambda: chain.c.delivered == 5, "all but one are at c")
            (session,) = chain.c.sessions
            session.restrict(Principal("reader", Rule("reader", subscribe="n >= 4")))
            await subscriber.settled()
            chain.losing = True
            await publisher.publish(n=6)
            chain.losing = False
            await publisher.publish(n=7)
            assert await take(events, 4) == [4, 5, 6, 7]

    run(story())


def test_what_waits_to_be_in_order_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.live.ordering.MOST", 5)

    async def story() -> None:
        async with (
            Chain({**RECOVERY, "patience": 60.0}) as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0", promise="recovered", ordered=True) as events,
        ):
            await subscriber.settled()
            await publisher.publish(n=0)
            assert await take(events, 1) == [0]
            await until(lambda: followed(chain.c, chain.a), "c knows a's numbers")
            chain.losing = True
            await publisher.publish(n=1)
            forget(chain.a)
            forget(chain.b)
            chain.losing = False
            for n in range(2, 12):
                await publisher.publish(n=n)
            assert await take(events, 5) == [2, 3, 4, 5, 6]

    run(story())


def test_order_without_recovery_is_refused() -> None:
    async def story() -> None:
        async with Chain() as chain, shoal.connect(chain.a.address) as bus:
            with pytest.raises(shoal.LiveError, match="recovered"):
                bus.subscribe("n >= 0", ordered=True)

    run(story())


def test_what_a_broker_gets_while_a_subscription_is_on_its_way_is_delivered() -> None:
    """The client says for how long it was away; when its broker hears of it, that was longer."""

    async def story() -> None:
        async with Chain() as chain, shoal.connect(chain.b.address) as publisher:
            client = await Raw.open(chain.b)
            client.writer.write(encode(hello(chain.b)))
            await client.answer(Welcome)
            await publisher.publish(n=0)
            client.writer.write(encode(Subscribe(1, "n >= 0", "recovered", 1e-9)))
            async with asyncio.timeout(CONDITION):
                while not isinstance(answer := await client.answer(ToClient), Delivery):
                    pass
            assert answer.event.content == Attributes({"n": 0})
            client.close()

    run(story())


# Held by several


@pytest.mark.parametrize("held", [1, 2])
def test_an_event_that_two_brokers_hold_outlives_the_one_that_accepted_it(held: int) -> None:
    """With kill -9; a subscriber is cut off meanwhile, and comes back at the other broker.

    That one is known by the address of a proxy only, so that the subscriber is not back too early.
    """
    options = ["--overlay=links", "--routing=subscription-forwarding"]
    options += ["--recovery=combined-pull", "--set=recovery.compare=0.5"]

    async def story(brokers: contextlib.ExitStack) -> None:
        a = BrokerProcess("a", options)
        brokers.callback(a.close)
        await a.listening()
        address = f"127.0.0.1:{free_port()}"
        wire = await Proxy(a.address).start()
        way_back = await Proxy(address).start()
        way_back.refuses = True
        linked = [f"--link={a.address}", f"--advertise={way_back.address}"]
        b = BrokerProcess("b", [*options, *linked], address=address)
        brokers.callback(b.close)
        await b.listening()
        both = f"{wire.address},{way_back.address}"
        async with (
            shoal.connect(a.address) as publisher,
            shoal.connect(both, reconnect=(0.05, 0.1)) as subscriber,
            subscriber.subscribe("n >= 0", gaps=True, promise="recovered") as events,
        ):

            async def are_linked() -> bool:
                return bool((await publisher.inspect()).links)

            await until(are_linked, "the brokers are linked")
            await subscriber.settled()
            wire.refuses = True
            wire.cut()
            await until(lambda: subscriber._connection is None, "the subscriber is cut off")
            for n in range(20):
                await publisher.publish(n=n, held=held)
            assert subscriber._connection is None
            a.signal(signal.SIGKILL)
            way_back.refuses = False
            found: set[object] = set()
            gaps = 0
            while not gaps or (held == 2 and len(found) < 20):
                item: Any = await anext(events)
                gaps += isinstance(item, Gap)
                if isinstance(item, Received):
                    found.add(item["n"])
            assert found == (set(range(20)) if held == 2 else set())
        await wire.stop()
        await way_back.stop()

    with contextlib.ExitStack() as brokers:
        run(story(brokers))


def test_a_holder_delivers_what_its_own_clients_want() -> None:
    """The publisher is asked to route it and gives no copies: as if it died at once."""

    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.b.address) as subscriber,
            subscriber.subscribe("n >= 0") as events,
        ):
            await subscriber.settled()
            host = chain.a.host
            send, send_direct = host.send, host.send_direct

            def lose(to: int, message: Any) -> None:
                if not message.events():
                    send(to, message)

            def only_hold(to: Any, message: Any) -> None:
                if isinstance(message, Hold) or not message.events():
                    send_direct(to, message)

            host.send, host.send_direct = lose, only_hold  # type: ignore[method-assign]
            await publisher.publish(n=0, held=2)
            async with asyncio.timeout(CONDITION):
                assert await take(events, 1) == [0]
            host.send = send  # type: ignore[method-assign]
            await publisher.publish(n=1, held=2)
            assert await take(events, 1) == [1], "what is routed and held is delivered once"

    run(story())


def test_more_holders_than_there_are_brokers_are_refused_by_number() -> None:
    async def story() -> None:
        async with (
            Chain() as chain,
            shoal.connect(chain.a.address) as publisher,
            shoal.connect(chain.c.address) as subscriber,
            subscriber.subscribe("n >= 0") as events,
        ):
            await subscriber.settled()
            await publisher.publish(n=0, held=3)
            with pytest.raises(RefusedError, match="3 of 4 brokers hold") as refused:
                await publisher.publish(n=1, held=4)
            assert refused.value.code == "held"
            assert await take(events, 2) == [0, 1]
            for senseless in (0, 100, True, 2.0, "2"):
                with pytest.raises(shoal.LiveError, match="from 1 to 64"):
                    await publisher.publish(n=2, held=senseless)  # type: ignore[arg-type]

    run(story())


def test_a_bad_wire_drops_no_deliveries_to_clients() -> None:
    """A stream loses nothing in its middle; what is dropped stands for what brokers lose."""

    async def story() -> None:
        async with Broker(Settings(name="a")) as broker:
            wire = await Proxy(broker.address).start()
            wire.fault(loss=1.0)
            async with (
                shoal.connect(wire.address) as bus,
                bus.subscribe("n >= 0") as events,
            ):
                for n in range(5):
                    await bus.publish(n=n)
                assert await take(events, 5) == list(range(5))
            await wire.stop()

    run(story())


def test_a_proxy_leaves_no_traceback_of_what_it_carried(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with Broker(Settings(listen="127.0.0.1:0")) as broker:
            wire = await Proxy(broker.address).start()
            reader, writer = await asyncio.open_connection(*parse_address(wire.address))
            writer.write(b"\xff" * 100)  # no frame is that long
            with contextlib.suppress(ConnectionError):
                await reader.read()
            async with shoal.connect(wire.address):
                await wire.stop()
            await asyncio.sleep(0.0)

    run(story())
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]
