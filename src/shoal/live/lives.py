"""Lives: which brokers there are and were, so that the death of one is known to all others.

An event that only its broker held is lost with it, and no number is left that would show it. So
every broker with a recovery knows the others and their epochs before they publish: it tells each
new neighbour of all brokers that it has heard of, itself included, and passes on what is new to it.
A broker that comes back under another epoch, without having said that it stops, may have lost
events of its earlier life.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from shoal.live.messages import Life
from shoal.stack import Contact
from shoal.stack.host import LOCAL, remember

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.peer import Peer
    from shoal.stack import NodeId

MOST: Final = 999
"""Other brokers that are remembered; if there are more, the one heard of first is forgotten."""


class Lives:
    """The latest life of each broker, as one of them has heard."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._recovery = broker.layers.recovery
        self._own = Life(broker.node, broker.me.address, broker.epoch)
        self._began = broker.loop.time()
        self._known: dict[NodeId, tuple[Life, float]] = {}
        """Per other broker its latest life, and when that began."""

    def publishes(self) -> None:
        """This broker is about to publish its first event."""
        self._own = replace(self._own, publishes=True)
        for peer in self._broker.peers.connected.values():
            self._tell(peer, self._own, self._began)

    def end(self) -> None:
        """This broker publishes nothing more, and stops in good order."""
        self._own = replace(self._own, ended=True)
        for peer in self._broker.peers.connected.values():
            self._tell(peer, self._own, self._began)

    def meet(self, peer: Peer) -> None:
        """Another broker is connected: tell it of all that are known."""
        for life, began in self._known.values():
            self._tell(peer, life, began)
        self._tell(peer, self._own, self._began)

    def _tell(self, peer: Peer, life: Life, began: float) -> None:
        if self._recovery is not None:
            peer.tell(replace(life, age=self._broker.loop.time() - began))

    def heard(self, peer: Peer, life: Life) -> None:
        """Another broker tells of one: pass on what is new."""
        if self._is_new(life, peer.node):
            latest, began = self._known[life.node]
            for other in self._broker.peers.connected.values():
                if other is not peer:
                    self._tell(other, latest, began)

    def _is_new(self, life: Life, teller: NodeId) -> bool:
        """Whether something was not known of a broker; if so it is now."""
        before, began = self._known.get(life.node, (None, 0.0))
        recovery = self._recovery
        if recovery is None or life.node in (self._broker.node, LOCAL):
            return False
        contact = Contact(life.node, life.address)
        if before is None or life.epoch > before.epoch:
            began = self._broker.loop.time() - life.age
            recovery.life(contact, life.age, None if before is None else before.ended)
        elif life.epoch == before.epoch:
            publishes, ended = before.publishes or life.publishes, before.ended or life.ended
            life = replace(before, publishes=publishes, ended=ended)
        if before is not None and (life == before or life.epoch < before.epoch):
            return False
        if life.publishes:
            recovery.publisher(contact, teller)
        remember(self._known, life.node, (replace(life, age=0.0), began), MOST)
        return True
