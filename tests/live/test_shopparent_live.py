"""ShopParent on the network: brokers shop for parents under load, and no event is lost by it."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from live_world import run, until

import shoal
from shoal.content import AttributeFilter, Attributes
from shoal.live import Broker, LiveError
from shoal.live.identity import node_id
from shoal.live.processes import BrokerProcess, free_port
from shoal.live.settings import differences, settings_from
from shoal.live.virtual import VirtualLoop
from shoal.overlay.shopparent import ShopParent
from shoal.testing import QUICK

OVERLAY = {
    "name": "shopparent",
    "root": 0,
    "children": 3,
    "period": 0.1,
    "timeout": 3.0,
    "collect": 0.02,
}
KINDS = ("a", "b")
PATIENT = {"period": 0.25, "timeout": 2.0}
NAMED = ("name", "root")


def overlay(broker: Broker) -> ShopParent:
    found = broker.layers.overlay
    assert isinstance(found, ShopParent)
    return found


class Network:
    """Brokers that each want one of two kinds of events, and what they got.

    On sockets, or on a loop of virtual time.
    """

    def __init__(self, loop: VirtualLoop | None = None, **overlay: Any) -> None:
        self.loop = loop
        self.overlay = {**OVERLAY, **overlay}
        self.brokers: dict[int, Broker] = {}
        self.got: dict[int, list[int]] = {}
        self.sent: dict[str, list[int]] = {kind: [] for kind in KINDS}

    async def start(self, node: int) -> None:
        join = {"join": (self.brokers[0].address,)} if node else {}
        raw: dict[str, Any] = {
            "name": str(node),
            **QUICK,
            "overlay": self.overlay,
            "routing": {"name": "hierarchical-forwarding"},
            **join,
        }
        settings = settings_from(raw)
        broker = await (Broker(settings).start() if not self.loop else self.loop.start(settings))
        self.brokers[node] = broker
        self.got[node] = []
        wanted = AttributeFilter(f"kind = '{self.kind(node)}' AND n >= 0")
        broker.listen_to(wanted, lambda event: self._hear(node, event.content))

    def _hear(self, node: int, content: object) -> None:
        assert isinstance(content, Attributes)
        if node in self.got:
            self.got[node].append(int(str(content.values["n"])))

    def kind(self, node: int) -> str:
        return KINDS[node % 2]

    def whole(self) -> bool:
        """All are in the root's tree, and both ends of every link know."""
        return all(
            overlay(b).rank == 0
            and (n == 0 or n in overlay(self.brokers[overlay(b).parent]).child_nodes())
            for n, b in self.brokers.items()
            if n == 0 or overlay(b).parent in self.brokers
        ) and all(n == 0 or overlay(b).parent in self.brokers for n, b in self.brokers.items())

    def publish(self) -> None:
        for kind in KINDS:
            number = len(self.sent[kind])
            self.sent[kind].append(number)
            self.brokers[0].publish({"kind": kind, "n": number})

    def missing(self, since: dict[int, int]) -> dict[int, set[int]]:
        """Per broker what it wants and has not got, of what came since a number."""
        return {
            node: set(self.sent[self.kind(node)][since[node] :]) - set(self.got[node])
            for node in self.brokers
        }

    def prefer_another(self, node: int) -> None:
        """A broker asks the best parent but its own, as if that one were cheaper now."""
        chosen = overlay(self.brokers[node])
        others = [n for n in chosen._candidates() if n != chosen.parent]
        if others and chosen.rank >= 0 and chosen.joining == chosen.leaving == -1:
            chosen._ask(others[0])

    def moves(self) -> int:
        return sum(overlay(broker).moves for broker in self.brokers.values())

    async def leave(self, node: int) -> None:
        """A broker stops in good order."""
        broker = self.brokers.pop(node)
        self.got.pop(node)
        await broker.drain()

    async def stop(self) -> None:
        for broker in self.brokers.values():
            await broker.stop()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_brokers_shop_under_load_and_no_event_is_lost_without_any_recovery() -> None:
    async def story() -> None:
        network = Network()
        try:
            for node in range(7):
                await network.start(node)
            await until(network.whole, "all are in one tree")

            def all_hear() -> bool:
                network.publish()
                return all(network.got.values())

            await until(all_hear, "an event has come to everybody")
            since = {node: len(network.sent["a"]) for node in network.brokers}
            before = network.moves()

            async def they_move() -> bool:
                for node in range(1, 7):
                    network.publish()
                    await asyncio.sleep(0.005)
                    network.prefer_another(node)
                return network.moves() >= before + 20

            await until(they_move, "brokers have moved again and again")
            inner = next(n for n in range(1, 7) if overlay(network.brokers[n]).child_nodes())
            leaving = asyncio.create_task(network.leave(inner))
            while not leaving.done():
                network.publish()
                await asyncio.sleep(0.005)
            await leaving
            await until(lambda: not any(network.missing(since).values()), "nothing is missing")
            for got in network.got.values():
                assert len(got) == len(set(got))
            described = overlay(network.brokers[0]).describe()
            assert described["parent"] == "none (root)"
            assert described["hops"] == 0
            assert 1 <= int(str(described["children"])) <= 3
            assert described["forwards"] == 1.0  # all are wanted by somebody below
            assert described["only for others"] == 0.5
            assert "work saved" in described
        finally:
            await network.stop()

    run(story())


