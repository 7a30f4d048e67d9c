"""A hostile peer or client can at most lose its own connection."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from live_world import run, until

from patience import CONDITION
from shoal.content import AttributeFilter, Attributes, Event
from shoal.live import Broker
from shoal.live.errors import ProtocolError
from shoal.live.messages import (
    VERSIONS,
    Accepted,
    Beat,
    Bye,
    Consumed,
    Echo,
    Hello,
    Inspect,
    Known,
    Life,
    Publish,
    Refused,
    Subscribe,
    ToClient,
    Unsubscribe,
    Wave,
    Welcome,
)
from shoal.live.wire import LENGTH, Splitter, content_of, encode, parse_address
from shoal.overlay import configured_messages as links
from shoal.overlay import graph_messages as overlay
from shoal.overlay import handover_messages as handover
from shoal.overlay import lstree_messages as lstree
from shoal.routing import messages as tree
from shoal.routing import semiprobabilistic_messages as graph
from shoal.stack import Contact
from shoal.testing import TREE, Network

EVENT = Event(5, 99, Attributes({"x": 1, "room": "lab"}), b"body")
FILTER = AttributeFilter("x > 3 AND room LIKE 'l%'")


class Raw:
    """A connection that sends whatever it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, broker: Broker) -> Raw:
        return cls(*await asyncio.open_connection(*parse_address(broker.address)))

    async def answer(self, kind: Any) -> Any:
        (length,) = LENGTH.unpack(await self.reader.readexactly(4))
        return msgspec.msgpack.decode(await self.reader.readexactly(length), type=kind)

    async def closed(self) -> list[bytes]:
        """Wait until the broker has hung up; the frames that came before."""
        async with asyncio.timeout(CONDITION):
            return [bytes(f) for f in Splitter(1 << 20).feed(await self.reader.read())]

    async def farewell(self) -> str:
        """Wait until the broker has hung up; the reason that it gave."""
        return msgspec.msgpack.decode((await self.closed())[-1], type=Bye).reason

    def close(self) -> None:
        self.writer.transport.abort()


def hello(broker: Broker, role: Any = "client", **more: Any) -> Hello:
    who = Known(77, "77", "127.0.0.1:1", 2**40) if role == "peer" else Known(-1, "c", "", 0)
    given = {"stack": broker.described, **more}
    purpose = given.pop("purpose", "link")
    return Hello(
        given.pop("versions", VERSIONS), role, purpose, given.pop("who", who), time.time(), **given
    )


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        ({"versions": (99, 98)}, "version", "99, 98 here, 3 there; update the older"),
        ({"role": "peer", "stack": "other"}, "stack", "brokers must route alike"),
        ({"role": "peer", "who": Known(78, "77", "", 1)}, "identity", "not the name of node 78"),
    ],
)
def test_who_does_not_fit_is_told_why(more: dict[str, Any], code: str, said: str) -> None:
    async def story() -> None:
        async with Network(1) as network:
            raw = await Raw.open(network.brokers[0])
            raw.writer.write(encode(hello(network.brokers[0], **more)))
            refused = await raw.answer(Refused)
            assert refused.code == code
            assert said in refused.reason
            await raw.closed()
            raw.close()

    run(story())


def test_who_does_not_introduce_himself_is_disconnected() -> None:
    async def story() -> None:
        async with Network(1, limits={"handshake": 0.2}) as network:
            for said, reason in (
                (b"", "no introduction within 0.2 s"),
                (b"\0", "no introduction within 0.2 s"),
                (LENGTH.pack(500_000) + b"x" * 1000, "a frame of 500000 bytes; at most 16384"),
                (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "bytes; at most 16384 are taken"),
            ):
                raw = await Raw.open(network.brokers[0])
                raw.writer.write(said)
                assert reason in await raw.farewell()
                raw.close()
            await until(lambda: not network.brokers[0].connections, "nothing is left")

    run(story())


def test_a_client_above_its_rate_has_to_wait() -> None:
    async def story() -> None:
        async with Network(1, limits={"rate": 200.0}) as network, network.connect() as bus:
            began = time.monotonic()
            await bus.publish_many({"n": n} for n in range(300))
            await bus.publish(n=300)  # a second's worth is ahead; this waits half a second
            assert time.monotonic() - began > 0.4

    run(story())


