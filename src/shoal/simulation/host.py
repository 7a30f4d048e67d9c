"""The simulated host: what a node of a simulated network sees of the world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from shoal.simulation.channels import KEPT, NONE, ROUTINE, Channel, Direct, Fan
from shoal.simulation.kernel import NANOSECONDS, Clock
from shoal.stack.chance import Chance
from shoal.stack.host import LOCAL, NEVER, Host, NodeId, Timer
from shoal.stack.message import Contact, Message

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.simulation.network import Network
    from shoal.simulation.recorder import Kind


FANS_KEPT: Final = 64
"""Sets of neighbours remembered per node; nodes with few neighbours have few."""


class SimHost(Host):
    """A node in simulated time."""

    def __init__(self, network: Network, node: NodeId, seed: int) -> None:
        super().__init__(node, seed)
        self.network = network
        self.kernel = network.kernel
        self.recorder = network.recorder
        self.out_of_band: Direct | None = None
        """The way out of band; None while no node runs here."""
        self.me = Contact(node)
        self.clock = Clock(network.kernel)
        self.channels: dict[NodeId, Channel] = {}
        """Per connection the channel from here to the other end."""
        self.fans: dict[tuple[NodeId, ...], Fan] = {}
        """The channels to several neighbours, as asked for since the links last changed."""
        self._last_to: tuple[NodeId, ...] | None = None
        self._last_fan: Fan | None = None
        self.reached_by: list[Channel] = []
        """The ways by radio to this node."""
        self._frame: Message | None = None
        self._framed_at = -1
        """The latest message by radio, and when it was sent."""
        self.published = -1
        """Sequence number of the last event that this node's application published."""
        self.busy_until = 0
        """When the last channel will have put its last message on the wire."""

    # Time

    def now(self) -> float:
        return self.kernel.now / NANOSECONDS

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        return self.clock.after(delay, callback)

    def every(
        self, period: float, callback: Callable[[], None], first: float | None = None
    ) -> Timer:
        return self.clock.every(period, callback, period if first is None else first)

    # Connections and messages

    def contact(self) -> Contact:
        return self.me

    def open(self, contact: Contact) -> None:
        self.network.connections_of(self).open(self.node, contact.node)

    def close(self, node: NodeId) -> None:
        self.network.connections_of(self).close(self.node, node)

    def send(self, to: NodeId, message: Message) -> None:
        channel = self.channels.get(to)
        if channel is None:
            self.recorder.unlinked += 1
            return
        copies = 1
        if self.network.radio:
            if message is self._frame and self.kernel.now == self._framed_at:
                copies = 0  # in range of the same transmission
            self._frame = message
            self._framed_at = self.kernel.now
        kind = self.recorder.sent(channel.alone(), NONE, copies, message)
        self._transmit(channel, message, kind)

    def send_all(self, to: tuple[NodeId, ...], message: Message, but: NodeId = LOCAL) -> None:
        fan = self._last_fan
        if fan is None or to is not self._last_to:  # mostly the same again: no need to hash it
            fan = self.fans.get(to) or self._fan(to)
            self._last_to = to
            self._last_fan = fan
        skip = NONE
        if but != LOCAL:
            skip = (fan.places or fan.locate()).get(but, NONE)
        copies = fan.size if skip < 0 else fan.size - 1
        if fan.missing:
            self.recorder.unlinked += fan.missing
        if not copies:
            return
        kind = self.recorder.sent(fan, skip, copies, message)
        network = self.network
        at = self.kernel.now
        if skip < 0:
            skip = kind.skip
        if not (network.uneven or network.ns_per_byte or kind.kept):
            self.kernel.post(at + network.delay, fan, skip, message)
            return
        if network.uneven or self.busy_until > at or (kind.kept and skip != KEPT):
            for place, channel in enumerate(fan.channels):  # lost, or leaving at different times
                if place != skip:
                    self._transmit(channel, message, kind)
            return
        if network.ns_per_byte:
            size = kind.size if kind.sized else message.size()
            at += int(size * network.ns_per_byte)
            for place, channel in enumerate(fan.channels):
                if place != skip:
                    channel.free_at = at
            self.busy_until = at
        if kind.kept and not fan.carries:
            fan.carry()
        self.kernel.post(at + network.delay, fan, skip, message)

    def broadcast(self, message: Message) -> None:
        """Send one frame to all nodes in range; it counts as one message."""
        connections = self.network.connections
        audience = None if connections is None else connections.audience(self.node)
        if audience is not None:
            if audience.size and not self.clock.stopped:
                skip = max(self.recorder.sent(audience, NONE, 1, message).skip, ROUTINE)
                self.kernel.post(self.kernel.now + self.network.delay, audience, skip, message)
            return
        to = tuple(self.channels)
        fan = self.fans.get(to) or self._fan(to)
        if not fan.size:
            return
        kind = self.recorder.sent(fan, NONE, 1, message)
        for channel in fan.channels:
            if channel.quality < 1.0 and kind.carries_events and self._loses(channel, message):
                self.kernel.lost += 1
            else:
                self._post(self.kernel.now + channel.delay, channel, message, kind)

    def _fan(self, to: tuple[NodeId, ...]) -> Fan:
        """The channels to these neighbours; those that are not linked are left out."""
        channels: list[Channel] = []
        for node in to:
            channel = self.channels.get(node)
            if channel is not None:
                channels.append(channel)
        fan = Fan(channels)
        fan.missing = len(to) - len(channels)
        if len(self.fans) >= FANS_KEPT:
            self.drop_fans()
        self.fans[to] = fan
        return fan

    def _transmit(self, channel: Channel, message: Message, kind: Kind) -> None:
        """Send over one channel, behind what it is still busy with."""
        at = self.kernel.now
        if channel.ns_per_byte:
            size = kind.size if kind.sized else message.size()
            duration = int(size * channel.ns_per_byte)
            plane = self.network.plane
            if plane is not None:
                at = plane.transmit(channel, duration)
            else:
                if channel.free_at > at:
                    at = channel.free_at
                at += duration
                channel.free_at = at
                if at > self.busy_until:
                    self.busy_until = at
        if channel.quality < 1.0 and kind.carries_events and self._loses(channel, message):
            self.kernel.lost += 1
            return
        self._post(at + channel.delay, channel, message, kind)

    def _post(self, at: int, channel: Channel, message: Message, kind: Kind) -> None:
        fan = channel.alone()
        if kind.kept and not fan.carries:
            fan.carry()
        self.kernel.post(at, fan, kind.skip, message)

    def _loses(self, channel: Channel, message: Message) -> bool:
        """Whether a link of poor quality loses this message. Only events are lost for good."""
        events = message.events()
        if not events:
            return False
        event = events[0]
        uniform = Chance(self.seed, "losses").uniform(
            event.publisher, event.sequence, channel.source, channel.target
        )
        return uniform >= channel.quality

    def heard(self, node: NodeId) -> float:
        channel = self.channels.get(node)
        back = None if channel is None else channel.back
        return NEVER if back is None else back.last_heard() / NANOSECONDS

    def heard_all(self, nodes: tuple[NodeId, ...]) -> float:
        fan = self._last_fan
        if fan is None or fan.missing or nodes is not self._last_to:
            return super().heard_all(nodes)
        oldest = self.kernel.now
        for channel in fan.channels:
            back = channel.back
            if back is None:
                return NEVER
            oldest = min(oldest, back.last_heard())
        return oldest / NANOSECONDS

    def last_beat(self, node: NodeId) -> object:
        channel = self.channels.get(node)
        back = None if channel is None else channel.back
        return None if back is None else back.last_beat()

    def send_direct(self, to: Contact, message: Message) -> None:
        network = self.network
        way = self.out_of_band
        if way is None:
            return
        connections = network.connections
        target: NodeId = to.node
        kind = self.recorder.sent_direct(self.node, target, message)
        if connections is not None and not connections.lets_through(self.node, target):
            self.kernel.lost += 1
            return
        delay = network.direct_delay
        if network.delays is not None:
            delay = network.delays.between(self.node, target)
        at = self.kernel.now + delay
        self.kernel.post_direct(at, way, target, message, kind.skip == ROUTINE)

    def drop_fans(self) -> None:
        """Work fans out anew; what is in flight on old ones is checked channel by channel."""
        if self.fans:
            for fan in self.fans.values():
                fan.whole = False
            self.fans.clear()
            self._last_to = None

    # The application, and the recorder

    def deliver(self, event: Event, hops: int, recovered: bool = False) -> None:
        self.recorder.delivered(self.node, event, hops, recovered)

    def gap(self, publisher: NodeId, count: int, filter: Filter | None = None) -> None:
        self.recorder.gap(self.node, publisher, count)

    def stopped(self, event: Event, why: str, hops: int, deterministic: int) -> None:
        self.recorder.stopped(why, 1, hops, deterministic)

    def link_changed(self, neighbour: NodeId, up: bool, repair: int) -> None:
        self.network.connections_of(self).link_end(self.node, neighbour, up, repair)

    def parent_changed(self, parent: NodeId) -> None:
        if self.network.connections is not None:
            self.network.connections.parent_changed(self.node, parent)

    def note(self, what: str, peer: NodeId, value: str) -> None:
        self.recorder.noted(self.node, what, peer, value)
