"""``Host``: the only thing a layer sees of the world.

No clock, socket, thread, file or random generator is used below the drivers. The simulator and the
live broker each implement this class; a protocol cannot tell which one it runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from mypy_extensions import mypyc_attr

from shoal.stack.chance import Chance

if TYPE_CHECKING:
    from shoal.content import Event, Filter, FilterTable
    from shoal.stack.message import Message

NodeId: TypeAlias = int

LOCAL: Final = -1
"""The source of a node's own subscriptions, where a neighbour's id would stand."""


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
        self.watched = False
        """Whether ``note`` is listened to; ask before composing a note."""

    def now(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        raise NotImplementedError

    def send(self, to: NodeId, message: Message) -> None:
        """Send over the link to a neighbour: FIFO, and lost if the link goes down on the way."""
        raise NotImplementedError

    def send_all(self, to: tuple[NodeId, ...], message: Message, but: NodeId = LOCAL) -> None:
        """Send the same message to several neighbours, in this order, leaving one out."""
        for neighbour in to:
            if neighbour != but:
                self.send(neighbour, message)

    def broadcast(self, to: tuple[NodeId, ...], message: Message) -> None:
        """Transmit once to all these neighbours, who are all there are, where that is possible."""
        self.send_all(to, message)

    def send_direct(self, to: NodeId, message: Message) -> None:
        """Send out of band to any node whose address is known, neighbour or not."""
        raise NotImplementedError

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back once, ``delay`` seconds from now."""
        raise NotImplementedError

    def in_background(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back once, as ``after``; but a simulation does not go on only for that."""
        return self.after(delay, callback)

    def deliver(self, event: Event, hops: int) -> None:
        """Hand an event to the application."""
        raise NotImplementedError

    def stopped(self, event: Event, why: str, hops: int, deterministic: int) -> None:
        """Say that a copy of an event goes no further, and how far it came by what kind of hop."""

    def note(self, what: str, peer: NodeId, value: str) -> None:
        """Tell whoever watches that something happened inside the protocol."""

    def table(self, filter: Filter) -> FilterTable:
        """A new table for filters of this kind; a host may know a better one than the filter."""
        return filter.table()

    def chance(self, purpose: str) -> Chance:
        """Draws for a purpose; ask with this node's id among the counters."""
        return Chance(self.seed, purpose)
