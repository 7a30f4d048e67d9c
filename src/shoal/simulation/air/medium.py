"""The medium: takes nodes' frames to the channel, and hands received ones to nodes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shoal.simulation.air import channel, queueing
from shoal.simulation.air import state as s
from shoal.simulation.air.arrays import pack
from shoal.simulation.air.settings import FIRST_ROOM, first_arrays
from shoal.simulation.channels import Channel, Fan
from shoal.simulation.host import FANS_KEPT
from shoal.simulation.kernel import NANOSECONDS, Between
from shoal.stack import StackError
from shoal.stack.host import NodeId
from shoal.stack.message import Contact, Message

if TYPE_CHECKING:
    from shoal.simulation.air.flooding import Flooding
    from shoal.simulation.air.parameters import MediumParameters
    from shoal.simulation.network import Network

FAR: Final = 1 << 61
"""Time later than everything that happens."""
RETRY: Final = 500_000_000
"""Nanoseconds until a layer is told that a message could not even be queued."""


class Medium(Between):
    """One channel for all radios of a network.

    ``legs`` is where nodes go (see :mod:`~shoal.simulation.air.movement`) and ``bounds`` the first
    and last row of each. With ``heard`` nodes do not move: who hears whom, and how well, is given.
    """

    def __init__(
        self,
        network: Network,
        parameters: MediumParameters,
        nodes: int,
        seed: int,
        legs: Any = None,
        bounds: Any = None,
        heard: list[dict[NodeId, float]] | None = None,
    ) -> None:
        self.network = network
        self.kernel = network.kernel
        self.recorder = network.recorder
        self.parameters = parameters
        self.count = nodes
        self.broadcasts = parameters.event_transport == "broadcast"
        self.next_at = 0
        """Time of the channel's next action, or an earlier one."""
        self.letters: list[tuple[Message, tuple[NodeId, ...] | None] | None] = []
        """Message and receivers (None: all in range) of each row of ``frames``."""
        self.flooding: Flooding | None = None
        """Floods that the channel passes on by itself; None if nodes do."""
        self.last_heard: list[dict[NodeId, int]] = [{} for _ in range(nodes)]
        """Time of the last frame received, per receiver and sender, in nanoseconds."""
        self._unsent = 0
        """Frames and floods under way of which the kernel knows."""
        self._lost = 0
        self._room = 0
        """Time up to which ``counts`` has rows."""
        self._airtimes: dict[int, int] = {}
        """Nanoseconds on the air, per size of message so far."""
        self._anyone = [Fan([]) for _ in range(nodes)]
        """Fan that the recorder gets for a broadcast, per sender: it names the sender only."""
        for node, fan in enumerate(self._anyone):
            fan.source = node
        self.memory: Any = None
        self.air: Any = None
        self._numbers = self._out = memoryview(b"")
        self._lay_out(
            first_arrays(parameters, nodes, seed, self.recorder.bin_ns, legs, bounds, heard)
        )
        self._more_frames()
        network.kernel.between = self
        network.recorder.air = self.counted

    # Room

    def _lay_out(self, arrays: s.Air) -> None:
        """Let the channel use these arrays from now on."""
        self.memory, self.air = pack(arrays)
        self._numbers = memoryview(self.air.numbers)  # quicker to read one by one
        self._out = memoryview(self.air.out)
        self._room = len(arrays.counts) * self.recorder.bin_ns

    def grow(self, **arrays: Any) -> None:
        """Replace some arrays by larger ones."""
        self._lay_out(self.air._replace(**arrays))

    def _more_frames(self) -> None:
        """Twice as many rows for frames."""
        before = len(self.air.frames)
        more = np.zeros((max(FIRST_ROOM, before), s.FRAME_FIELDS), np.int64)
        more[:, s.NEXT] = np.arange(before + 1, before + 1 + len(more))
        more[-1, s.NEXT] = self.air.numbers[s.FREE]
        self.air.numbers[s.FREE] = before
        self.grow(frames=np.concatenate([self.air.frames, more]))
        self.letters += [None] * (len(self.air.frames) - len(self.letters))

    def _more_neighbours(self) -> None:
        """Room for twice as many neighbours of a node."""
        air = self.air
        self.grow(
            near=widened(air.near, self.count),
            gain=widened(air.gain, self.count),
            ears=widened(air.ears, self.count),
        )

    def _more_room(self, now: int) -> None:
        """Enlarge the arrays that are full."""
        air = self.air
        if air.numbers[s.FREE] == s.NOBODY:
            self._more_frames()
        if air.numbers[s.PENDING] + self.count > len(air.pending):
            self.grow(pending=np.concatenate([air.pending, np.zeros_like(air.pending)]))
        if air.whole[s.LOGS] and air.numbers[s.LOGGED] + self.count > len(air.log):
            self._more_log()
        self._more_bins(now)

    def _more_log(self) -> None:
        """Twice as many rows to write down what becomes of frames."""
        log = self.air.log
        more = np.zeros((max(FIRST_ROOM, self.count, len(log)), s.LOG_FIELDS), np.int64)
        self.grow(log=np.concatenate([log, more]))

    def _more_bins(self, now: int) -> None:
        """Room for the counts of a time, and for as long again."""
        counts = self.air.counts
        bins = now // self.recorder.bin_ns + 1
        if bins > len(counts):
            more = np.zeros((bins, counts.shape[1]), np.int64)
            self.grow(counts=np.concatenate([counts, more]))

    def watch(self) -> None:
        """Log the outcome of every frame at every node in range from now on."""
        self.air.whole[s.LOGS] = 1

    def watched(self) -> Any:
        """Rows logged since the last call, with the columns of ``state.LOG_FIELDS``."""
        rows = self.air.log[: self.air.numbers[s.LOGGED]].copy()
        self.air.numbers[s.LOGGED] = 0
        return rows

    # From nodes

    def turn(self, node: NodeId, on: bool) -> None:
        """A node's radio is switched on or off."""
        if on:
            self.air.nodes[node, s.RUNS] = 1
            return
        if self.flooding is not None:
            self.flooding.write()
        frames = self.air.frames
        frame = int(self.air.nodes[node, s.HEAD])
        while frame != s.NOBODY:
            letter = self.letters[frame]
            if letter and frames[frame, s.FLAGS] & (s.LASTING | s.QUIET) == s.LASTING:
                self._tell_later(node, int(frames[frame, s.TARGET]), letter[0])
            frame = int(frames[frame, s.NEXT])
        queueing.switch_off(self.memory, node)
        self._settle()

    def calm(self) -> None:
        """The run is over: nodes stand still, and nothing fades or is lost on a poor link."""
        air = self.air
        air.numbers[s.NEXT_LOOK] = s.NEVER
        air.whole[s.FADING] = 0
        if air.whole[s.PROPAGATION] == s.GIVEN:
            np.ceil(air.gain, out=air.gain)

    def _tell_later(self, node: NodeId, target: NodeId, message: Message) -> None:
        """A message cannot be sent now; its layer may try again a little later."""
        later = self.kernel.now + RETRY
        self.kernel.call_at(later, partial(self._undelivered, node, target, message))

    def send(
        self,
        node: NodeId,
        target: NodeId,
        message: Message,
        to: tuple[NodeId, ...] | None = None,
        quiet: bool = False,
    ) -> None:
        """Queue a frame: for a target, or (NOBODY) for whoever hears it, or ``to`` alone."""
        now = self.kernel.now
        if target == s.NOBODY:
            fan = self._anyone[node] if to is None else self.fan(node, to)
        else:
            fan = self.fan(node, (target,))
        self.recorder.sent(fan, -1, 1, message)
        self._make_room(now)
        events = message.events()
        size = len(events) * self.parameters.event_bytes if events else message.size()
        airtime = self._airtimes.get(size) or self._airtime(node, message, size)
        flags = s.QUIET if quiet else 0
        if target != s.NOBODY and not events:
            flags |= s.LASTING
        if type(message).routine():
            flags |= s.ROUTINE
        frame = queueing.submit(self.memory, node, target, airtime, flags, now)
        if frame != s.NOBODY:
            self.letters[frame] = (message, to)
            if now < self.next_at:
                self.next_at = now
        elif flags & s.LASTING and not quiet:
            self._tell_later(node, target, message)

    def flood(self, event: int, publisher: NodeId, sequence: int) -> None:
        """Queue the first frame of an event that the channel passes on by itself."""
        now = self.kernel.now
        self._make_room(now)
        queueing.publish(self.memory, event, publisher, sequence, now)
        if now < self.next_at:
            self.next_at = now

    def _make_room(self, now: int) -> None:
        """Room to queue a frame."""
        if now >= self._room:
            self._more_bins(now)
        if self._numbers[s.FREE] == s.NOBODY:
            self._more_frames()

    def _airtime(self, node: NodeId, message: Message, size: int) -> int:
        """Nanoseconds that a message is on the air; refused if the medium does not take it."""
        if size > self.parameters.largest_frame:
            raise StackError(
                f"node {node} sends a message ({type(message).kind()}) of {size} bytes; the medium "
                f"takes {self.parameters.largest_frame}: raise largest_frame, or send less at once"
            )
        self._airtimes[size] = self.parameters.airtime(size)
        return self._airtimes[size]

    def _undelivered(self, sender: NodeId, target: NodeId, message: Message) -> None:
        """Tell the layer that sent a message that it did not arrive."""
        node = self.network.nodes[sender]
        if node is not None:
            node.layer(type(message)).undelivered(target, message)

    def heard_at(self, node: NodeId, sender: NodeId) -> float:
        """Time in seconds when a node last received a frame of another; -1 if never."""
        return self.last_heard[node].get(sender, -NANOSECONDS) / NANOSECONDS

    def fan(self, node: NodeId, to: tuple[NodeId, ...]) -> Fan:
        """Receivers of a frame, in the form that the recorder takes."""
        fans = self.network.hosts[node].fans
        fan = fans.get(to)
        if fan is None:
            if len(fans) >= FANS_KEPT:
                fans.clear()
            fan = Fan([Channel(node, other, None) for other in to])
            fans[to] = fan
        return fan

    # To nodes

    def run(self, until: int) -> None:
        while self._step(until):
            pass
        self._settle()
        self._write()

    def run_to_rest(self, until: int) -> bool:
        kernel = self.kernel
        self._settle()
        while not kernel.at_rest() and self._step(until):
            self._settle()
        if self.flooding is not None:
            kernel.now = max(kernel.now, int(self.air.numbers[s.LAST]))
        self._write()
        return kernel.at_rest()

    def _step(self, until: int) -> bool:
        """Let the kernel's next instant happen, or the channel go on to it; False at the end."""
        at = self.kernel.next_instant()
        if at < 0:
            at = FAR
        if at <= self.next_at:
            if at <= until:
                self.kernel.instant(at)
            return at <= until
        if self.next_at > until:
            return False
        outcome = channel.advance(self.memory, at - 1 if at <= until else until)
        numbers = self._numbers
        self.next_at = numbers[s.NEXT_AT]
        if outcome == s.RECEIVED:
            self.kernel.now = numbers[s.NOW]
            self._hand_up(numbers)
        elif outcome == s.UNREACHABLE:
            self.kernel.now = numbers[s.NOW]
            self._report_loss(numbers)
        elif outcome == s.CROWDED:
            self._more_neighbours()
        elif outcome == s.FULL:
            self._more_room(numbers[s.NOW])
        return True

    def _hand_up(self, numbers: memoryview) -> None:
        """Give a frame to the nodes that received it."""
        letter = self.letters[numbers[s.FRAME]]
        assert letter is not None
        message, to = letter
        sender, kind = numbers[s.SENDER], type(message)
        nodes, now, last_heard = self.network.nodes, self.kernel.now, self.last_heard
        for receiver in self._out[: numbers[s.RECEIVERS]].tolist():
            last_heard[receiver][sender] = now
            if to is None or receiver in to:
                node = nodes[receiver]
                if node is not None:
                    self.kernel.handled += 1
                    node.layer(kind).receive(sender, message)

    def _report_loss(self, numbers: memoryview) -> None:
        """Tell the sender of a frame that it was given up."""
        frame, sender = numbers[s.FRAME], numbers[s.SENDER]
        letter, node = self.letters[frame], self.network.nodes[sender]
        assert letter is not None
        if node is not None:
            target = int(self.air.frames[frame, s.TARGET])
            node.unreachable(Contact(target))
            self._undelivered(sender, target, letter[0])

    def _settle(self) -> None:
        """Tell the kernel how many frames wait, as these keep the network from being at rest."""
        unsent = self._numbers[s.UNSENT] + self._numbers[s.PENDING]
        self.kernel.waiting += unsent - self._unsent
        self._unsent = unsent

    def counted(self) -> Any:
        """Counters so far: a row per time bin, a column per entry of ``state.COUNTS``."""
        return self.air.counts[:, : len(s.COUNTS)]

    def _write(self) -> None:
        """Count messages that were dropped or given up as lost; record the floods."""
        lost = int(self.air.counts[:, [s.GIVEN_UP, s.QUEUE_DROPS, s.EXPIRED]].sum())
        self.kernel.lost += lost - self._lost
        self._lost = lost
        if self.flooding is not None:
            self.flooding.write()


def widened(table: Any, most: int) -> Any:
    """A table with twice as many columns, of which the first are as they were."""
    wide = np.zeros((len(table), min(most, 2 * table.shape[1])), table.dtype)
    wide[:, : table.shape[1]] = table
    return wide
