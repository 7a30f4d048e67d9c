"""Many brokers in one process, on virtual links and in virtual time: whatever becomes of them, one
tree again, tables as the oracle's, nothing lost once healed, nothing misdelivered or doubled."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from live_world import links_of, states_of, tables_of

from shoal.content import AttributeFilter
from shoal.live.broker import Broker
from shoal.live.client import connect
from shoal.live.settings import settings_from
from shoal.live.virtual import VirtualLoop
from shoal.overlay.lstree import LSTree
from shoal.overlay.lstree_messages import ParentRequest, Regional
from shoal.overlay.lstree_relation import DEEPEST, LONGEST
from shoal.stack import LOCAL, Layer, NodeId

KINDS = 20
HEALED = 300.0
"""Seconds, of virtual time, in which trouble of any kind must be over."""


def tree_of(broker: Broker) -> LSTree:
    return cast("LSTree", broker.layers.overlay)


class World:
    """Brokers on a virtual loop; each wants one kind of event, and counts what it gets."""

    def __init__(self, loop: VirtualLoop, heartbeat: float = 1.0) -> None:
        self.loop = loop
        self.heartbeat = heartbeat
        self.brokers: list[Broker] = []
        self.got: dict[int, Counter[int]] = {}
        self.wants: dict[int, int] = {}
        self.kinds: dict[int, int] = {}
        """Of each event, by its number."""

    async def start(self, number: int, join: Iterable[Broker] = ()) -> Broker:
        raw: dict[str, Any] = {
            "name": str(number),
            "seed": number,
            "heartbeat": self.heartbeat,
            "overlay": {"heartbeat": self.heartbeat, "global_period": 30.0 + 3 * self.heartbeat},
            "join": tuple(broker.address for broker in join),
        }
        broker = await self.loop.start(settings_from(raw))
        kind = self.wants[broker.node] = number % KINDS
        got = self.got[broker.node] = Counter()

        def count(event: Any) -> None:
            got[event.content.values["n"]] += 1

        broker.listen_to(AttributeFilter(f"kind = {kind}"), count)
        self.brokers.append(broker)
        return broker

    async def grow(self, count: int) -> None:
        for number in range(count):
            await self.start(number, [self.brokers[number // 2]] if number else [])

    def kill(self, victims: list[Broker]) -> None:
        for victim in victims:
            self.loop.kill(victim)
            self.brokers.remove(victim)

    def publish(self, brokers: list[Broker]) -> set[int]:
        """One event of each, of 3 × KINDS at most; their numbers."""
        sent = set()
        for broker in brokers[:: 1 + len(brokers) // (3 * KINDS)]:
            n = len(self.kinds)
            self.kinds[n] = n % KINDS
            broker.publish({"n": n, "kind": n % KINDS})
            sent.add(n)
        return sent

    def one_tree(self) -> bool:
        trees = [tree_of(broker) for broker in self.brokers]
        return (
            [tree.root for tree in trees].count(True) == 1
            and all(tree.root or tree.parent != LOCAL for tree in trees)
            and sum(len(b.links) for b in self.brokers) == 2 * (len(trees) - 1)
        )

    def tables_are_right(self) -> bool:
        states = states_of(self.brokers)
        try:
            links = links_of(states)
        except AssertionError:  # the ends of a link do not agree yet
            return False
        return self.one_tree() and tables_of(states) == self.oracle(links)

    def oracle(self, links: dict[int, set[int]]) -> dict[int, set[tuple[int, str, int]]]:
        """Tables on a tree: what is wanted beyond each neighbour, found from the leaves inwards."""
        order, above = [next(iter(links))], {next(iter(links)): LOCAL}
        for node in order:
            for other in links[node] - {above[node]}:
                above[other] = node
                order.append(other)
        beyond: dict[tuple[int, int], set[int]] = {}
        """What is wanted on the other side of a link, seen from its first end."""
        for node in reversed(order):
            sides = [beyond[node, other] for other in links[node] - {above[node]}]
            beyond[above[node], node] = {self.wants[node]}.union(*sides)
        for node in order[1:]:
            up = above[node]
            sides = [beyond[up, other] for other in links[up] - {node}]
            beyond[node, up] = {self.wants[up]}.union(*sides)
        tables = {node: {(LOCAL, f"kind = {self.wants[node]}", 0)} for node in links}
        for (node, neighbour), kinds in beyond.items():
            if node != LOCAL:
                tables[node] |= {(neighbour, f"kind = {kind}", 0) for kind in kinds}
        return tables

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        ends = self.loop.time() + HEALED
        while not holds():
            assert self.loop.time() < ends, f"{what}: not within {HEALED:g} s"
            await asyncio.sleep(2.0)

    async def healed(self, what: str) -> None:
        """Until there is one tree with right tables; what is published then reaches everybody."""
        began, spent = self.loop.time(), time.process_time()
        await self.until(self.one_tree, f"{what}: one tree")
        took = self.loop.time() - began
        await self.until(self.tables_are_right, f"{what}: right tables")
        sent = self.publish(self.brokers)
        await asyncio.sleep(2.0)
        self.complete(sent)
        self.right()
        cpu = time.process_time() - spent
        print(f"{what}: one tree of {len(self.brokers)} after {took:.0f} s ({cpu:.1f} s of CPU)")

    def complete(self, sent: set[int]) -> None:
        """Everybody has what was published of the kind it wants."""
        for broker in self.brokers:
            wanted = {n for n in sent if self.kinds[n] == self.wants[broker.node]}
            assert wanted <= set(self.got[broker.node]), broker.name

    def right(self) -> None:
        """Nobody ever got anything twice, or what it did not want."""
        for node, got in self.got.items():
            assert all(count == 1 for count in got.values()), node
            assert all(self.kinds[n] == self.wants[node] for n in got), node

    def by_place(self) -> tuple[list[Broker], list[Broker], Broker]:
        """The leaves, the inner nodes and the root."""
        leaves = [b for b in self.brokers if not tree_of(b).children]
        root = next(b for b in self.brokers if tree_of(b).root)
        return leaves, [b for b in self.brokers if b not in leaves and b is not root], root


BROKERS = int(os.environ.get("SHOAL_BROKERS", "100"))
"""Brokers of the largest network; 500 take minutes."""


def in_virtual_time(story: Callable[[VirtualLoop], Any], seed: int = 0) -> None:
    with VirtualLoop(seed) as loop:
        loop.run(story(loop))


def test_many_brokers_killed_stopped_and_cut_apart() -> None:
    async def story(loop: VirtualLoop) -> None:
        chance = random.Random(3)
        world = World(loop, heartbeat=10.0)
        await world.grow(BROKERS)
        await world.healed("started")
        leaves, inner, root = world.by_place()
        for what, victims in (
            ("leaves killed", chance.sample(leaves, 10)),
            ("inner nodes killed", chance.sample(inner, 10)),
            ("root killed", [root]),
        ):
            world.publish(world.brokers)
            world.kill(victims)
            world.publish(world.brokers)
            await world.healed(what)
        leaves, inner, root = world.by_place()
        still = [root, *chance.sample(inner, 10), *chance.sample(leaves, 10)]
        for broker in still:
            loop.stop_process(broker)
        moving = [broker for broker in world.brokers if broker not in still]
        world.publish(moving)
        await asyncio.sleep(120.0)  # longer than anybody's patience: all are suspected, falsely
        for broker in still:
            assert not any(broker.node in other.links for other in moving)
            loop.go_on(broker)
        await world.healed("stopped ones go on")
        away = chance.sample(world.brokers, len(world.brokers) // 2)
        loop.cut(away)
        for _ in range(60):
            world.publish(chance.sample(world.brokers, 10))
            await asyncio.sleep(10.0)
        here = [broker for broker in world.brokers if broker not in away]
        for side in (here, away):
            nodes = {broker.node for broker in side}
            assert all(set(broker.links) <= nodes for broker in side)
        loop.cut([])
        await world.healed("ten minutes apart")
        world.kill(chance.sample(world.brokers, len(world.brokers) // 4))
        world.publish(world.brokers)
        await world.healed("a quarter killed")

    in_virtual_time(story)


@pytest.mark.parametrize("lie", ["ahead", "longest", "below its child"])
def test_a_peer_that_lies_hurts_nobody_once_it_is_gone(lie: str) -> None:
    """What it can do at worst is in docs/lstree.md: be everybody's ancestor, or close a cycle."""

    async def story(loop: VirtualLoop) -> None:
        world = World(loop)
        await world.grow(30)
        await world.healed("started")
        leaves, inner, _ = world.by_place()
        liar = tree_of(inner[0])
        if lie == "below its child":  # goes back in the order: its children leave at once
            liar.depth += DEEPEST / 2
            before = set(liar.children)
            liar.push()
            await asyncio.sleep(2.0)
            assert not before & set(liar.children)
        else:
            length = LONGEST if lie == "longest" else 2**39
            liar.colour = (length, liar.node, 1)
            liar.depth = -DEEPEST
            liar.push()
            world.publish(world.brokers)
            await asyncio.sleep(60.0)
            if lie == "ahead":  # everybody is below it
                assert {tree_of(broker).colour for broker in world.brokers} == {liar.colour}
                assert liar.root
        world.publish(world.brokers)
        await asyncio.sleep(5.0)
        world.right()
        world.kill([inner[0]])
        await world.healed(f"a liar ({lie}) is gone")
        late = await world.start(100, [leaves[0]])
        await world.healed("one more")
        assert late.links

    in_virtual_time(story)


