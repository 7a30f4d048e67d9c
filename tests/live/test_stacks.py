"""Whatever the registry holds runs live: overlays, routings without one, recoveries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset as ds
import pytest
from live_world import run, until

import shoal
import shoal.overlay
import shoal.recovery
import shoal.routing
from shoal.content import AttributeFilter
from shoal.live import Broker, LiveError, Settings
from shoal.live.peer import Peer
from shoal.live.settings import settings_from
from shoal.stack import Contact, Host, Message, NodeId, Overlay, Routing, register
from shoal.stack.registry import protocols
from shoal.testing import QUICK

ABLE = [
    p.name
    for p in protocols("overlay")
    if not p.needs & {"links", "air"}
    and p.make.__module__.startswith("shoal.")  # other tests' overlays need not run live
]
ALONE = [p.name for p in protocols("routing") if "reach" in p.needs]


class Greeting(Message, frozen=True, tag="meeting greeting"):
    """Whom the sender knows; everybody opens connections to all of them."""

    known: tuple[Contact, ...]


class MeetingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long to wait before somebody is sought again."""

    pause: float = 0.05


class Meeting(Overlay):
    """Everybody is linked to everybody: as plain an overlay as can be."""

    def __init__(self, host: Host, parameters: MeetingParameters, routing: Routing) -> None:
        super().__init__(host, routing)
        self.pause = parameters.pause
        self.known: dict[NodeId, Contact] = {}

    def handlers(self) -> dict[type[Message], Any]:
        return {Greeting: self.on_greeting}

    def join(self, contacts: tuple[Contact, ...]) -> None:
        for contact in contacts:
            self.host.open(contact)

    def opened(self, peer: Contact) -> None:
        if peer.node not in self.neighbours:
            self.known[peer.node] = peer
            self.link_up(peer.node)
            for node in self.neighbours:
                self.host.send(node, Greeting((self.host.contact(), *self.known.values())))

    def on_greeting(self, sender: NodeId, message: Greeting) -> None:
        for contact in message.known:
            if contact.node not in (self.host.node, *self.neighbours):
                self.host.open(contact)

    def unreachable(self, contact: Contact) -> None:
        self.host.after(self.pause, lambda: self.host.open(contact))

    def closed(self, peer: NodeId) -> None:
        self.link_down(peer)

    def describe(self) -> dict[str, object]:
        return {"guests": len(self.neighbours)}


register(*("overlay", "meeting", Meeting, MeetingParameters), needs={"reach"}, provides={"links"})


@asynccontextmanager
async def brokers(count: int, **settings: Any) -> AsyncIterator[list[Broker]]:
    """Brokers that join the first."""
    found: list[Broker] = []
    try:
        for number in range(count):
            how = "links" if settings["overlay"].get("name") == "links" else "join"
            join = {how: (found[0].address,)} if number else {}
            raw = {"name": str(number), **QUICK, **settings, **join}
            found.append(await Broker(settings_from(raw)).start())
        yield found
    finally:
        for broker in found:
            await broker.stop()


class Everybody:
    """A listener at every broker, and what each got."""

    def __init__(self, found: list[Broker]) -> None:
        self.brokers = found
        self.got: dict[int, list[int]] = {broker.node: [] for broker in found}
        self.sent = 0
        for broker in found:
            broker.listen_to(AttributeFilter("n >= 0"), self._listener(broker.node))

    def _listener(self, node: int) -> Any:
        return lambda event: self.got[node].append(event.content.values["n"])

    async def hear(self) -> None:
        """Until an event of each broker has come to all: links and tables may take a while."""
        for broker in self.brokers:
            first = self.sent

            def all_have_one(broker: Broker = broker, first: int = first) -> bool:
                self.sent += 1
                broker.publish({"n": self.sent})
                nodes = [other.node for other in self.brokers]
                return all(any(n > first for n in self.got[node]) for node in nodes)

            await until(all_have_one, f"an event of {broker.name} has come to all: {self.got}")

    def never_twice(self) -> None:
        assert all(len(got) == len(set(got)) for got in self.got.values())


