"""Holding: with ``held=n``, an event is acknowledged once n nodes keep it.

A publisher asks neighbours, then other nodes whose address it knows, to keep a copy; each one that
does confirms it. A node accepts such a copy from its publisher only. The copy lies in the common
buffer and leaves it like any other event. The node delivers it if its own application wants it;
other nodes that lack the event find it there by comparing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal.recovery.counting import Counting
from shoal.recovery.messages import Held, Hold
from shoal.stack import Host, Message, NodeId, Routing

if TYPE_CHECKING:
    from shoal.content import Event, EventId
    from shoal.recovery.parameters import RecoveryParameters
    from shoal.stack.layer import Handler

HOLDING = 5.0
"""Seconds after which the publisher stops asking, and reports how many nodes keep the event."""


class Securing:
    """An event that others are asked to keep."""

    def __init__(self, event: Event, nodes: int, now: float, done: Callable[[int], None]) -> None:
        self.event = event
        self.nodes = nodes
        """How many nodes are to keep it, this one included."""
        self.began = now
        self.done = done
        self.last = now
        """When somebody was last asked."""
        self.asked: dict[NodeId, None] = {}
        self.held: dict[NodeId, None] = {}
        """Nodes that confirmed that they keep it."""


class Holding(Counting):
    """Asks others to keep own events, and keeps theirs."""

    def __init__(self, host: Host, parameters: RecoveryParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self._securing: dict[EventId, Securing] = {}

    def handlers(self) -> dict[type[Message], Handler]:
        """Adds Hold and Held."""
        handlers = super().handlers()
        handlers[Hold] = self.on_hold
        handlers[Held] = self.on_held
        return handlers

    def secure(self, event: Event, nodes: int, done: Callable[[int], None]) -> None:
        kept = self.buffer.get(event.id)
        if nodes <= 1 or kept is None:
            done(0 if kept is None else 1)
            return
        now = self.host.now()
        securing = Securing(kept.event, nodes, now, done)
        self._securing[event.id] = securing
        self._ask(securing, now)
        self.wake()
        if self.parameters.period > self.parameters.retry:  # too seldom to answer in time
            self.host.after(HOLDING, self._time_is_up)

    def _time_is_up(self) -> None:
        self.ask_others_to_hold(self.host.now())

    def _ask(self, securing: Securing, now: float) -> None:
        """Ask as many nodes as still lack; neighbours first."""
        securing.last = now
        lacking = securing.nodes - self._holders(securing)
        for node in (*self.routing.linked(), *self._contacts):
            if lacking and node != self.host.node and node not in securing.asked:
                securing.asked[node] = None
                lacking -= 1
                age = max(now - securing.began, 0.0)
                self.host.send_direct(self.contact_of(node), Hold(securing.event, age))

    def _holders(self, securing: Securing) -> int:
        """How many nodes keep an event: this one may have had to make room for others by now."""
        return len(securing.held) + (securing.event.id in self.buffer)

    def on_hold(self, sender: NodeId, message: Hold) -> None:
        """A publisher asks to keep one of its events."""
        event = message.event
        if event.publisher == sender:
            self.keep(event, self.host.now() - message.age)
            if event.id in self.buffer:
                self.host.send_direct(self.contact_of(sender), Held(event.sequence))
            if event.id not in self.delivered and self.interests.matching(event):
                self.recover(event, message.age, sender)  # the publisher may not live to route it

    def on_held(self, sender: NodeId, message: Held) -> None:
        """Somebody keeps one of this node's events."""
        key = (self.host.node, message.sequence)
        securing = self._securing.get(key)
        if securing is not None and sender in securing.asked and sender not in securing.held:
            securing.held[sender] = None
            self.buffer.elsewhere(key)
            holders = self._holders(securing)
            if holders >= securing.nodes:
                del self._securing[key]
                securing.done(holders)

    def ask_others_to_hold(self, now: float) -> None:
        """Ask further nodes where some did not answer, and give up in the end."""
        for key, securing in list(self._securing.items()):
            if securing.began + HOLDING <= now:
                del self._securing[key]
                securing.done(self._holders(securing))
            elif securing.last + self.parameters.retry <= now:
                self._ask(securing, now)