def test_too_many_connections_and_subscriptions_are_refused() -> None:
    async def story() -> None:
        from shoal.live import RefusedError

        limits = {"connections": 2, "subscriptions": 3}
        async with (
            Network(1, limits=limits) as network,
            network.connect() as bus,
            network.connect(),
        ):
            with pytest.raises(RefusedError, match="2 clients are connected"):
                await network.connect()
            held = [await bus.subscribe(f"n = {n}").start() for n in range(3)]
            with pytest.raises(RefusedError, match="may have 3 subscriptions"):
                await bus.subscribe("n = 4").start()
            await held.pop().stop()
            await bus.subscribe("n = 4").start()

    run(story())


SAMPLE = ((Contact(5, "127.0.0.1:9"), 3, 1.0),)
PEER_FRAMES = {
    "graph": [
        graph.Spread(EVENT, 1, 0), graph.Near(FILTER, 2), graph.Gone(FILTER),
        graph.Leaf(True, (FILTER,)), Beat(), overlay.Beat(3), overlay.Shuffle(SAMPLE, True),
        overlay.Ask(SAMPLE, 1, False), overlay.Accept(SAMPLE, 2), overlay.Refuse(SAMPLE),
        overlay.Part(), overlay.Probe(SAMPLE), overlay.Found(SAMPLE),
        overlay.Leave(Contact(5, "127.0.0.1:9")), overlay.Left(), Wave(77, 1), Echo(77, 1),
    ],
    "tree": [
        tree.Forward(EVENT, 1), tree.Subscribe(FILTER), tree.Unsubscribe(FILTER), Beat(),
        links.Link(5, (3, 7)), links.Accept(5), links.Refuse(), links.Position(5, 3, False),
        links.Ready(), links.Whole(), links.Leaving(True), links.Left(), Wave(77, 1), Echo(77, 1),
    ],
}  # fmt: skip
CLIENT_FRAMES = [
    Publish(1, {"x": 5, "room": "lab", "y": 2.5, "z": None, "on": True}, b"body"),
    Subscribe(7, "x > 3"), Unsubscribe(7), Consumed(3), Inspect(9, True), Beat(),
]  # fmt: skip