def test_an_overlay_of_ones_own_runs_live() -> None:
    async def story() -> None:
        stack = {"overlay": {"name": "meeting"}, "routing": {"name": "flooding"}}
        async with brokers(4, **stack) as found:
            await until(lambda: all(len(b.links) == 3 for b in found), "all are linked")
            everybody = Everybody(found)
            await everybody.hear()
            everybody.never_twice()
            async with shoal.connect(found[3].address) as bus:
                state = await bus.inspect()
            assert state.overlay == {"guests": 3}
            assert state.stack.startswith("meeting/flooding")
            await found.pop(0).stop()
            everybody.got.pop(0)
            await until(lambda: all(len(b.links) == 2 for b in found), "one is gone")
            await everybody.hear()

    run(story())


@pytest.mark.parametrize("overlay", ABLE)
def test_every_overlay_of_the_registry_runs_live(overlay: str) -> None:
    async def story() -> None:
        # A process that gets no time must not look dead: Overcast would fall apart for good.
        async with brokers(5, overlay={"name": overlay}, heartbeat=20.0) as found:
            everybody = Everybody(found)
            await everybody.hear()
            everybody.never_twice()
            shown = found[0].status().overlay
            assert shown == found[0].layers.overlay.describe()  # type: ignore[union-attr]  # there is one

            def parents() -> list[object]:
                return [broker.status().overlay["parent"] for broker in found]

            if "parent" in shown:
                await until(lambda: parents().count("none (root)") == 1, "all see who is the root")

    run(story())


@pytest.mark.parametrize("routing", ALONE)
def test_a_routing_without_an_overlay_runs_live(routing: str) -> None:
    async def story() -> None:
        async with brokers(4, overlay={}, routing={"name": routing}) as found:
            assert all(broker.layers.overlay is None for broker in found)
            everybody = Everybody(found)
            await everybody.hear()

    run(story())


@pytest.mark.parametrize("recovery", [p.name for p in protocols("recovery")])
def test_what_a_recovery_fetches_is_recorded_so(
    recovery: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One event in five is lost on its way to each neighbour, and comes all the same."""
    send = Peer.send
    count = 0

    def lossy(self: Peer, message: Any) -> None:
        nonlocal count
        if message.events() and type(message) in self.broker.over_links:
            count += 1
            if count % 5 == 0:
                return
        send(self, message)

    async def story() -> None:
        stack = {
            "overlay": {"name": "links", "reconnect": (0.02, 0.5)},
            "recovery": {"name": recovery},
            "record": tmp_path,
        }
        async with brokers(3, **stack) as found:
            everybody = Everybody(found)
            await everybody.hear()
            monkeypatch.setattr(Peer, "send", lossy)

            def all_have_recovered() -> bool:
                everybody.sent += 1
                found[0].publish({"n": everybody.sent})
                return all(broker.recovered for broker in found[1:])

            await until(all_have_recovered, "something was fetched at either broker")
            everybody.never_twice()

    run(story())
    rows = ds.dataset(tmp_path / "tables" / "deliveries").to_table().to_pylist()
    assert {row["recovered"] for row in rows if row["node"] == 1} == {True, False}


def test_two_messages_of_one_tag_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Minutes(Message, frozen=True, tag="event"):
        """Its tag is that of the routing's events."""

    async def story() -> None:
        with pytest.raises(LiveError, match=r"test_stacks.Minutes and .*Forward have the same tag"):
            await Broker(
                settings_from({"overlay": {"name": "meeting"}, "routing": {"name": "flooding"}})
            ).start()

    monkeypatch.setattr(Meeting, "handlers", lambda _: {Minutes: None})
    run(story())


def test_what_cannot_run_live_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="overlay 'given' runs in a simulation only"):
        Broker(Settings(overlay={"name": "given"}))
    with pytest.raises(ValueError, match="unknown overlay 'grahp'; did you mean 'graph'"):
        Broker(Settings(overlay={"name": "grahp"}))
