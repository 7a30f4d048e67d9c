"""Brokers and clients in one process: what users see, and what the tables say."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from live_world import graph_tables, links_of, run, states_of, tables_of, tree_tables, until

import shoal
from patience import CONDITION
from shoal.content import AttributeFilter, FilterError
from shoal.live import (
    Broker,
    DisconnectedError,
    Gap,
    LiveError,
    RefusedError,
    Settings,
)
from shoal.overlay import Graph
from shoal.routing import Unsubscribe
from shoal.stack import Contact, Node
from shoal.testing import GRAPH, QUICK, TREE, Network

TEMPERATURES = [18, 25, 31, 35, 29, 33]


def graph_of(broker: Broker) -> Graph:
    overlay = broker.layers.overlay
    assert isinstance(overlay, Graph)
    return overlay


async def take(subscription: Any, count: int) -> list[Any]:
    async with asyncio.timeout(CONDITION):
        return [await anext(subscription) for _ in range(count)]


@pytest.mark.parametrize("shape", ["graph", "tree"])
def test_events_reach_those_who_want_them_and_nobody_else(shape: Any) -> None:
    async def story() -> None:
        async with (
            Network(6, shape=shape) as network,
            network.connect(0) as bus,
            network.connect(5) as far,
            bus.subscribe("temperature > 30") as hot,
            far.subscribe("temperature > 30 AND room LIKE 'lab%'") as labs,
            far.subscribe("temperature < 20") as cold,
        ):
            await network.settled()
            async with network.connect(3) as publisher:
                for i, temperature in enumerate(TEMPERATURES):
                    room = ("lab1", "hall")[i % 2]
                    await publisher.publish(room=room, temperature=temperature, body=b"!")
                assert [e["temperature"] for e in await take(hot, 3)] == [31, 35, 33]
                assert [e["temperature"] for e in await take(labs, 1)] == [31]
                assert [e["temperature"] for e in await take(cold, 1)] == [18]
                await publisher.publish(room="lab9", temperature=99)
                (last,) = await take(labs, 1)
                assert (last["room"], last.body, last.get("nothing")) == ("lab9", b"", None)

    run(story())


def test_a_routing_that_keeps_its_own_connections_gets_no_overlay() -> None:
    async def story() -> None:
        async with Network(3, routing={"name": "dps"}) as network:
            assert all(broker.stack.overlay is None for broker in network.brokers)

    asyncio.run(story())


def test_tables_on_a_tree_are_the_oracles() -> None:
    async def story() -> None:
        async with Network(7, shape="tree") as network:
            wants: dict[int, set[str]] = {0: {"a = 1"}, 3: {"a = 1", "b > 2"}, 6: {"c < 3"}}
            ends = [
                network.brokers[n].listen_to(AttributeFilter(f), lambda event: None)
                for n, filters in wants.items()
                for f in sorted(filters)
            ]
            await network.settled()
            states = states_of(network.brokers)
            assert tables_of(states) == tree_tables(links_of(states), wants)
            for end in ends:
                end()
            await network.settled()
            assert not any(tables_of(states_of(network.brokers)).values())

    run(story())


def test_a_graph_keeps_its_degree_heals_and_forgets() -> None:
    async def story() -> None:
        async with Network(14, shape="graph", overlay={"degree": 4}) as network:
            for number, broker in enumerate(network.brokers):
                broker.listen_to(AttributeFilter(f"n = {number % 5}"), lambda event: None)
            for broker in network.brokers[:4]:
                await broker.stop()
            rest = network.brokers[4:]
            await network.settled()
            gone = {broker.node for broker in network.brokers[:4]}
            await until(
                lambda: not any(gone & set(graph_of(broker).view.entries) for broker in rest),
                "the departed are forgotten",
            )
            await network.settled()
            states = states_of(rest)
            links = links_of(states)
            assert all(3 <= len(neighbours) <= 5 for neighbours in links.values()), links
            wants = {n: {f"n = {n % 5}"} for n in range(4, 14)}
            assert tables_of(states) == graph_tables(links, wants, horizon=3)

    run(story())


def test_a_restarted_broker_leaves_no_end_with_old_tables() -> None:
    async def story() -> None:
        async with Network(3, shape="tree") as network:
            first, second, third = network.brokers
            third.listen_to(AttributeFilter("x = 1"), lambda event: None)
            await network.settled()
            await second.stop()
            await third.stop()
            port = third.address
            again = await Broker(
                Settings(name="2", listen=port, links=(first.address,), **TREE, **QUICK)
            ).start()
            again.listen_to(AttributeFilter("x = 2"), lambda event: None)
            network.brokers[:] = [first, again]
            await network.settled()
            assert again.epoch > third.epoch
            assert tables_of(states_of([first])) == {0: {(2, "x = 2", 0)}}
            received: list[Any] = []
            first.listen_to(AttributeFilter("x = 3"), received.append)
            await network.settled()
            again.publish({"x": 3})
            await until(lambda: len(received) == 1, "its events are no duplicates of old ones")

    run(story())


def test_leaving_the_block_unsubscribes() -> None:
    async def story() -> None:
        async with Network(2) as network, network.connect(0) as bus:
            there = network.brokers[1]
            async with bus.subscribe("a = 1"):
                await until(lambda: bool(there.status(True).table), "it is known next door")
            await until(lambda: not there.status(True).table, "it is gone next door")

    run(story())


def test_dropping_the_iterator_unsubscribes() -> None:
    async def story() -> None:
        async with Network(1) as network, network.connect(0) as bus:
            (broker,) = network.brokers

            async def first() -> Any:
                async for event in bus.subscribe("a = 2"):
                    return event["a"]
                return None

            asked = asyncio.create_task(first())
            await until(lambda: len(broker.edge) == 1, "subscribed")
            await bus.publish(a=2)
            assert await asked == 2
            del asked
            gc.collect()
            await until(lambda: len(broker.edge) == 0, "unsubscribed")

    run(story())


def test_requests_and_replies() -> None:
    async def story() -> None:
        async with (
            Network(4, shape="tree") as network,
            network.connect(1) as bus,
            network.connect(3) as service,
            service.subscribe("question = 'sum'") as questions,
        ):

            async def answer() -> None:
                async for asked in questions:
                    await service.reply(asked, sum=asked["a"] + asked["b"], body=asked.body)  # type: ignore[operator]  # numbers

            task = asyncio.create_task(answer())
            await network.settled()
            replies = await asyncio.gather(
                *(bus.request(question="sum", a=n, b=1, body=b"%d" % n) for n in range(20))
            )
            assert [reply["sum"] for reply in replies] == list(range(1, 21))
            assert replies[7].body == b"7"
            with pytest.raises(LiveError, match=r"no reply within 0\.1 s"):
                await bus.request(question="none", timeout=0.1)
            with pytest.raises(LiveError, match="wants no reply"):
                await bus.reply(replies[0])
            task.cancel()

    run(story())


def test_a_lost_connection_is_made_anew_and_the_gap_is_reported() -> None:
    async def story() -> None:
        broker = await Broker(Settings(name="7")).start()
        async with (
            shoal.connect(broker.address, reconnect=(0.02, 0.1)) as bus,
            bus.subscribe("n >= 0", gaps=True) as numbers,
            bus.subscribe("n >= 0") as quiet,
        ):
            await bus.publish(n=1)
            assert (await anext(numbers))["n"] == 1
            await broker.stop()
            again = await Broker(Settings(name="7", listen=broker.address)).start()
            await bus.publish(n=2)  # waits for the new connection
            gap = await anext(numbers)
            assert isinstance(gap, Gap)
            assert gap.count is None
            assert "lost" in gap.reason
            assert (await anext(numbers))["n"] == 2
            assert [e["n"] for e in await take(quiet, 2)] == [1, 2]
            assert (quiet.gaps, quiet.missed, bus.reconnects) == (1, 0, 1)
            await again.stop()

    run(story())


def test_a_slow_consumer_loses_the_oldest_and_is_told_how_many() -> None:
    async def story() -> None:
        async with (
            Network(1) as network,
            network.connect(window=10, queue=20) as slow,
            network.connect() as publisher,
            slow.subscribe("n >= 0", gaps=True) as numbers,
        ):
            await publisher.publish_many({"n": n} for n in range(100))
            found = await take(numbers, 31)
            assert [e["n"] for e in found[:10]] == list(range(10))
            assert found[10] == Gap(70, "this client did not keep up")
            assert [e["n"] for e in found[11:]] == list(range(80, 100))
            assert (slow.dropped, numbers.missed) == (70, 70)
            assert network.brokers[0].status().clients[0].dropped == 70
            await publisher.publish(n=1000)
            (more,) = await take(numbers, 1)
            assert more["n"] == 1000

    run(story())


def test_a_slow_consumer_that_blocks_makes_publishers_wait_and_misses_nothing() -> None:
    async def story() -> None:
        async with (
            Network(1, anyone_may_block=True) as network,
            network.connect(window=10, queue=20, when_full="block") as slow,
            network.connect() as publisher,
            network.connect() as other,
            slow.subscribe("n >= 0") as numbers,
            other.subscribe("n >= 0") as quick,
        ):
            count = 3000
            task = asyncio.create_task(publisher.publish_many({"n": n} for n in range(count)))
            await asyncio.sleep(0.3)
            assert not task.done()
            # Its own requests go through meanwhile.
            assert (await slow.inspect()).published < 100
            found = await take(numbers, count)
            assert [e["n"] for e in found] == list(range(count))
            assert await task == count
            assert len(await take(quick, count)) == count
            assert slow.dropped == other.dropped == 0

    run(story())


def test_a_slow_consumer_may_ask_to_be_disconnected() -> None:
    async def story() -> None:
        async with (
            Network(1) as network,
            network.connect(window=10, queue=20, when_full="disconnect") as slow,
            network.connect() as publisher,
            slow.subscribe("n >= 0", gaps=True) as numbers,
        ):
            await publisher.publish_many({"n": n} for n in range(100))
            found = await take(numbers, 11)
            assert [e["n"] for e in found[:10]] == list(range(10))
            assert isinstance(found[10], Gap)

    run(story())


def test_what_cannot_be_is_refused_with_its_reason() -> None:
    async def story() -> None:
        async with Network(1) as network, network.connect() as bus:
            with pytest.raises(FilterError, match="character 15: expected a value"):
                bus.subscribe("temperature > ")
            with pytest.raises(RefusedError, match=r"2000\d+ bytes; this broker takes 1048576"):
                await bus.publish(text="x" * 2_000_000)
            with pytest.raises(RefusedError, match="300 attributes; at most 256"):
                await bus.publish({f"a{n}": n for n in range(300)})
            await bus.publish(fine=True)
            address = network.brokers[0].address
            with pytest.raises(LiveError, match="is taken; stop what uses it"):
                await Broker(Settings(listen=address)).start()
        with pytest.raises(DisconnectedError, match="is a broker there"):
            await shoal.connect(address, patience=0.2)
        with pytest.raises(LiveError, match=r"'nosuch\.invalid' .*cannot be resolved"):
            await shoal.connect("nosuch.invalid:1")
        with pytest.raises(LiveError, match="give one of 'block'"):
            shoal.connect(address, when_full="explode")  # type: ignore[arg-type]  # on purpose

    run(story())


def test_brokers_that_route_differently_are_not_linked(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with (
            Broker(Settings(name="1", **TREE, **QUICK)) as one,
            Broker(Settings(name="2", join=(one.address,), **GRAPH, **QUICK)) as two,
        ):
            await until(lambda: "brokers must route alike" in caplog.text, "it is said")
            assert (
                "same size; overlay: graph here, links there; "
                "routing: semi-probabilistic here, subscription-forwarding there; "
                "reconfiguration: none here, strawman there; trying on"
            ) in caplog.text
            assert not one.links
            assert not two.links

    run(story())


def test_a_name_is_one_brokers_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with (
            Broker(Settings(name="twin", **GRAPH, **QUICK)) as one,
            Broker(Settings(name="twin", join=(one.address,), **GRAPH, **QUICK)),
        ):
            await until(lambda: "with another --name" in caplog.text, "it is said")

    run(story())


class Overheard:
    """A node that writes down what it is told by others (a compiled one cannot be patched)."""

    def __init__(self, layers: Node, got: list[tuple[int, Any]]) -> None:
        self._layers = layers
        self._got = got

    def receive(self, sender: int, message: Any) -> None:
        if isinstance(message, Unsubscribe):
            self._got.append((sender, message))
        else:
            self._layers.receive(sender, message)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layers, name)


def test_messages_out_of_band(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with Network(3, shape="tree") as network:
            _, one, two = network.brokers  # both are linked to the first, not to each other
            got: list[tuple[int, Any]] = []
            monkeypatch.setattr(two, "layers", Overheard(two.layers, got))
            message = Unsubscribe(AttributeFilter("x = 1"))
            one.host.send_direct(Contact(two.node), message)
            await asyncio.sleep(0.1)
            assert not got  # no address is known
            there = Contact(two.node, two.me.address)
            tasks, connections = len(one._tasks), len(one.connections)
            for _ in range(5):
                one.host.send_direct(there, message)
            await until(lambda: got == 5 * [(1, message)], "they have arrived")
            one.host.send_direct(there, message)
            await until(lambda: len(got) == 6, "the connection is used again")
            assert (len(two.links), len(two.out_of_band), len(one.out_of_band)) == (1, 1, 1)
            assert (len(one._tasks), len(one.connections)) == (tasks, connections + 1)
            monkeypatch.setattr("shoal.live.heartbeat.TALK", 0.0)
            await until(
                lambda: not len(two.out_of_band) and not len(one.out_of_band),
                "it is closed in the end",
            )

    run(story())


def test_connections_out_of_band_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.live.out_of_band.OPEN", 2)

    async def story() -> None:
        async with Network(5, shape="tree") as network:
            *others, one = network.brokers
            far = [other for other in others if other.node not in one.links][-3:]
            assert len(far) == 3
            message = Unsubscribe(AttributeFilter("x = 1"))
            for other in far:
                there = Contact(other.node, other.me.address)
                one.host.send_direct(there, message)
                await until(lambda other=other: len(other.out_of_band) == 1, "it has arrived")
            await until(lambda: len(one.out_of_band) == 2, "one too many was closed")
            kept = {peer.node for peer in one.out_of_band.peers()}
            assert kept == {other.node for other in far[1:]}

    run(story())


def test_a_node_known_by_its_address_alone_is_told_out_of_band() -> None:
    async def story() -> None:
        async with Network(3, shape="tree") as network:
            _, one, two = network.brokers
            got: list[tuple[int, Any]] = []
            two.layers = Overheard(two.layers, got)  # type: ignore[assignment]  # stands in for it
            message = Unsubscribe(AttributeFilter("x = 1"))
            one.host.send_direct(Contact(-1, two.address), message)
            await until(lambda: got == [(1, message)], "it has arrived")

    run(story())


def test_the_synchronous_face() -> None:
    with Network(2) as network:
        with network.connect_sync(0) as bus, network.connect_sync(1) as other:
            with bus.subscribe("n > 1") as numbers:
                network.run(network.settled())
                other.publish(n=1)
                other.publish_many({"n": n} for n in (2, 3))
                assert [numbers.next(CONDITION)["n"] for _ in range(2)] == [2, 3]  # type: ignore[index]  # no gaps
                with pytest.raises(TimeoutError):
                    numbers.next(0.05)
            assert bus.inspect().filters == 0
        with pytest.raises(LiveError, match="event loop is running"):
            network.run(_connect_in_a_loop(network))


async def _connect_in_a_loop(network: Network) -> None:
    network.connect_sync(0)


def test_clients_of_a_broker_that_was_cut_off_are_told_of_a_gap() -> None:
    async def story() -> None:
        async with Network(2) as network, network.connect(1) as bus:
            events = await bus.subscribe("TRUE", gaps=True).start()
            for peer in list(network.brokers[1].links.values()):
                peer.connection.close("cut off", polite=False)
            gap = await anext(events)
            assert isinstance(gap, Gap)
            assert gap.count is None
            assert "cut off" in gap.reason
            await bus.settled()  # not before there is a link again
            assert network.brokers[1].links

    run(story())


def test_what_is_on_its_way_over_a_link_that_is_dropped_arrives() -> None:
    async def story() -> None:
        async with Network(2, shape="graph") as network:
            near, far = network.brokers
            got: list[int] = []
            near.listen_to(AttributeFilter("n > 0"), lambda event: got.append(event.sequence))
            await network.settled()
            graph_of(near)._part(far.node)  # it has links enough
            assert far.node not in near.links
            sent = [far.publish({"n": n}).sequence for n in range(1, 11)]
            await until(lambda: len(got) == len(sent), "what was on its way is there")
            assert got == sent

    run(story())


@pytest.mark.parametrize("routing", ["subscription-forwarding", "semi-probabilistic"])
def test_what_a_neighbour_wants_no_longer_when_it_is_back_is_forgotten(routing: str) -> None:
    """Its filters stay in the tables while it is away, and all of them until it is whole again."""

    async def story() -> None:
        links = {"name": "links", "reconnect": (0.02, 0.5), "look": 0.25}
        settings: dict[str, Any] = {"overlay": links, "routing": {"name": routing}, **QUICK}

        def table() -> set[tuple[int, str]]:
            return {(node, text) for node, text, _ in first.status(True).table or ()}

        async with Broker(Settings(name="1", **settings)) as first:
            second = await Broker(Settings(name="2", links=(first.address,), **settings)).start()
            stays, goes = (AttributeFilter(f"a{n} = 1") for n in range(2))
            for filter in (stays, goes):
                second.listen_to(filter, lambda event: None)
            await until(lambda: table() == {(2, stays.text), (2, goes.text)}, "it is announced")
            await second.drain()
            assert table() == {(2, stays.text), (2, goes.text)}
            async with Broker(Settings(name="2", links=(first.address,), **settings)) as again:
                again.listen_to(stays, lambda event: None)
                await until(lambda: table() == {(2, stays.text)}, "what is gone is forgotten")

    run(story())
