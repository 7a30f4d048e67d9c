"""ShopParent brokers that stand still and are suspected, and peers that lie.

What a liar can do at worst is in docs/shopparent.md. Stories that need no real socket run in
virtual time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from live_world import run, until
from test_hostile import Raw, hello
from test_shopparent_live import Network, overlay

from shoal.live import Broker
from shoal.live.messages import Welcome
from shoal.live.virtual import VirtualLoop
from shoal.live.wire import encode
from shoal.overlay import handover_messages as handover
from shoal.overlay import shopparent_messages as shop
from shoal.stack import LOCAL
from shoal.stack.layer import Layer
from shoal.stack.message import Message

HEALED = 120.0
"""Seconds of virtual time in which trouble must be over."""
LIAR = 77


class World(Network):
    """Brokers in virtual time."""

    loop: VirtualLoop

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop, period=1.0, timeout=5.0, collect=0.1)

    async def grow(self, count: int) -> None:
        for node in range(count):
            await self.start(node)
        await self.until(self.whole, "all are in one tree")
        await self.everything_arrives()

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        ends = self.loop.time() + HEALED
        while not holds():
            assert self.loop.time() < ends, f"{what}: not within {HEALED:g} s"
            await asyncio.sleep(0.5)

    async def everything_arrives(self) -> None:
        """What is published now reaches everybody who wants it; nothing ever came twice."""
        since = dict.fromkeys(self.brokers, len(self.sent["a"]))
        for _ in range(5):
            self.publish()
        await asyncio.sleep(2.0)
        assert not any(self.missing(since).values())
        self.nothing_twice()

    def nothing_twice(self) -> None:
        for node, got in self.got.items():
            assert len(got) == len(set(got)), node

    def kill(self, node: int) -> None:
        self.loop.kill(self.brokers.pop(node))
        del self.got[node]

    def with_children(self) -> list[int]:
        return [n for n, b in self.brokers.items() if n and overlay(b).child_nodes()]

    def below(self, node: int) -> set[int]:
        """The nodes whose way up leads over a node, as they see it."""
        found = set()
        for start in self.brokers:
            at, way = start, set()
            while at in self.brokers and at not in way:
                way.add(at)
                at = overlay(self.brokers[at]).parent
                if at == node:
                    found.add(start)
                    break
        return found - {node}


def in_virtual_time(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    with VirtualLoop() as loop:
        loop.run(story(World(loop)))


# SIGSTOP


@pytest.mark.parametrize("who", ["leaves and inner brokers", "the root", "all but two"])
def test_brokers_that_stand_still_are_suspected_and_find_back(who: str) -> None:
    """Nobody was dead: the tree is made without them, and again with them, under the first root."""

    async def story(world: World) -> None:
        await world.grow(12)
        inner = world.with_children()
        leaves = [n for n in world.brokers if n and n not in inner]
        chosen = {
            "leaves and inner brokers": [*inner[:2], *leaves[:2]],
            "the root": [0],
            "all but two": [n for n in world.brokers if n not in (inner[0], leaves[-1])],
        }[who]
        still = {node: world.brokers.pop(node) for node in chosen}
        for broker in still.values():
            world.loop.stop_process(broker)

        def one_tree_without_them() -> bool:
            ranks = {overlay(broker).rank for broker in world.brokers.values()}
            links = [link for broker in world.brokers.values() for link in broker.links]
            return len(ranks) == 1 and -1 not in ranks and not set(links) & set(still)

        await world.until(one_tree_without_them, "the others have made a tree of their own")
        roots = [n for n, b in world.brokers.items() if overlay(b).parent == LOCAL]
        assert len(roots) == 1
        assert (roots == [0]) == (0 not in still)
        await asyncio.sleep(30.0)
        for broker in still.values():
            world.loop.go_on(broker)
        world.brokers |= still
        await world.until(world.whole, "all are in one tree again")
        await world.everything_arrives()

    in_virtual_time(story)


def test_a_broker_that_stands_still_while_it_moves_loses_nothing_that_others_want() -> None:
    """It is stopped between MOVED and SETTLED; what it missed is its own."""

    async def story(world: World) -> None:
        await world.grow(10)
        mover = next(n for n in world.brokers if n and not overlay(world.brokers[n]).child_nodes())
        since = {n: len(world.sent["a"]) for n in world.brokers if n != mover}
        for _ in range(20):
            world.publish()
            world.prefer_another(mover)
            if overlay(world.brokers[mover]).leaving != -1:
                break
            await asyncio.sleep(0.003)
        assert overlay(world.brokers[mover]).leaving != -1
        world.loop.stop_process(world.brokers[mover])
        for _ in range(20):
            world.publish()
            await asyncio.sleep(1.0)
        world.loop.go_on(world.brokers[mover])
        await world.until(world.whole, "all are in one tree again")
        missing = world.missing({**since, mover: 0})
        assert not any(missing[node] for node in since)
        await world.everything_arrives()

    in_virtual_time(story)


# Liars that are in the tree


class Deceitful(Layer):
    """A layer in place of a broker's own, for some kinds of messages."""

    def __init__(self, broker: Broker, *kinds: type[Message]) -> None:
        super().__init__(broker.host)
        self.overlay = overlay(broker)
        node = broker.layers
        node.handled_by = {**node.handled_by, **dict.fromkeys(kinds, len(node.layers))}
        node.layers = (*node.layers, self)

    def receive(self, sender: int, message: Any) -> None:
        """Grant every request to join at once, and learn nothing of the parent's route."""
        if isinstance(message, shop.Join):
            self.overlay._answer(message.path, message.request, message.moves, True)
        elif sender in self.overlay.heard:
            self.overlay.heard[sender] = self.host.now()


