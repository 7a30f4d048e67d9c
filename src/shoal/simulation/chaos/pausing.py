"""Nodes that can be stopped for a while, as a process is that gets no processor time.

What happens to such a node meanwhile (messages, connections, timers, wishes of its application)
happens to it once it goes on, in the same order. Others may well have taken it for dead by then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from shoal.stack import Host, Layer, Node, NodeId, Timer

if TYPE_CHECKING:
    from shoal.stack.registry import Stack


class Gate:
    """What a stopped node will have to do."""

    def __init__(self) -> None:
        self.paused = False
        self.dead = False
        """Whether the node will never go on."""
        self._held: list[Callable[[], None]] = []

    def do(self, act: Callable[[], None]) -> None:
        """Now, or once the node goes on."""
        if self.paused:
            self._held.append(act)
        elif not self.dead:
            act()

    def resume(self) -> None:
        """Go on."""
        self.paused = False
        held, self._held = self._held, []
        for act in held:
            self.do(act)


class PausableTimer(Timer):
    """A timer that waits for its node; one that repeats is late once, not many times."""

    def __init__(self, gate: Gate, callback: Callable[[], None]) -> None:
        self.gate = gate
        self.callback: Callable[[], None] | None = callback
        self.timer: Timer | None = None
        self._late = False

    def cancel(self) -> None:
        self.callback = None
        if self.timer is not None:
            self.timer.cancel()

    def fire(self) -> None:
        """Call back, if the node runs."""
        if not self._late:
            self._late = self.gate.paused
            self.gate.do(self._call)

    def _call(self) -> None:
        self._late = False
        if self.callback is not None:
            self.callback()


class PausableHost(Host):
    """The simulated host, with timers that wait."""

    def __init__(self, real: Host, gate: Gate) -> None:
        super().__init__(real.node, real.seed)
        self.epoch = real.epoch
        self.watched = real.watched
        self.real = real
        self.gate = gate

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        timer = PausableTimer(self.gate, callback)
        timer.timer = self.real.after(delay, timer.fire)
        return timer

    def every(
        self, period: float, callback: Callable[[], None], first: float | None = None
    ) -> Timer:
        timer = PausableTimer(self.gate, callback)
        timer.timer = self.real.every(period, timer.fire, first)
        return timer


class PausableLayer(Layer):
    """Hands a layer its messages, when its node runs."""

    def __init__(self, layer: Layer, gate: Gate) -> None:
        super().__init__(layer.host)
        self.layer = layer
        self.gate = gate

    def receive(self, sender: NodeId, message: Any) -> None:
        self.gate.do(partial(self.layer.receive, sender, message))

    def undelivered(self, to: NodeId, message: Any) -> None:
        self.gate.do(partial(self.layer.undelivered, to, message))


class PausableNode(Node):
    """A node that can be stopped for a while."""

    def __init__(self, stack: Stack, host: Host) -> None:
        self.gate = Gate()
        made = stack.on(PausableHost(host, self.gate))
        super().__init__(made.host, made.overlay, made.routing, made.recovery)
        self.layers = tuple([PausableLayer(layer, self.gate) for layer in self.layers])


def _asks_real(name: str) -> Callable[..., Any]:
    """A method that does what the simulated host's does."""
    return lambda self, *arguments: getattr(self.real, name)(*arguments)


def _waits(name: str) -> Callable[..., None]:
    """A method that does what the node's does, when the node runs."""
    return lambda self, *arguments: self.gate.do(
        partial(getattr(super(PausableNode, self), name), *arguments)
    )


for _name in (
    *("now", "contact", "open", "close", "send", "send_all", "broadcast", "send_direct"),
    *("heard", "last_beat"),
    *("deliver", "gap", "stopped", "link_changed", "parent_changed", "note"),
):
    setattr(PausableHost, _name, _asks_real(_name))
for _name in (
    *("opened", "closed", "unreachable"),
    *("publish", "subscribe", "unsubscribe", "advertise", "unadvertise"),
):
    setattr(PausableNode, _name, _waits(_name))
