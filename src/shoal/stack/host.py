"""``Host``: the only thing a layer sees of the world.

No clock, socket, thread, file or random generator is used below the drivers. The simulator and the
live broker each implement this class; a protocol cannot tell which one it runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from mypy_extensions import mypyc_attr

from shoal.stack.chance import Chance

if TYPE_CHECKING:
    from shoal.content import Content, Event, Filter, FilterTable
    from shoal.content.tables import Matched
    from shoal.stack.message import Contact, Message

NodeId: TypeAlias = int

LOCAL: Final = -1
"""The source of a node's own subscriptions, where a neighbour's id would stand."""
NEVER: Final = -1e9
"""A time before any other."""
UNBOUNDED: Final = 1 << 60


K = TypeVar("K")
V = TypeVar("V")


def remember(known: dict[K, V], key: K, value: V, most: int) -> None:
    """Put an entry last; if there are more than ``most``, forget the first."""
    known.pop(key, None)
    known[key] = value
    if len(known) > most:
        del known[next(iter(known))]


def key_of(contact: Contact) -> Any:
    """What a node is known by: its id or, before it has been met, its address."""
    named: Any = contact
    key = named.node  # as the object that it is: to make another one costs as much as the rest
    node: int = key
    return contact.address if node < 0 else key


@mypyc_attr(allow_interpreted_subclasses=True)
class Timer:
    """A callback to come; ``cancel`` it and it will not."""

    def cancel(self) -> None:
        """Make the callback not happen; harmless if it has."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Host:
    """One node's view of the world. Handlers run one at a time and to their end."""

    def __init__(self, node: NodeId, seed: int) -> None:
        self.node = node
        self.seed = seed
        self.epoch = 0
        """Number of this start of the node; a later start has a larger one."""
        self.neighbour_filters = UNBOUNDED
        """Filters that one neighbour may announce; see :mod:`shoal.routing.allowance`."""
        self.neighbour_filter_bytes = UNBOUNDED
        """Bytes of these filters: their texts or, of those that unfold, their predicates."""
        self.floor = -1
        """A sequence number above those of earlier starts, and below those of this one."""
        self.watched = False
        """Whether ``note`` is listened to; ask before composing a note."""
        self.matched: Callable[[Content], Matched | None] | None = None
        """Tells which filters in the routing's table match, where this host can."""
        self.packed_event: Event | None = None
        """The event that was encoded last, where this host encodes events ..."""
        self.packed = b""
        """... and its encoding, as :meth:`pack` gives it."""

    # Time and chance

    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        raise NotImplementedError

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back once, ``delay`` seconds from now."""
        raise NotImplementedError

    def every(
        self, period: float, callback: Callable[[], None], first: float | None = None
    ) -> Timer:
        """Call back every ``period`` seconds, the first time after ``first`` (or one period).

        A simulation is at rest in spite of such timers; what they begin may end it.
        """
        raise NotImplementedError

    def chance(self, purpose: str) -> Chance:
        """Draws for a purpose; ask with this node's id among the counters."""
        return Chance(self.seed, purpose)

    # Connections and messages

    def contact(self) -> Contact:
        """This node, as others can reach it."""
        raise NotImplementedError

    def open(self, contact: Contact) -> None:
        """Ask for a connection to a node.

        The bottom layers of both ends are told by ``opened``, or this one by ``unreachable``. Two
        nodes have one connection at most; to open one that is there does nothing.
        """
        raise NotImplementedError

    def close(self, node: NodeId) -> None:
        """Close the connection to a node. The other end is told by ``closed``, this one is not.

        What was sent before still arrives; what is on its way to this end is lost.
        """
        raise NotImplementedError

    def send(self, to: NodeId, message: Message) -> None:
        """Send over the connection to a node: in order, and lost if it breaks on the way."""
        raise NotImplementedError

    def send_all(self, to: tuple[NodeId, ...], message: Message, but: NodeId = LOCAL) -> None:
        """Send the same message to several neighbours, in this order, leaving one out."""
        for neighbour in to:
            if neighbour != but:
                self.send(neighbour, message)

    def broadcast(self, message: Message) -> None:
        """Send one radio frame that every neighbour in range can hear."""
        raise NotImplementedError

    def heard(self, node: NodeId) -> float:
        """When the other end of a connection last gave a sign of life (``now`` of that moment).

        The moment the connection was made, if there was none since; NEVER without a connection.
        On the air any frame of a node is such a sign.
        """
        raise NotImplementedError

    def heard_all(self, nodes: tuple[NodeId, ...]) -> float:
        """When the node of these that has been silent longest gave its last sign of life."""
        return min([self.heard(node) for node in nodes], default=self.now())

    def last_beat(self, node: NodeId) -> Any:
        """The last heartbeat that came over the connection to a node; None if none has."""
        raise NotImplementedError

    def send_direct(self, to: Contact, message: Message) -> None:
        """Send out of band to a node, connected or not; lost if it cannot be reached."""
        raise NotImplementedError

    def hold(self, node: NodeId) -> None:
        """Keep the events for a node that is about to be away, until ``release``.

        A host that cannot keep them loses them, as it would without a connection.
        """

    def release(self, node: NodeId) -> None:
        """Send what was kept for a node, or lose it if there is no connection."""

    # The application, and whoever watches

    def deliver(self, event: Event, hops: int, recovered: bool = False) -> None:
        """Hand an event to the application; ``recovered`` if the routing had not brought it."""
        raise NotImplementedError

    def gap(self, publisher: NodeId, count: int, filter: Filter | None = None) -> None:
        """Tell the application that so many events of a publisher will not come.

        A count of 0 means an unknown number: perhaps none.
        ``filter`` is the one of its filters that they match, where that is known.
        """

    def stopped(self, event: Event, why: str, hops: int, deterministic: int) -> None:
        """Say that a copy of an event goes no further, and how far it came by what kind of hop."""

    def link_changed(self, neighbour: NodeId, up: bool, repair: int) -> None:
        """Say that the overlay has made or given up a link, for a repair or (-1) for none."""

    def parent_changed(self, parent: NodeId) -> None:
        """Say which neighbour the overlay has towards the root (LOCAL: none)."""

    def note(self, what: str, peer: NodeId, value: str) -> None:
        """Tell whoever watches that something happened inside the protocol.

        A ``warning`` is for the operator, too; it need not be watched for.
        """

    def pack(self, event: Event) -> Event | bytes:
        """An event as a recovery keeps it: itself, or encoded (``packed``, if it is there)."""
        return event

    def routes(self, filter: Filter) -> bool:
        """Whether a filter is in the table that ``matched`` is about."""
        return False

    def table(self, filter: Filter) -> FilterTable:
        """A new table for filters of this kind; a host may know a better one than the filter."""
        return filter.table()