def test_a_liar_below_the_root_swallows_what_the_nodes_below_it_want_and_no_more() -> None:
    """It has no parent, says that the root is its parent, and takes as many children as come."""

    async def story(world: World) -> None:
        world.overlay |= {"children": 2, "metric": "NHOP"}
        await world.grow(12)
        await world.start(LIAR)
        await world.until(world.whole, "the liar is in the tree")
        broker = world.brokers.pop(LIAR)
        liar = overlay(broker)
        broker.host.close(liar.parent)
        liar._disconnected(liar.parent)
        liar.rank, liar.route, liar.most = 0, (shop.Hop(0, shop.Wanted()),), 0

        def cut_off() -> set[int]:
            return world.below(LIAR)

        def has_drawn_some() -> bool:
            world.publish()
            return len(cut_off()) > 1

        await world.until(has_drawn_some, "some have moved to the liar")
        await asyncio.sleep(30.0)
        below = cut_off()
        since = dict.fromkeys(world.brokers, len(world.sent["a"]))
        for _ in range(5):
            world.publish()
        await asyncio.sleep(2.0)
        assert below == cut_off()
        missing = world.missing(since)
        assert {node for node in missing if missing[node]} == below
        world.nothing_twice()
        world.loop.kill(broker)
        await world.until(world.whole, "all are in one tree without the liar")
        await world.everything_arrives()

    in_virtual_time(story)


@pytest.mark.parametrize("false_route", [False, True], ids=["true route", "false route"])
def test_a_cycle_leads_over_the_liar_that_granted_it(false_route: bool) -> None:
    """The liar is between a node and the one that it asks to be its parent.

    A node that finds itself on its parent's route leaves at once. If the liar hides that, those on
    the cycle and below it are cut off until it is gone.
    """

    async def story(world: World) -> None:
        world.overlay |= {"children": 2, "metric": "RANDOM"}  # nobody moves by himself
        await world.grow(12)
        middle, below = next(
            (n, child)
            for n in world.with_children()
            if overlay(world.brokers[n]).parent != 0
            for child in overlay(world.brokers[n]).child_nodes()
            if len(overlay(world.brokers[child]).child_nodes()) < 2  # it has room for another one
        )
        liar = overlay(world.brokers[middle])
        above = liar.parent
        if false_route:
            liar.route = (shop.Hop(0, shop.Wanted()),)
            Deceitful(world.brokers[middle], shop.Join, shop.Advertise)
            liar.advertise()
            await asyncio.sleep(1.0)
        else:
            Deceitful(world.brokers[middle], shop.Join)
        mover = overlay(world.brokers[above])
        mover.adverts[below] = overlay(world.brokers[below]).advertisement()
        mover.shunned.clear()
        moves = mover.moves
        mover._ask(below)
        await world.until(lambda: mover.moves > moves, "it has moved below itself")
        if false_route:
            await asyncio.sleep(10.0)
            since = dict.fromkeys(world.brokers, len(world.sent["a"]))
            cycle = world.below(above) | {above}
            assert {above, middle, below} <= cycle
            world.publish()
            await asyncio.sleep(2.0)
            missing = world.missing(since)
            assert {node for node in missing if missing[node]} == cycle
            world.nothing_twice()
            world.kill(middle)
        await world.until(world.whole, "all are in one tree")
        await world.everything_arrives()

    in_virtual_time(story)