class Fleet:
    """Brokers in processes of their own, each with a client that wants everything."""

    def __init__(self) -> None:
        self.processes: dict[int, BrokerProcess] = {}
        self.buses: dict[int, shoal.Bus] = {}
        self.got: dict[int, list[int]] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.sent = 0

    async def start(self, name: str) -> None:
        """Start a broker that joins those there are."""
        join = [f"--join={process.address}" for process in self.processes.values()][:1]
        chosen = {**OVERLAY, **PATIENT}
        quick = [f"--set=overlay.{k}={v}" for k, v in chosen.items() if k not in NAMED]
        stack = ["--overlay=shopparent", "--root=r", "--routing=hierarchical-forwarding"]
        arguments = [*stack, "--recovery=combined-pull", *quick, *join]
        process = BrokerProcess(name, arguments)
        process.listens()
        node = node_id(name)
        self.processes[node] = process
        self.buses[node] = await shoal.connect(process.address)
        self.got[node] = []
        self.tasks.append(asyncio.create_task(self._follow(node)))

    async def _follow(self, node: int) -> None:
        async with self.buses[node].subscribe("n >= 0") as subscription:
            async for event in subscription:
                self.got[node].append(int(str(event["n"])))

    async def overlays(self) -> dict[int, dict[str, Any]]:
        """What each overlay says of itself."""
        return {node: (await bus.inspect()).overlay for node, bus in self.buses.items()}

    async def whole(self) -> bool:
        """One of them is the root, and all others have a parent that runs."""
        found = await self.overlays()
        roots = [node for node, told in found.items() if told["parent"] == "none (root)"]
        return len(roots) == 1 and all(
            told["hops"] is not None and (node in roots or told["parent"] in found)
            for node, told in found.items()
        )

    async def kill(self, node: int) -> None:
        """kill -9, without a word to anybody."""
        self.processes.pop(node).close()
        await self.buses.pop(node).close()
        self.got.pop(node)

    async def publish(self, node: int) -> None:
        """One more event."""
        await self.buses[node].publish({"n": self.sent})
        self.sent += 1

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        for bus in self.buses.values():
            await bus.close()
        for process in self.processes.values():
            process.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_inner_brokers_and_the_root_are_killed_under_load() -> None:
    """An heir takes the root's place; a recovery fetches what died with the killed ones."""

    async def story() -> None:
        fleet = Fleet()
        try:
            for name in "rabcd":
                await fleet.start(name)
            await until(fleet.whole, "all are in one tree")
            leaves = [n for n, told in (await fleet.overlays()).items() if not told["children"]]
            publisher = leaves[-1]

            async def all_hear() -> bool:
                await fleet.publish(publisher)
                return all(fleet.got.values())

            await until(all_hear, "an event has come to everybody")
            since = fleet.sent
            root = node_id("r")
            found = await fleet.overlays()
            inner = next(n for n in found if found[n]["children"] and n not in (root, publisher))
            for victim in (inner, root):
                for _ in range(20):
                    await fleet.publish(publisher)
                await fleet.kill(victim)
                for _ in range(20):
                    await fleet.publish(publisher)
                await until(fleet.whole, "the others are in one tree again")
            for _ in range(20):
                await fleet.publish(publisher)
            owed = set(range(since, fleet.sent))
            await until(
                lambda: all(owed <= set(got) for got in fleet.got.values()), "nothing is missing"
            )
            for got in fleet.got.values():
                assert len(got) == len(set(got))
        finally:
            await fleet.close()

    run(story())


def test_brokers_that_name_different_roots_refuse_each_other() -> None:
    ours, theirs = (
        settings_from({"overlay": {"name": "shopparent", "root": root, "heirs": ["hall"]}})
        for root in ("kitchen", "cellar")
    )
    told = differences(ours.described(ours.stack()), theirs.described(theirs.stack()))
    assert told == f"overlay.root: {node_id('kitchen')} here, {node_id('cellar')} there"


def test_the_root_and_its_heirs_may_be_named() -> None:
    overlay = {"name": "shopparent", "root": "kitchen", "heirs": ["hall", 7, "8"]}
    chosen = settings_from({"overlay": overlay}).stack().parameters["overlay"]
    assert chosen.roots == (node_id("kitchen"), node_id("hall"), 7, 8)
    with pytest.raises(LiveError, match="name 'two words' cannot be used"):
        settings_from({"overlay": {**overlay, "root": "two words"}})
    anyone = settings_from({"overlay": {**overlay, "heirs": "anyone"}}).stack()
    assert anyone.parameters["overlay"].heirs == "anyone"


def test_the_brokers_of_the_manual_form_a_tree() -> None:
    text = (Path(__file__).parents[2] / "docs" / "shopparent.md").read_text()
    given = [
        shlex.split(line)[3:] for line in text.splitlines() if line.startswith("$ shoal broker ")
    ]
    assert len(given) == 2
    ports = {f"127.0.0.1:{number}": f"127.0.0.1:{free_port()}" for number in (7464, 7465)}
    with ExitStack() as stack:
        for arguments in given:
            words = [ports.get(word, word) for word in arguments]
            assert words[0] == "--name"
            assert words[2] == "--listen"
            process = BrokerProcess(words[1], words[4:], address=words[3])
            stack.enter_context(closing(process))
            process.listens()

        async def story() -> None:
            async with shoal.connect(ports["127.0.0.1:7465"]) as bus:

                async def is_child() -> bool:
                    return bool((await bus.inspect()).overlay["parent"] == node_id("kitchen"))

                await until(is_child, "the second has found its parent")

        run(story())
