"""A link that was configured: whom it leads to, by turns, and when that is tried again."""

from __future__ import annotations

from shoal.stack.host import LOCAL, NodeId, Timer
from shoal.stack.message import Contact


class Wanted:
    """One configured link. Alternatives stand in its contact's address, after commas."""

    def __init__(self, contact: Contact, first: float, longest: float) -> None:
        addresses = contact.address.split(",")
        self.contacts = [contact]
        if len(addresses) > 1:
            self.contacts = [Contact(LOCAL, address) for address in addresses]
        self.at = 0
        """Which of them is tried, or linked."""
        self.opening = False
        """Whether its connection has been asked for and is not there."""
        self.node: NodeId = LOCAL
        """The node at its other end while they are connected."""
        self.replaces: tuple[NodeId, int] | None = None
        """The neighbour that was lost, and the number of the repair."""
        self.waiting: Timer | None = None
        """Timer of the next attempt."""
        self._first = first
        self._longest = longest
        self._pause = first
        """Seconds until the next attempt, if this one fails."""

    @property
    def contact(self) -> Contact:
        """The contact that is tried, or linked."""
        return self.contacts[self.at]

    def leads_to(self, peer: Contact) -> bool:
        """Whether a node is the one that is tried."""
        address = self.contact.address
        return address == peer.address if address else self.contact.node == peer.node

    def connected(self, node: NodeId) -> None:
        """There is a connection."""
        self.opening = False
        self.node = node
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None

    def linked(self) -> None:
        """The link is made."""
        self.replaces = None
        self._pause = self._first

    def lost(self, node: NodeId, repair: int) -> None:
        """The link is gone, and an alternative is to be tried at once."""
        self.replaces = (node, repair)
        self._pause = 0.0

    def next(self, chance: float) -> float:
        """Turn to the next alternative: the seconds to wait before it is tried."""
        self.node = LOCAL
        self.at = (self.at + 1) % len(self.contacts)
        pause = self._pause * (0.5 + chance)
        self._pause = max(self._first, min(2 * self._pause, self._longest))
        return pause
