"""A network of brokers in one process, for tests of programs that use Shoal.

::

    async with Network(5) as network:               # or: with Network(5) as network
        async with network.connect(0) as publisher, network.connect(4) as bus:
            ...

All brokers listen on loopback, on free ports, and are gone when the block is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from types import TracebackType
from typing import Any, Literal

from shoal.live.broker import Broker
from shoal.live.client import Connecting, connect
from shoal.live.errors import LiveError
from shoal.live.settings import Settings, settings_from
from shoal.live.sync import LoopThread, SyncBus
from shoal.live.sync import connect as connect_sync
from shoal.stack.registry import find

QUICK: dict[str, Any] = {"heartbeat": 0.25}
LSTREE: dict[str, Any] = {
    "overlay": {
        "name": "lstree",
        "heartbeat": 0.25,
        "early_merge": 0.1,
        "merge_period": 1.0,
        "global_period": 1.0,
    }
}
GRAPH: dict[str, Any] = {
    "overlay": {"name": "graph", "heartbeat": 0.25, "shuffle": 0.1, "heal": 0.5, "forget": 3.0}
}
TREE: dict[str, Any] = {
    "overlay": {"name": "links", "reconnect": (0.02, 0.5), "look": 0.25},
    "routing": {"name": "subscription-forwarding"},
    "reconfiguration": {"name": "strawman"},
}
"""Settings with short times, so that tests need not wait."""
SHAPES: dict[str, dict[str, Any]] = {"lstree": LSTREE, "graph": GRAPH, "tree": TREE}


class Network:
    """``brokers`` brokers on loopback, as ``shoal broker`` starts them: a tree that heals itself.

    ``shape="graph"``: a graph, with its routing; ``"tree"``: a binary tree of configured links.
    Further arguments are :class:`~shoal.live.settings.Settings`, for all of them.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        shape: Literal["lstree", "graph", "tree"] = "lstree",
        **settings: Any,
    ) -> None:
        if brokers < 1:
            raise LiveError(f"a network of {brokers} brokers cannot be; take at least one")
        self._count = brokers
        self._shape = shape
        shaped = SHAPES[shape]
        self._settings = {**QUICK, **shaped, **settings}
        self._overlay = "overlay" in settings or _has_links(settings.get("routing", {}))
        if not self._overlay:
            del self._settings["overlay"]
        elif settings.get("overlay", {}).get("name") in (None, shaped["overlay"]["name"]):
            self._settings["overlay"] = {**shaped["overlay"], **settings.get("overlay", {})}
        self.brokers: list[Broker] = []
        self._thread: LoopThread | None = None

    def settings_of(self, number: int) -> Settings:
        """Settings of the broker of that number."""
        more: dict[str, Any] = {}
        if number and self._shape == "tree":
            more["links"] = (self.brokers[(number - 1) // 2].address,)
        elif number:
            more["join"] = (self.brokers[0].address,)
        return settings_from({"name": str(number), **self._settings, **more})

    async def start(self) -> Network:
        """Start all brokers and wait until they are linked."""
        for number in range(self._count):
            self.brokers.append(await Broker(self.settings_of(number)).start())
        await self.settled()
        return self

    async def stop(self) -> None:
        """Stop them all."""
        await asyncio.gather(*(broker.stop() for broker in self.brokers))

    async def settled(self, timeout: float = 60.0) -> None:
        """Wait until every broker has its links and no routing message moves any more."""
        try:
            async with asyncio.timeout(timeout):
                before: list[tuple[int, int]] = []
                while True:
                    await asyncio.sleep(0.1)
                    now = [
                        (peer.sent, peer.received_count - peer.beats)
                        for broker in self.brokers
                        for peer in broker.links.values()
                    ]
                    arrived = sum(sent for sent, _ in now) == sum(got for _, got in now)
                    if now == before and arrived and self._linked():
                        return
                    before = now
        except TimeoutError:
            links = [len(broker.links) for broker in self.brokers]
            raise LiveError(
                f"the network does not settle in {timeout:g} s; links: {links}"
            ) from None

    def _linked(self) -> bool:
        running = [broker for broker in self.brokers if not broker.host.closed]
        if not self._overlay:
            return True
        if self._shape == "tree":
            return sum(len(b.links) for b in running) == 2 * (len(running) - 1)
        if not running:
            return True
        parameters = running[0].stack.parameters.get("overlay")
        enough = min(getattr(parameters, "degree", 2) - 1, len(running) - 1)
        reached, frontier = {running[0].node}, [running[0].node]
        by_node = {broker.node: broker for broker in running}
        while frontier:
            for node in by_node[frontier.pop()].links:
                if node in by_node and node not in reached:
                    reached.add(node)
                    frontier.append(node)
        return len(reached) == len(running) and all(len(b.links) >= enough for b in running)

    def connect(self, number: int = 0, **options: Any) -> Connecting:
        """A client of the broker of that number."""
        return connect(self.brokers[number].address, **options)

    def connect_sync(self, number: int = 0, **options: Any) -> SyncBus:
        """A blocking client of the broker of that number."""
        return connect_sync(self.brokers[number].address, **options)

    async def __aenter__(self) -> Network:
        return await self.start()

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    def __enter__(self) -> Network:
        self._thread = LoopThread()
        self.run(self.start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._thread is not None
        self.run(self.stop())
        self._thread.stop()

    def run(self, work: Awaitable[Any]) -> Any:
        """In a ``with`` block: do something in the loop that the brokers run in."""
        if self._thread is None:
            raise LiveError("the network does not run; enter it with 'with Network(…)'")

        async def do() -> Any:
            return await work

        return self._thread.run(do())


def _has_links(routing: dict[str, Any]) -> bool:
    """Whether a routing, if one is named, has an overlay below it."""
    name = routing.get("name")
    return name is None or "reach" not in find("routing", name).needs