class Lying(Layer):
    """What handles the messages to an LSTree that takes anybody as a child and follows nobody."""

    def __init__(self, liar: LSTree) -> None:
        super().__init__(liar.host)
        self.liar = liar

    def receive(self, sender: NodeId, message: Any) -> None:
        if isinstance(message, ParentRequest):
            self.liar._accept(message)
        elif not isinstance(message, Regional):
            self.liar.receive(sender, message)


def test_an_ancestor_taken_for_a_child_closes_a_cycle_through_the_liar_alone() -> None:
    """Those on the cycle and below it are cut off until the liar is gone; nothing comes twice."""

    async def story(loop: VirtualLoop) -> None:
        world = World(loop)
        await world.grow(30)
        await world.healed("started")
        _, _, root = world.by_place()
        by_node = {broker.node: tree_of(broker) for broker in world.brokers}
        evil = next(b for b in world.brokers if tree_of(b).parent in tree_of(root).children)
        liar = tree_of(evil)
        liar.colour, liar.depth = (2**39, evil.node, 1), -DEEPEST
        evil.layers.layers = (Lying(liar), *evil.layers.layers[1:])
        tree_of(root).sighted(evil.host.contact(), liar.colour)
        await world.until(lambda: tree_of(root).parent == evil.node, "the root is below the liar")
        node = by_node[root.node].parent
        while node not in (root.node, LOCAL):
            node = by_node[node].parent
        assert node == root.node, "a cycle"
        for _ in range(30):
            world.publish(world.brokers)
            await asyncio.sleep(1.0)
        world.right()
        world.kill([evil])
        await world.healed("the cycle is broken")

    in_virtual_time(story)


