"""Connections to other brokers, as the node's bottom layer asks for them.

There is at most one to each broker. If two brokers dial each other at the same time, the one with
the lower node id refuses the other's connection, and the other one waits for the connection.

A connection is closed by sending :class:`~shoal.live.messages.Bye`. This end then still handles
events on their way, until the other end closes as well, behind all that it had to send. So a link
that is given up loses no event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from shoal.live.dialling import NoLinkError, dial
from shoal.live.errors import FATAL, LiveError, RefusedError
from shoal.live.messages import Bye
from shoal.stack import Contact, NodeId
from shoal.stack.host import remember

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.messages import Known
    from shoal.live.peer import Peer

log = logging.getLogger("shoal.live")
MET: Final = 4096
"""Brokers whose addresses are remembered."""
POLL: Final = 0.02
SELF: Final = "that is this broker itself; give --join another one"


def crowding(peers: Iterable[Peer]) -> Peer:
    """The connection to close in favour of a new one: the first to the host with most of them.

    Node ids are made up easily, hosts less so: a host that opens many connections loses its own.
    """
    by_host: dict[str, list[Peer]] = {}
    for peer in peers:
        by_host.setdefault(peer.connection.remote.rpartition(":")[0], []).append(peer)
    return max(by_host.values(), key=len)[0]


class _Dial:
    """An attempt to connect to an address, and the contacts that were asked for there."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.contacts: list[Contact] = []
        self.task: asyncio.Task[None] | None = None