def mutate(frame: bytes, chance: random.Random) -> bytes:
    """A frame with some of its bytes changed, cut, repeated or put in."""
    data = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        kind = chance.randrange(6)
        if kind == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del data[at : at + chance.randint(1, 8)]
        elif kind == 3:
            data[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 4:
            data[at:at] = data[: chance.randint(0, len(data))]
        else:
            data[at:] = bytes([chance.choice([0x91, 0x81, 0xDD, 0xDF, 0xC4])]) * chance.randint(
                1, 600
            )
    return bytes(data)


@pytest.mark.parametrize(
    ("shape", "role"), [("graph", "peer"), ("tree", "peer"), ("graph", "client")]
)
def test_8000_mutated_frames_crash_nothing(
    shape: Any, role: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each goes to a broker that also serves somebody honest; 24,000 in all."""

    async def story() -> None:
        chance = random.Random(f"{shape} {role}")
        frames = [
            content_of(m) for m in (CLIENT_FRAMES if role == "client" else PEER_FRAMES[shape])
        ]
        async with (
            Network(1, shape=shape, limits={"connections": 100}) as network,
            network.connect() as honest,
            honest.subscribe("honest = TRUE") as heard,
        ):
            broker = network.brokers[0]
            sent = connections = 0
            while sent < 8000:
                raw = await Raw.open(broker)
                connections += 1
                who = Known(77, "77", "127.0.0.1:1", 2**40 + connections)
                more = {"who": who} if role == "peer" else {}
                raw.writer.write(encode(hello(broker, role, **more)))
                await raw.answer(Welcome)
                alive = True
                while alive and sent < 8000:
                    batch = [mutate(chance.choice(frames), chance) for _ in range(4)]
                    for content in batch:
                        broken = chance.random() < 0.02
                        length = chance.randrange(1 << 32) if broken else len(content)
                        raw.writer.write(LENGTH.pack(length) + content)
                    sent += len(batch)
                    await asyncio.sleep(0)
                    alive = not raw.reader.at_eof() and not raw.writer.is_closing()
                raw.close()
                if connections % 20 == 0:
                    await honest.publish(honest=True, n=connections)
                    async with asyncio.timeout(CONDITION):
                        assert (await anext(heard))["n"] == connections
            assert connections > 50
            await until(lambda: len(broker.connections) == 1, "all hostile ones are gone")
            assert not broker.links
            table = broker.status(True).table
            assert table == [(-1, "honest = TRUE", 0)], "nothing is left of what they said"

    run(story())
    crashes = [r for r in caplog.records if r.levelname == "ERROR"]
    assert not crashes, crashes[0].exc_text or crashes[0].getMessage()


def test_filters_from_strangers_are_bounded() -> None:
    async def story() -> None:
        async with (
            Network(1) as network,
            network.connect() as honest,
            honest.subscribe("still = 'here'") as heard,
        ):
            raw = await Raw.open(network.brokers[0])
            raw.writer.write(encode(hello(network.brokers[0])))
            await raw.answer(Welcome)
            deep = "(" * 5000 + "a = 1" + ")" * 5000
            for number, (text, kind) in enumerate(
                [
                    (deep, Refused),
                    ("x" * 32_768, Accepted),
                    ("a LIKE '" + "%a" * 10_000 + "'", Accepted),
                ],
                start=1,
            ):
                raw.writer.write(encode(Subscribe(number, text)))
                while isinstance(answer := await raw.answer(ToClient), Beat):
                    pass
                assert (type(answer), answer.request) == (kind, number)
            raw.writer.write(encode(Subscribe(9, " OR ".join(f"a = {n}" for n in range(20_000)))))
            assert "length <= 32768" in await raw.farewell()
            raw.close()
            await honest.publish(still="here", a="a" * 10_000)
            assert (await anext(heard))["still"] == "here"

    run(story())


def test_the_splitter_is_not_confused_by_any_bytes() -> None:
    """However the bytes are cut, the same frames come out, or the same error in the end."""

    def split(pieces: list[bytes]) -> tuple[list[bytes], str]:
        splitter, frames = Splitter(1 << 10), []
        try:
            for piece in pieces:
                frames += [bytes(frame) for frame in splitter.feed(piece)]
        except ProtocolError as error:
            return [], str(error)
        return frames, ""

    chance = random.Random(1)
    outcomes = set()
    for _ in range(500):
        count = chance.randrange(8)
        data = b"".join(
            LENGTH.pack(length) + chance.randbytes(length)
            for length in (chance.randrange(1 << 7) for _ in range(count))
        )
        if chance.random() < 0.5:
            data += chance.randbytes(chance.randrange(30))
        cuts = sorted(chance.choices(range(len(data) + 1), k=chance.randrange(20)))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        frames, error = split([data])
        assert split(pieces) == (frames, error)
        assert split([data[at : at + 1] for at in range(len(data))]) == (frames, error)
        assert error or len(frames) >= count
        outcomes.add(bool(error))
    assert outcomes == {True, False}


def test_a_client_that_floods_does_not_keep_others_from_their_turn() -> None:
    async def story() -> None:
        async with Network(1) as network, network.connect() as honest:
            broker = network.brokers[0]
            raw = await Raw.open(broker)
            raw.writer.write(encode(hello(broker)))
            await raw.answer(Welcome)
            flood = [
                encode(Subscribe(n + 1, f"room = 'r{n}' AND t > {n} AND (a = {n} OR b < {n})"))
                for n in range(3000)
            ]
            raw.writer.write(b"".join(flood))
            await until(lambda: len(broker.edge) > 0, "the broker has begun with the flood")
            for n in range(5):
                await honest.publish(n=n)
                assert len(broker.edge) < len(flood), "served before the flood was over"
            await until(lambda: len(broker.edge) == len(flood), "and the flood after all")
            raw.close()

    run(story())


def test_a_peer_that_talks_over_many_connections_keeps_one() -> None:
    async def story() -> None:
        async with Network(1) as network:
            broker = network.brokers[0]
            raws = [await Raw.open(broker) for _ in range(20)]
            for raw in raws:
                raw.writer.write(encode(hello(broker, "peer", purpose="talk")))
                await raw.answer(Welcome)
            for raw in raws[:-1]:
                await raw.closed()
            await until(lambda: len(broker.connections) == 1, "the others are gone")
            assert [peer.node for peer in broker.out_of_band.peers()] == [77]
            raws[-1].close()

    run(story())


def test_made_up_names_take_no_place_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many brokers that one host makes up take the places from each other, and from nobody else."""
    monkeypatch.setattr("shoal.live.out_of_band.OPEN", 8)
    monkeypatch.setattr("shoal.live.handshake.PEERS", 8)

    async def enters(broker: Broker, number: int, purpose: str, host: str) -> Raw:
        raw = Raw(
            *await asyncio.open_connection(*parse_address(broker.address), local_addr=(host, 0))
        )
        who = Known(number, str(number), "127.0.0.1:1", 2**40)
        raw.writer.write(encode(hello(broker, "peer", who=who, purpose=purpose)))
        await raw.answer(Welcome)
        return raw

    async def story() -> None:
        async with Network(2) as network:
            broker = network.brokers[0]
            raws = [
                await enters(broker, number, purpose, "127.0.0.2")
                for number, purpose in ((500, "talk"), (501, "link"))
            ]
            raws += [
                await enters(broker, number, purpose, "127.0.0.3")
                for purpose in ("talk", "link")
                for number in range(600, 620)
            ]
            talking = {peer.node for peer in broker.out_of_band.peers()}
            await until(lambda: len(broker.out_of_band) <= 8, "there is room for eight")
            assert {500, 619} <= {peer.node for peer in broker.out_of_band.peers()} <= talking
            await until(lambda: len(broker.peers.connected) <= 9, "and for as many links")
            assert {1, 501, 619} <= set(broker.peers.connected)
            assert set(broker.links) == {1}
            for raw in raws:
                raw.close()

    run(story())


def test_a_neighbour_that_sends_thousands_of_waves_keeps_nobody_waiting() -> None:
    async def story() -> None:
        async with Network(1, shape="graph") as network, network.connect() as bus:
            broker = network.brokers[0]
            raws = []
            for number in (77, 78):
                raw = await Raw.open(broker)
                who = Known(number, str(number), "127.0.0.1:1", 2**40)
                raw.writer.write(encode(hello(broker, "peer", who=who)))
                await raw.answer(Welcome)
                raw.writer.write(encode(overlay.Ask((), 0, False)))
                raws.append(raw)
            await until(lambda: len(broker.links) == 2, "both are linked")
            flooding, silent = raws
            settled = asyncio.ensure_future(bus.settled())
            waves = broker.departures.waves
            await until(lambda: len(waves._passing) == 1, "its own wave is under way")
            flooding.writer.write(b"".join(encode(Wave(500, n)) for n in range(3 * 4096)))
            came = broker.links[77].received_count
            flooding.writer.write(encode(Beat()))
            await until(
                lambda: broker.links[77].received_count > came + 3 * 4096, "all waves have come"
            )
            assert len(waves._passing) <= 4096 + 1
            assert not settled.done()
            flooding.close()
            silent.close()
            await settled

    run(story())


def intricate(n: int) -> str:
    """A short filter that takes a broker long to take apart."""
    return " XOR ".join(f"a{n}x{m} = {m}" for m in range(40))


def test_clients_that_subscribe_all_at_once_do_not_keep_others_from_their_turn() -> None:
    async def story() -> None:
        async with Network(1) as network, network.connect() as honest:
            broker = network.brokers[0]
            raws = [await Raw.open(broker) for _ in range(16)]
            for raw in raws:
                raw.writer.write(encode(hello(broker)))
                await raw.answer(Welcome)
            for n, raw in enumerate(raws):
                wanted = [Subscribe(1, intricate(n)), Subscribe(2, intricate(100 + n)), Beat()]
                raw.writer.write(b"".join(map(encode, wanted)))
            await until(lambda: len(broker.edge) > 0, "the broker has begun")
            for n in range(5):
                await honest.publish(n=n)
                assert len(broker.edge) < 2 * len(raws), "served before all were"
            await until(lambda: len(broker.edge) == 2 * len(raws), "and they after all")
            for raw in raws:
                raw.close()

    run(story())


def test_a_neighbour_that_announces_much_does_not_keep_others_from_their_turn() -> None:
    async def story() -> None:
        async with Network(1, **TREE) as network, network.connect() as honest:
            broker = network.brokers[0]
            raw = await Raw.open(broker)
            raw.writer.write(encode(hello(broker, "peer")))
            await raw.answer(Welcome)
            raw.writer.write(encode(links.Link(77)))
            await until(lambda: 77 in broker.links, "it is linked")
            wanted = [tree.Subscribe(AttributeFilter(intricate(n))) for n in range(30)]
            raw.writer.write(b"".join(map(encode, wanted)))

            def taken() -> int:
                return sum(map(len, broker.edge.tables))

            await until(lambda: taken() > 0, "the broker has begun")
            for n in range(5):
                await honest.publish(n=n)
                assert taken() < len(wanted), "served before all were"
            await until(lambda: taken() == len(wanted), "and it after all")
            raw.close()

    run(story())


def test_a_neighbour_that_tells_of_many_lives_does_not_keep_others_from_their_turn() -> None:
    """Each life that has ended without a word is a gap for everybody, which takes time to tell."""

    async def story() -> None:
        recovery = {"name": "combined-pull"}
        async with (
            Network(1, **TREE, recovery=recovery) as network,
            network.connect() as honest,
            network.connect() as wanting,
            AsyncExitStack() as subscriptions,
        ):
            broker = network.brokers[0]
            for n in range(300):
                wanted = wanting.subscribe(f"n = {n}", promise="recovered")
                await subscriptions.enter_async_context(wanted)
            raw = await announcer(broker)
            told = [Life(500 + n, "", epoch) for epoch in (1, 2) for n in range(500)]
            raw.writer.write(b"".join(map(encode, told)))

            def ended() -> int:
                return sum(known.life.epoch == 2 for known in broker.lives._known.values())

            await until(lambda: ended() > 0, "the broker has begun")
            await honest.publish(n=-1)
            assert ended() < 500, "served before all was told"
            await until(lambda: ended() == 500, "and it after all")
            raw.close()

    run(story())


async def announcer(broker: Broker) -> Raw:
    """A hostile neighbour on a tree."""
    raw = await Raw.open(broker)
    raw.writer.write(encode(hello(broker, "peer")))
    await raw.answer(Welcome)
    raw.writer.write(encode(links.Link(77)))
    await until(lambda: 77 in broker.links, "it is linked")
    return raw


@pytest.mark.parametrize(
    "texts",
    [
        [f"a{n} = {n}" for n in range(100)],
        ["x" * 2000 + str(n) for n in range(5)],
        [" XOR ".join(f"a{n}x{m} = {m}" for m in range(6)) for n in range(5)],
    ],
    ids=["many", "long", "unfolding"],
)
def test_a_neighbour_that_announces_too_much_is_taken_to_want_everything(texts: list[str]) -> None:
    """Nobody loses an event, it gets them all, and what it retracts is exact again."""

    async def story() -> None:
        bounds = {"neighbour_filters": 50, "neighbour_filter_bytes": 8000}
        async with (
            Network(2, shape="tree", limits=bounds) as network,
            network.connect(0) as honest,
            network.connect(1) as beyond,
            honest.subscribe("n > 0") as heard,
        ):
            broker, other = network.brokers
            raw = await announcer(broker)

            async def say(*messages: Any) -> None:
                came = broker.links[77].received_count + len(messages)
                raw.writer.write(b"".join(map(encode, messages)))
                await until(lambda: broker.links[77].received_count >= came, "it was heard")

            def entries(of: Broker, source: int) -> set[str]:
                return {text for node, text, _ in of.status(True).table or () if node == source}

            wanted = [AttributeFilter(text) for text in texts]
            await say(*map(tree.Subscribe, wanted))
            kept = entries(broker, 77) - {"TRUE"}
            assert "TRUE" in entries(broker, 77)
            assert 0 < len(kept) <= 50
            assert sum(AttributeFilter(text).size() for text in kept) <= 8000
            await say(tree.Unsubscribe(AttributeFilter("TRUE")))
            assert "TRUE" in entries(broker, 77), "it still has filters that are not kept"
            await until(lambda: entries(other, 0) >= {"TRUE", "n > 0"}, "also beyond")
            assert len(entries(other, 0)) <= 52
            await beyond.publish(n=7)
            assert (await anext(heard))["n"] == 7
            while not isinstance(got := await raw.answer(PEER_ANSWERS), tree.Forward):
                pass
            assert got.event.content == Attributes({"n": 7})
            await say(*map(tree.Unsubscribe, wanted[1:]))
            assert entries(broker, 77) == {wanted[0].text}
            await until(lambda: entries(other, 0) == {"n > 0", wanted[0].text}, "also beyond")
            await say(*map(tree.Subscribe, wanted))
            raw.close()
            await until(lambda: not entries(broker, 77), "without the link it is forgotten")
            await until(lambda: entries(other, 0) == {"n > 0"}, "also beyond")

    run(story())


def test_neighbours_together_have_a_bound_as_well() -> None:
    async def story() -> None:
        async with Network(1, shape="tree", limits={"neighbour_filters": 3}) as network:
            broker = network.brokers[0]
            raws = []
            for number in range(70, 80):
                raw = await Raw.open(broker)
                who = Known(number, str(number), "127.0.0.1:1", 2**40)
                raw.writer.write(encode(hello(broker, "peer", who=who)))
                await raw.answer(Welcome)
                raw.writer.write(encode(links.Link(number)))
                await until(lambda number=number: number in broker.links, "it is linked")
                wanted = [AttributeFilter(f"a{number} = {n}") for n in range(3)]
                raw.writer.write(b"".join(encode(tree.Subscribe(filter)) for filter in wanted))
                raws.append(raw)
            await until(
                lambda: (
                    ("TRUE" in {t for _, t, _ in broker.status(True).table or ()})
                    and all(p.received_count >= 4 for p in broker.links.values())
                ),
                "all is heard",
            )
            assert len(broker.status(True).table or ()) <= 8 * 3 + 2
            for raw in raws:
                raw.close()

    run(story())


PEER_ANSWERS: Any = (
    Beat | Wave | Echo | Bye | tree.Forward | tree.Subscribe | tree.Unsubscribe
    | links.Accept | links.Position | links.Ready | links.Whole | links.Link
)  # fmt: skip


def test_an_event_with_an_absurd_count_cuts_no_link_of_others() -> None:
    async def story() -> None:
        async with (
            Network(2, shape="graph") as network,
            network.connect(1) as bus,
            bus.subscribe("x = 1") as events,
        ):
            broker, other = network.brokers
            await bus.settled()
            raw = await Raw.open(broker)
            raw.writer.write(encode(hello(broker, "peer")))
            await raw.answer(Welcome)
            raw.writer.write(encode(overlay.Ask((), 0, False)))
            await until(lambda: 77 in broker.links, "it is linked")
            before = other.link_changes
            raw.writer.write(encode(graph.Spread(EVENT, 1, 1_000_000)))
            async with asyncio.timeout(CONDITION):
                assert (await anext(events))["x"] == 1
            assert other.link_changes == before
            raw.close()

    run(story())


def test_forged_messages_of_a_handover_move_no_link() -> None:
    """A peer that is nobody's parent or child has a connection to each of three brokers."""
    forged = [
        handover.Leaving(),
        handover.Moved(0, 7),
        handover.Settled(),
        handover.Flush((77,), 7, True),
        handover.Flushed((0,), 7),
        handover.Flushed((1, 0), 7),
        lstree.Heir(),
        lstree.Welcome(1),
        lstree.Attach(1, -1, True),
        lstree.Drop(True),
        lstree.Regional((2**30, 77, 0), 0.0, (), ()),
    ]

    async def story() -> None:
        async with (
            Network(3) as network,
            network.connect(2) as bus,
            bus.subscribe("x = 1") as events,
        ):
            await bus.settled()

            def places() -> list[list[Any]]:
                told = [(broker.layers.overlay, broker.links) for broker in network.brokers]
                seen = [(o.describe(), sorted(links)) for o, links in told if o is not None]
                return [[d["colour"], d["depth"], d["parent"], links] for d, links in seen]

            before = places()
            for broker in network.brokers:
                for message in forged:
                    raw = await Raw.open(broker)
                    raw.writer.write(encode(hello(broker, "peer")))
                    await raw.answer(Welcome)
                    raw.writer.write(encode(message) + encode(Bye("enough")))
                    await raw.closed()
                    raw.close()
            assert len(before) == 3
            assert places() == before
            async with network.connect(0) as other:
                await other.publish(x=1)
            async with asyncio.timeout(CONDITION):
                assert (await anext(events))["x"] == 1

    run(story())


def test_a_neighbour_on_a_graph_that_announces_too_much_is_taken_to_want_everything() -> None:
    async def story() -> None:
        bounds = {"neighbour_filters": 50}
        async with Network(1, shape="graph", limits=bounds) as network, network.connect() as bus:
            broker = network.brokers[0]
            raw = await Raw.open(broker)
            raw.writer.write(encode(hello(broker, "peer")))
            await raw.answer(Welcome)
            raw.writer.write(encode(overlay.Ask((), 0, False)))
            await until(lambda: 77 in broker.links, "it is linked")
            wanted = [AttributeFilter(f"a{n} = {n}") for n in range(100)]
            raw.writer.write(b"".join(encode(graph.Near(filter, 2)) for filter in wanted))
            raw.writer.write(encode(graph.Leaf(True, tuple(wanted))))
            await until(lambda: broker.links[77].received_count >= 102, "all is heard")
            table = broker.status(True).table or []
            assert (77, "TRUE", 1) in table
            assert len(table) == 51
            before = broker.links[77].sent
            await bus.publish(n=1)
            await until(lambda: broker.links[77].sent > before, "it is sent what it did not want")
            raw.close()
            await until(lambda: broker.status(True).table == [], "without the link it is forgotten")

    run(story())