def test_connections_of_the_virtual_world_are_those_of_a_network() -> None:
    async def story(loop: VirtualLoop) -> None:
        got: list[bytes] = []
        lost: list[str] = []

        class Noting(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                got.append(data)

            def connection_lost(self, error: Exception | None) -> None:
                lost.append(str(loop.time()))

        world = World(loop)
        one = await world.start(1)
        two = await world.start(2, [one])
        await world.until(lambda: bool(one.links and two.links), "linked")
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Noting, "127.0.0.1", 1)
        port = int(one.address.rpartition(":")[2])
        await loop.create_connection(Noting, "127.0.0.1", port)
        await asyncio.sleep(10.0)  # no introduction: shown the door
        assert got
        assert lost
        loop.cut([two])
        heard = one.links[two.node].connection.heard
        await asyncio.sleep(2.0)
        assert one.links[two.node].connection.heard - heard < 1.5
        loop.cut([])
        await asyncio.sleep(1.0)
        assert two.node in one.links  # what waited has come, in time
        loop.kill(two)
        await asyncio.sleep(0.1)
        assert two.node not in one.links

    in_virtual_time(story)


def test_a_stopped_broker_answers_no_client() -> None:
    async def story(loop: VirtualLoop) -> None:
        broker = await loop.start(settings_from({"name": "one"}))
        async with connect(broker.address) as bus:
            loop.stop_process(broker)
            publishing = asyncio.ensure_future(bus.publish(n=1))
            await asyncio.sleep(1.0)
            assert not publishing.done()
            loop.go_on(broker)
            await publishing

    in_virtual_time(story)