class Peers:
    """The connections of one broker to others."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.connected: dict[NodeId, Peer] = {}
        self.own: set[str] = set()
        """This broker's own addresses."""
        self.addresses: dict[NodeId, str] = {}
        """Address per broker that was met."""
        self._dialling: dict[str, _Dial] = {}
        """Attempts to connect, per address."""
        self._closing: set[Peer] = set()
        """Connections that this end has closed, and the other end not yet."""
        self._logged: dict[str, str] = {}
        """Last logged reason for having no connection, per address."""

    # Opening

    def open(self, contact: Contact) -> None:
        """Open a connection to a broker, unless there is one; tell the bottom layer the outcome."""
        if contact.node in self.connected:
            return
        address = self.address_of(contact)
        attempt = self._dialling.get(address)
        if attempt is None:
            attempt = self._dialling[address] = _Dial(address)
            attempt.task = self._broker.spawn(self._dial(attempt))
        if contact not in attempt.contacts:
            attempt.contacts.append(contact)

    def address_of(self, contact: Contact) -> str:
        """Address of a node: the contact's or, if it has none, that at which it was met."""
        return contact.address or self.addresses.get(contact.node, "")

    def find(self, contact: Contact) -> Peer | None:
        """The connection to a node, if there is one."""
        if contact.node >= 0:
            return self.connected.get(contact.node)
        at = (peer for peer in self.connected.values() if peer.who.address == contact.address)
        return next(at, None)

    async def _dial(self, attempt: _Dial) -> None:
        """Connect to a broker, and report to the node what became of each contact."""
        connected: NodeId | None = None
        failed = False
        try:
            connected = await self._connect(attempt)
        except LiveError as error:
            failed = True
            self.log_failure(attempt.address, error)
        finally:
            if self._dialling.get(attempt.address) is attempt:
                del self._dialling[attempt.address]
        for contact in attempt.contacts:
            peer = self.find(contact)
            if failed and peer is None:
                self._broker.layers.unreachable(contact)
                self._broker.departures.look_whole()
            elif contact.node < 0 and (failed or connected is not None):
                node = connected if peer is None else peer.node
                assert node is not None
                self._broker.layers.opened(Contact(node, contact.address))

    async def _connect(self, attempt: _Dial) -> NodeId | None:
        """Connect to a broker; return its node id if it was connected already, else None."""
        await asyncio.sleep(0)  # others may ask for the same address in this turn
        if not attempt.address:
            raise LiveError(f"no address is known of node {attempt.contacts[0].node}")
        if attempt.address in self.own:
            raise RefusedError("self", SELF)
        peer = self.find(Contact(-1, attempt.address))
        if peer is not None:
            return peer.node
        expected = next((contact.node for contact in attempt.contacts if contact.node >= 0), None)
        try:
            await dial(self._broker, attempt.address, expect=expected)
        except NoLinkError as error:
            if error.code == "self":
                self.own.add(attempt.address)
            if error.code != "duplicate" or not error.others:
                raise
            node = error.others[0].node
            await self._await_dialled(node)
            if node in self.connected:
                return node
            raise
        return None

    async def _await_dialled(self, node: NodeId) -> None:
        """Wait for the connection from a broker that refused this one's, as it dials itself."""
        ends = self._broker.loop.time() + self._broker.settings.limits.handshake
        while node not in self.connected and self._broker.loop.time() < ends:
            await asyncio.sleep(POLL)

    def gives_way(self, who: Known) -> bool:
        """Whether a broker may dial this one; if so, this one stops dialling it."""
        for address, attempt in self._dialling.items():
            if address == who.address or any(c.node == who.node for c in attempt.contacts):
                if self._broker.node < who.node:
                    return False
                if attempt.task is not None:
                    attempt.task.cancel()
                del self._dialling[address]
                for contact in attempt.contacts:  # asked for at another address: dial that anew
                    if contact.node < 0 and address != who.address:
                        self._broker.loop.call_soon(self.open, contact)
                return True
        return True

    def log_failure(self, address: str, error: LiveError) -> None:
        """Log why there is no connection to a broker, once per reason."""
        code = error.code if isinstance(error, RefusedError) else ""
        text = str(error) if address in str(error) else f"{address}: {error}"
        contacts = self._broker.settings.contacts()
        # All brokers may be given one list, themselves included; a list of only itself is wrong.
        configured = address in contacts and (code != "self" or len(contacts) == 1)
        if (configured or code in FATAL) and self._logged.get(address) != text:
            remember(self._logged, address, text, MET)
            log.warning("no link: %s; trying on", text)
        else:
            log.debug("no link: %s", text)

    def reached(self, address: str) -> None:
        """A broker answers: its next failure is logged again."""
        self._logged.pop(address, None)

    def opened(self, peer: Peer, address: str) -> None:
        """A connection is there; this end dialled it under an address, or was dialled."""
        node = peer.node
        self.connected[node] = peer
        remember(self.addresses, node, peer.who.address, MET)
        self.reached(address)
        log.info("connected to '%s' (%s)", peer.who.name, peer.connection.remote)
        if self._broker.layers.overlay is None:
            self._broker.links[node] = peer
        self._broker.lives.meet(peer)
        self._broker.layers.opened(Contact(node, address))

    def make_room(self, most: int) -> bool:
        """Whether there is room for one more of ``most`` connections; one without a link may go."""
        staying = [peer for peer in self.connected.values() if not peer.ending]
        if len(staying) >= most:
            idle = [peer for peer in staying if peer.node not in self._broker.links]
            if not idle:
                return False
            crowding(idle).connection.close("too many connections that are no links")
        return True

    # Closing

    def close(self, node: NodeId) -> None:
        """Close the connection to a broker, with a goodbye behind what was sent before."""
        peer = self.connected.pop(node, None)
        if peer is not None:
            self._forget(peer)
            peer.closing = True
            self._closing.add(peer)
            peer.send_own(Bye("it closes the connection"))
            patience = self._broker.settings.limits.handshake
            self._broker.loop.call_later(patience, _time_out, peer)

    def closed(self, peer: Peer, reason: str) -> None:
        """A connection is gone."""
        self._closing.discard(peer)
        if self.connected.get(peer.node) is not peer:
            return
        del self.connected[peer.node]
        self._forget(peer)
        log.info("the connection to '%s' is gone: %s", peer.who.name, reason)
        if not self._broker.host.closed:
            self._broker.layers.closed(peer.node)

    def closing(self) -> int:
        """Number of connections that this end has closed, and the other end not yet."""
        return len(self._closing)

    def _forget(self, peer: Peer) -> None:
        self._broker.links.pop(peer.node, None)
        self._broker.unsent += peer.dropped


def _time_out(peer: Peer) -> None:
    peer.connection.close("its last words took too long", polite=False)