# A stranger on a socket


def test_forged_messages_of_a_stranger_change_nothing() -> None:
    """It is connected to every broker, under a name of its own, and says what only others may."""

    async def story() -> None:
        network = Network(metric="RANDOM")  # nobody moves by himself
        raws: list[Raw] = []
        try:
            for node in range(5):
                await network.start(node)
            await until(network.whole, "all are in one tree")

            def all_hear() -> bool:
                network.publish()
                return all(network.got.values())

            await until(all_hear, "an event has come to everybody")
            since = {node: len(network.sent["a"]) for node in network.brokers}
            parents = {n: overlay(b).parent for n, b in network.brokers.items()}
            ranks = [overlay(b).rank for b in network.brokers.values()]
            moves = {n: overlay(b).moves for n, b in network.brokers.items()}
            for broker in network.brokers.values():
                raw = await Raw.open(broker)
                raw.writer.write(encode(hello(broker, "peer")))
                await raw.answer(Welcome)
                raws.append(raw)
                for message in forged(broker):
                    raw.writer.write(encode(message))
                network.publish()
            answers = await asyncio.gather(*(raw.closed() for raw in raws))
            assert not any(b"parent-welcome" in frame for frames in answers for frame in frames)
            network.publish()
            assert {n: overlay(b).moves for n, b in network.brokers.items()} == moves
            assert {n: overlay(b).parent for n, b in network.brokers.items()} == parents
            assert [overlay(b).rank for b in network.brokers.values()] == ranks
            await until(lambda: not any(network.missing(since).values()), "nothing is missing")
            for got in network.got.values():
                assert len(got) == len(set(got))
        finally:
            for raw in raws:
                raw.close()
            await network.stop()

    run(story())


def forged(broker: Broker) -> list[Message]:
    """What a stranger has no right to say to a broker."""
    here, parent = broker.node, max(0, overlay(broker).parent)
    children = overlay(broker).child_nodes()
    nothing = shop.Wanted()
    said: list[Message] = [
        shop.Advertise(0, (), nothing, ()),  # it is the root
        shop.Advertise(1, (), nothing, ()),  # it is an heir of a smaller id
        shop.Advertise(0, (shop.Hop(5, nothing),), nothing, ()),  # another is the root
        shop.Stray(),  # the parent has lost its route
        handover.Leaving(),  # the parent, or a child, stops
        handover.Moved(LIAR, 1),  # a child has moved
        handover.Settled(),
        handover.Flushed((here,), 1),
        handover.Flush((here, LIAR), 1, True),
        handover.Flush((here, parent), 1, False),  # in another's name
        shop.Join((3, 4), 1, True),  # likewise
        shop.Join((here, LIAR), 1, True),  # its own request has come back
        shop.Here(),
    ]
    for node in (parent, LIAR, *children):  # a request was granted
        said.append(shop.Answer((node, here), 1, True, True))
        said.append(shop.Answer((node,), 1, True, True))
    # Welcome to a node that did not ask: it hangs up.
    said.append(shop.Welcome(shop.Advertise(0, (), nothing, (shop.Child(here, nothing),)), 1))
    return said