def test_a_story_that_waits_for_nothing_ends() -> None:
    async def story(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(RuntimeError, match="nothing is due any more"):
        in_virtual_time(story)


@pytest.mark.parametrize("overlay", ["lstree", "overcast", "dhtree", "graph"])
def test_a_broker_that_leaves_its_only_neighbour_does_not_wait_for_silence(overlay: str) -> None:
    async def story(loop: VirtualLoop) -> None:
        stack = {"overlay": {"name": overlay}}
        one = await loop.start(settings_from({"name": "one", **stack}))
        two = await loop.start(settings_from({"name": "two", "join": (one.address,), **stack}))
        while not (one.links and two.links):
            await asyncio.sleep(0.1)
        began = loop.time()
        await two.drain()
        assert loop.time() - began < 1.0  # of virtual time
        while one.links:
            await asyncio.sleep(0.1)
        assert loop.time() - began < 2.0
        await one.drain()

    in_virtual_time(story)


def test_brokers_without_a_seed_go_the_same_way_again() -> None:
    def depths() -> list[float]:
        found: list[float] = []

        async def story(loop: VirtualLoop) -> None:
            first = await loop.start(settings_from({}))
            others = [await loop.start(settings_from({"join": (first.address,)})) for _ in "12345"]
            await asyncio.sleep(2.0)
            found.extend(tree_of(broker).depth for broker in others)

        in_virtual_time(story)
        return found

    assert any(depths())
    assert depths() == depths()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spread", [0.0, 2.0, 8.0])
def test_24_brokers_that_start_in_any_order_are_soon_one_tree(spread: float, seed: int) -> None:
    """With default timers; who starts before the broker that it is to join tries again.

    Also below a root: nobody else of its tree may have been told of that broker (seed 0, 8 s).
    """

    async def story(loop: VirtualLoop) -> None:
        chance = random.Random(spread)
        world = World(loop)
        addresses = [f"127.0.0.1:{port}" for port in range(7000, 7024)]

        async def start(number: int) -> None:
            await asyncio.sleep(chance.uniform(0.0, spread))
            raw: dict[str, Any] = {"name": str(number), "listen": addresses[number]}
            if number:
                raw["join"] = (addresses[number // 3],)
            world.brokers.append(await loop.start(settings_from(raw)))

        await asyncio.gather(*(start(number) for number in range(24)))
        for what, limit in (("all have started", 3.0), ("the root was killed", 2.0)):
            ends = loop.time() + limit  # of virtual time
            while not world.one_tree():
                assert loop.time() < ends, f"no tree {limit:g} s after {what}"
                await asyncio.sleep(0.01)
            await asyncio.sleep(15.0)
            world.kill([world.by_place()[2]])

    in_virtual_time(story, seed)


def test_brokers_far_from_each_other_find_together() -> None:
    """With 0.8 s there and back, a request is answered long after its first timeout."""

    async def story(world: World) -> None:
        await world.grow(8)
        await asyncio.sleep(60.0)
        assert [tree_of(broker).root for broker in world.brokers].count(True) == 1

    with VirtualLoop(delay=0.4) as loop:
        loop.run(story(World(loop)))
