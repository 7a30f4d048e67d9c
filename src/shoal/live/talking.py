"""Messages out of band: to brokers that are no neighbours, over connections that soon end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from shoal.live.errors import LiveError

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.peer import Peer
    from shoal.stack import Message, NodeId

log = logging.getLogger("shoal.live")
UNSAID: Final = 1024
"""Messages that wait for one broker to answer; more are lost, as if it did not."""


class Talks:
    """One connection at most in each direction to a broker that is no neighbour."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._peers: dict[tuple[NodeId, bool], Peer] = {}
        """By node, and by whether this end dialled."""
        self._unsaid: dict[NodeId, list[Message]] = {}
        """What to say to brokers that are being dialled."""

    def __len__(self) -> int:
        return len(self._peers)

    def peers(self) -> list[Peer]:
        """Who is connected just now."""
        return list(self._peers.values())

    def began(self, peer: Peer) -> None:
        """A connection is there. An older one to the same broker is closed, or nobody would."""
        key = (peer.node, peer.dialled)
        before = self._peers.get(key)
        self._peers[key] = peer
        if before is not None:
            before.connection.close("a newer connection takes over")

    def ended(self, peer: Peer) -> None:
        """A connection is gone."""
        key = (peer.node, peer.dialled)
        if self._peers.get(key) is peer:
            del self._peers[key]

    def say(self, to: NodeId, message: Message) -> None:
        """Send a message, over a new connection if there is none."""
        peer = self._peers.get((to, True)) or self._peers.get((to, False))
        if peer is not None:
            peer.send(message)
        elif to not in self._unsaid:
            self._unsaid[to] = [message]
            self._broker.spawn(self._dial(to))
        elif len(self._unsaid[to]) < UNSAID:
            self._unsaid[to].append(message)

    async def _dial(self, to: NodeId) -> None:
        membership = self._broker.membership
        try:
            contact = membership.view.get(to) or membership.lost.get(to)
            if contact is None:
                log.warning("no address is known of node %d; a message to it is lost", to)
                return
            try:
                peer = await self._broker.greeter.dial(contact.known.address, "talk", expect=to)
            except LiveError as error:
                log.warning("a message to '%s' is lost: %s", contact.known.name, error)
            else:
                for message in self._unsaid[to]:
                    peer.send(message)
        finally:
            del self._unsaid[to]
