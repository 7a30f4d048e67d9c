"""Messages out of band: to brokers that are not connected, over connections that soon end."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from shoal.live.dialling import dial
from shoal.live.errors import LiveError, RefusedError
from shoal.live.peers import SELF, crowding

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.peer import Peer
    from shoal.stack import Contact, Message, NodeId

log = logging.getLogger("shoal.live")
UNSENT: Final = 1024
"""Messages that wait for one broker to answer; more are lost, as if it did not."""
DIALLED: Final = 64
"""Brokers that are dialled at a time to be sent something out of band."""
OPEN = 256
"""Most connections out of band that a broker has dialled, and most that others have; for one more
another is closed: see :func:`~shoal.live.peers.crowding`."""


class OutOfBand:
    """One connection at most in each direction to a broker that is not connected otherwise."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._peers: dict[tuple[NodeId, bool], Peer] = {}
        """Connections by node, and by whether this end dialled; the latest used last."""
        self._unsent: dict[str, list[Message]] = {}
        """Messages to be sent per address that is being dialled."""

    def __len__(self) -> int:
        return len(self._peers)

    def peers(self) -> list[Peer]:
        """Peers connected at the moment."""
        return list(self._peers.values())

    def began(self, peer: Peer) -> None:
        """A connection is there; an older one to the same broker in this direction is closed."""
        key = (peer.node, peer.dialled)
        before = self._peers.get(key)
        self._peers[key] = peer
        if before is not None:
            before.connection.close("a newer connection takes over")
        alike = [p for p in self._peers.values() if p.dialled == peer.dialled and not p.ending]
        if len(alike) > OPEN:
            crowding(alike).connection.close("unused the longest of too many connections")

    def ended(self, peer: Peer) -> None:
        """A connection is gone."""
        key = (peer.node, peer.dialled)
        if self._peers.get(key) is peer:
            del self._peers[key]

    def send(self, to: Contact, message: Message) -> None:
        """Send a message, over a new connection if there is none."""
        peer = self._used(to.node, True) or self._used(to.node, False)
        address = self._broker.peers.address_of(to)
        if peer is not None:
            peer.send(message)
        elif not address:
            log.warning("no address is known of node %d; a message to it is lost", to.node)
        elif address in self._unsent:
            if len(self._unsent[address]) < UNSENT:
                self._unsent[address].append(message)
        elif address in self._broker.peers.own:
            self._broker.peers.log_failure(address, RefusedError("self", SELF))
        elif len(self._unsent) < DIALLED:
            self._unsent[address] = [message]
            self._broker.spawn(self._dial(to.node, address))

    def _used(self, node: NodeId, dialled: bool) -> Peer | None:
        """The connection to a node, if there is one, as the latest used."""
        peer = self._peers.pop((node, dialled), None)
        if peer is not None:
            self._peers[node, dialled] = peer
        return peer

    async def _dial(self, node: NodeId, address: str) -> None:
        expect = None if node < 0 else node
        try:
            peer = await dial(self._broker, address, "talk", expect=expect)
        except LiveError as error:
            log.info("a message to %s is lost: %s", address, error)
            self._broker.peers.log_failure(address, error)
        else:
            self._broker.peers.reached(address)
            for message in self._unsent[address]:
                peer.send(message)
        finally:
            del self._unsent[address]
