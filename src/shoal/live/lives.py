"""Lives: which brokers there are and were, so that the death of one is known to all others.

An event that only its broker held is lost with it, and no number is left that would show it. So
every broker with a recovery knows the others and their epochs before they publish: it tells each
new neighbour of all brokers that it has heard of, itself included, and passes on what is new to it.
A broker that comes back under another epoch, without having said that it stops, may have lost
events of its earlier life.

Epochs are taken from clocks, and a clock may be set back. A broker that hears of a life of its own
with a later epoch therefore begins anew, after the end of that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.structs import replace

from shoal.live.messages import LAST_EPOCH, Life
from shoal.stack import Contact
from shoal.stack.host import LOCAL

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.peer import Peer
    from shoal.stack import NodeId

MOST: Final = 999
"""Most other brokers remembered; for one more, the first that is known by hearsay is forgotten."""
ANEW: Final = 10.0
"""Seconds after which a broker may begin anew again: two of one name would outbid each other."""


class Known(NamedTuple):
    """The latest life of a broker."""

    life: Life
    began: float
    met: bool
    """Whether the broker itself was connected; if not, it is known by hearsay."""


class Lives:
    """The latest life of each broker, as one of them has heard."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._recovery = broker.layers.recovery
        self._own = Life(broker.node, broker.me.address, broker.epoch)
        self._began = broker.loop.time()
        self._known: dict[NodeId, Known] = {}
        self._anew = -ANEW
        """When this broker last began anew."""

    def publishes(self) -> None:
        """This broker is about to publish its first event."""
        self._announce(replace(self._own, publishes=True))

    def end(self) -> None:
        """This broker publishes nothing more, and stops in good order."""
        self._announce(replace(self._own, ended=True))

    def _announce(self, own: Life) -> None:
        """Tell all neighbours of this broker's life, which has changed."""
        self._own = own
        for peer in self._broker.peers.connected.values():
            self._tell(peer, own, self._began)

    def meet(self, peer: Peer) -> None:
        """Another broker is connected: tell it of all that are known."""
        for known in self._known.values():
            self._tell(peer, known.life, known.began)
        self._tell(peer, self._own, self._began)

    def _tell(self, peer: Peer, life: Life, began: float) -> None:
        if self._recovery is not None:
            peer.send_own(replace(life, age=self._broker.loop.time() - began))

    def heard(self, peer: Peer, life: Life) -> None:
        """Another broker tells of one: pass on what is new."""
        if life.node == self._broker.node:
            self._outlive(life)
        elif self._is_new(life, peer.node):
            latest = self._known[life.node]
            for other in self._broker.peers.connected.values():
                if other is not peer:
                    self._tell(other, latest.life, latest.began)

    def _outlive(self, other: Life) -> None:
        """Begin after a life of this broker's name that seems to be later than this one."""
        own, now = self._own, self._broker.loop.time()
        ended = max(_end(other.epoch, other.age), _end(own.epoch, now - self._began))
        if own.epoch < other.epoch and ended < LAST_EPOCH and now >= self._anew + ANEW:
            self._anew = now
            self._broker.begin_life(ended + 1)
            self._announce(replace(own, epoch=ended + 1))

    def _is_new(self, told: Life, teller: NodeId) -> bool:
        """Whether something was not known of a broker; if so it is now."""
        recovery, node = self._recovery, told.node
        known = self._known.get(node)
        if recovery is None or node == LOCAL or (known and told.epoch < known.life.epoch):
            return False
        contact, met = Contact(node, told.address), teller == node or bool(known and known.met)
        began = self._broker.loop.time() - told.age
        if known is None or told.epoch > known.life.epoch:
            died = told.after_death or (known is not None and not known.life.ended)
            life = replace(told, age=0.0, after_death=died)
            recovery.life(contact, told.age, None if known is None and not died else not died)
        else:
            before, began = known.life, known.began
            life = replace(
                before,
                publishes=before.publishes or told.publishes,
                ended=before.ended or told.ended,
                after_death=before.after_death or told.after_death,
            )
            if life.after_death > before.after_death:
                recovery.life(contact, told.age, False)
            if life == before:
                self._known[node] = known._replace(met=met)
                return False
        if life.publishes:
            recovery.publisher(contact, teller)
        self._known.pop(node, None)
        self._known[node] = Known(life, began, met)
        if len(self._known) > MOST:
            hearsay = (other for other, known in self._known.items() if not known.met)
            del self._known[next(hearsay, next(iter(self._known)))]
        return node in self._known


def _end(epoch: int, age: float) -> int:
    """Epoch at which a life that began so many seconds ago is now."""
    return epoch + int(1000 * min(age, LAST_EPOCH))
