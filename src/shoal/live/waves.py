"""Waves: how a broker learns that all others have handled what it sent.

A wave is the echo algorithm. Its origin sends a :class:`~shoal.live.messages.Wave` over all its
links. Who hears of it for the first time passes it on over all other links and, once something of
this wave has come back over each of these, answers the link it first came by. So every link carries
it once in each direction.

A message between neighbours never overtakes another. A subscription that was announced before the
wave therefore arrives before it everywhere; and on a tree, so does every event on its way to the
origin.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from shoal.live.identity import first_sequence
from shoal.live.messages import Echo, Wave

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.peer import Peer
    from shoal.stack import NodeId

REMEMBERED: Final = 4096
"""Most waves that a broker remembers, to answer those that come again over a new link; and most
that pass at a time: beyond, a neighbour that sends one more loses its oldest."""
PAUSE: Final = 0.02
"""Seconds between two waves of one origin, so that one wave serves many clients."""
Key: TypeAlias = "tuple[NodeId, int]"


@dataclass(eq=False)
class _Passing:
    """A wave as one broker sees it."""

    parent: NodeId | None
    """The neighbour it first came from; None at its origin."""
    waiting: set[NodeId]
    """Neighbours over whose links nothing has come back."""
    done: asyncio.Future[None] | None = None
    """Future at the origin, set when the wave is over."""


class Waves:
    """The waves that pass through one broker, and its own."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._numbers = itertools.count(first_sequence(broker.epoch))
        self._passing: dict[Key, _Passing] = {}
        self._over: dict[Key, None] = {}
        self._next: asyncio.Future[None] | None = None
        """Future of those who wait for the next wave of this broker."""
        self._turn = asyncio.Lock()

    async def settled(self) -> None:
        """Wait until every broker that can be reached has handled what was sent so far."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            self._broker.spawn(self._start(self._next))
        await asyncio.shield(self._next)

    async def _start(self, over: asyncio.Future[None]) -> None:
        async with self._turn:
            departures = self._broker.departures
            while departures.isolated and not departures.leaving:
                await asyncio.sleep(PAUSE)
            self._next = None  # who asks from now on waits for another wave
            key = (self._broker.node, next(self._numbers))
            done = asyncio.get_running_loop().create_future()
            self._begin(key, _Passing(None, set(), done))
            await done
            if not over.done():
                over.set_result(None)
            await asyncio.sleep(PAUSE)

    # Messages

    def receive(self, peer: Peer, message: Wave | Echo) -> None:
        """A message of a neighbour."""
        if isinstance(message, Wave):
            self.on_wave(peer, message)
        else:
            self.on_echo(peer, message)

    def on_wave(self, peer: Peer, wave: Wave) -> None:
        """A wave arrives, for the first time or over one more link."""
        key = (wave.origin, wave.number)
        passing = self._passing.get(key)
        if passing is not None and peer.node in passing.waiting:
            self._answered(key, passing, peer.node)
        elif passing is not None or key in self._over:
            peer.send_own(Echo(wave.origin, wave.number))
        else:
            self._begin(key, _Passing(peer.node, set()))

    def on_echo(self, peer: Peer, echo: Echo) -> None:
        """A neighbour, and all beyond it, have handled what came before the wave."""
        key = (echo.origin, echo.number)
        passing = self._passing.get(key)
        if passing is not None:
            self._answered(key, passing, peer.node)

    def _begin(self, key: Key, passing: _Passing) -> None:
        broker = self._broker
        if len(self._passing) >= REMEMBERED and passing.parent is not None:
            mine = (k for k, other in self._passing.items() if other.parent == passing.parent)
            self._passing.pop(next(mine, key), None)
        self._passing[key] = passing
        absent = {} if broker.departures.leaving else broker.departures.absent
        passing.waiting = {*broker.links, *absent} - {passing.parent}
        for node in passing.waiting:
            if node not in absent:
                broker.links[node].send_own(Wave(*key))
        self._ended(key, passing)

    def _answered(self, key: Key, passing: _Passing, node: NodeId) -> None:
        passing.waiting.discard(node)
        self._ended(key, passing)

    def _ended(self, key: Key, passing: _Passing) -> None:
        if passing.waiting or self._passing.pop(key, None) is None:
            return
        self._over[key] = None
        while len(self._over) > REMEMBERED:
            del self._over[next(iter(self._over))]
        if passing.done is not None:
            if not passing.done.done():
                passing.done.set_result(None)
        elif passing.parent in self._broker.links:
            self._broker.links[passing.parent].send_own(Echo(*key))

    # Links

    def returned(self, node: NodeId) -> None:
        """A neighbour that was absent is back: the waves that wait for it go on."""
        for key, passing in list(self._passing.items()):
            if node in passing.waiting:
                self._broker.links[node].send_own(Wave(*key))

    def lost(self, node: NodeId) -> None:
        """A neighbour is gone: nothing will come back over its link."""
        for key, passing in list(self._passing.items()):
            if node in passing.waiting:
                self._answered(key, passing, node)
