"""The medium: the channel's arrays, and the frames that nodes put into it and get out of it."""

from __future__ import annotations

from functools import partial
from heapq import heappop
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shoal.simulation.air import channel
from shoal.simulation.air import state as s
from shoal.simulation.kernel import NANOSECONDS, Between, Channel, Fan, to_ns
from shoal.stack import StackError
from shoal.stack.chance import key_of
from shoal.stack.host import NodeId
from shoal.stack.message import Contact, Message

if TYPE_CHECKING:
    from shoal.simulation.air.parameters import MediumParameters
    from shoal.simulation.network import Network

FAR: Final = 1 << 61
"""Later than everything that happens."""
FIRST_ROOM: Final = 64
"""Frames and neighbours that there is room for at the beginning."""
WEAKEST: Final = 0.05
"""Path loss: signals below this share of the weakest frame that can be received are ignored."""
DETECTION: Final = 4_000
"""Nanoseconds of a preamble in which a receiver locks to it."""
MARGIN: Final = 10 ** (4 / 10)
"""Signal to interference, 4 dB, from which on a receiver locks to a preamble."""
CAPTURE_MARGIN: Final = 10.0
"""The same from which on it leaves one frame for another (10 dB)."""


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
        """When something happens on the channel next, or earlier."""
        self.letters: list[tuple[Message, tuple[NodeId, ...] | None]] = []
        """Per row of ``frames``: the message, and for whom it is if not for all who hear it."""
        self._sizes: dict[type[Message], int] = {}
        self._unsent = 0
        self._lost = 0
        self._anyone = [Fan([]) for _ in range(nodes)]
        """What the recorder is told of a broadcast's receivers: only who sends."""
        for node, fan in enumerate(self._anyone):
            fan.source = node
        self.near: Any = np.zeros((nodes, 0), np.int64)
        self.gain: Any = np.zeros((2 * nodes, 0))
        self.ears: Any = np.zeros((nodes, 0), np.int64)
        self._make_arrays(parameters, nodes, seed, legs, bounds, heard)
        network.kernel.between = self
        network.recorder.air = self.counted

    def _make_arrays(
        self,
        parameters: MediumParameters,
        nodes: int,
        seed: int,
        legs: Any,
        bounds: Any,
        heard: list[dict[NodeId, float]] | None,
    ) -> None:
        self.nodes = np.zeros((nodes, s.NODE_FIELDS), np.int64)
        for field in (s.SENDING, s.HEARING, s.HEAD, s.TAIL, s.ACKNOWLEDGES):
            self.nodes[:, field] = s.NOBODY
        self.nodes[:, s.ACCESS_AT] = s.NEVER
        self.nodes[:, s.WINDOW] = parameters.window
        self.levels = np.zeros((nodes, s.LEVEL_FIELDS))
        self.frames = np.zeros((nodes, s.FRAME_FIELDS), np.int64)
        self.frames[:, s.SOURCE] = np.arange(nodes)
        self.frames[:, s.AIRTIME] = parameters.ack_airtime()
        self.heap = np.array([np.arange(2 * nodes)] * 2)
        self.times = np.full(2 * nodes, s.NEVER, np.int64)
        self.numbers = np.zeros(s.NUMBERS, np.int64)
        self.numbers[s.FREE] = s.NOBODY
        self.counts = np.zeros((FIRST_ROOM, len(s.COUNTS)), np.int64)
        self.out = np.zeros(nodes, np.int64)
        self.last_heard = np.full((nodes, nodes), -NANOSECONDS, np.int64)
        self.places = np.full((nodes, 2), np.nan)
        self.legs = np.zeros((0, 6)) if legs is None else legs
        if bounds is not None:
            self.nodes[:, s.LEG] = bounds[:-1]
            self.nodes[:, s.LAST_LEG] = bounds[1:]
        self.whole = self._whole(parameters, nodes, heard is not None)
        self.real = self._real(parameters)
        purposes = ("back-off", "reception", "fading", "flooding jitter")
        self.keys = np.array([key_of(seed, purpose) for purpose in purposes], np.uint64)
        self._widen(min(nodes, FIRST_ROOM))
        self._more_frames()
        if heard is not None:
            self.numbers[s.NEXT_LOOK] = s.NEVER
            self._widen(max(map(len, heard), default=1) or 1)
            for node, others in enumerate(heard):
                self.nodes[node, s.NEAR] = len(others)
                self.near[node, : len(others)] = list(others)
                self.gain[node, : len(others)] = list(others.values())

    def _whole(self, parameters: MediumParameters, nodes: int, given: bool) -> Any:
        slot, sifs = round(parameters.slot * 1e3), round(parameters.sifs * 1e3)
        difs, ack = sifs + 2 * slot, parameters.ack_airtime()
        slowest_ack = round(parameters.preamble * 1e3 + 112_000)
        whole = np.zeros(s.WHOLE, np.int64)
        propagation = {"disc": s.DISC, "path loss": s.PATH_LOSS}[parameters.propagation]
        for field, value in {
            s.NODES: nodes,
            s.SLOT: slot,
            s.SIFS: sifs,
            s.DIFS: difs,
            s.EIFS: sifs + slowest_ack + difs if parameters.eifs else difs,
            s.SMALLEST_WINDOW: parameters.window,
            s.LARGEST_WINDOW: parameters.largest_window,
            s.LIMIT: parameters.attempts,
            s.QUEUE: parameters.queue,
            s.ACK_AIRTIME: ack,
            s.ACK_TIMEOUT: sifs + ack + slot,
            s.PREAMBLE: round(parameters.preamble * 1e3),
            s.DETECTION: DETECTION,
            s.CAPTURE: ("off", "first", "strongest").index(parameters.capture),
            s.PROPAGATION: s.GIVEN if given else propagation,
            s.FADING: parameters.fading != "none",
            s.STEP: to_ns(parameters.step),
            s.BIN: self.recorder.bin_ns,
            s.LIFETIME: to_ns(parameters.lifetime),
        }.items():
            whole[field] = value
        return whole

    def _real(self, parameters: MediumParameters) -> Any:
        real = np.zeros(s.REAL)
        fades = parameters.propagation == "path loss"
        farthest = parameters.range * WEAKEST ** (-1 / parameters.exponent)
        for field, value in {
            s.NOISE: 10 ** (parameters.noise / 10) if fades else 0.0,
            s.SENSED: 10 ** (parameters.sense / 10) if fades else 0.5,
            s.LOCKED: MARGIN,
            s.STRONGER: CAPTURE_MARGIN,
            s.RATE: parameters.rate,
            s.REACH: parameters.range,
            s.EXPONENT: parameters.exponent,
            s.FARTHEST: farthest if fades else parameters.range,
        }.items():
            real[field] = value
        return real

    # Room

    def _widen(self, width: int) -> None:
        """Room for so many neighbours of a node."""
        old, ears = self.gain, self.ears
        self.near = np.zeros((self.count, width), np.int64)
        self.gain = np.zeros((2 * self.count, width))
        self.ears = np.zeros((self.count, width), np.int64)
        self.gain[:, : old.shape[1]] = old  # of transmissions under way
        self.ears[:, : ears.shape[1]] = ears

    def _more_frames(self) -> None:
        """Twice as many rows for frames."""
        before = len(self.frames)
        more = np.zeros((max(FIRST_ROOM, before), s.FRAME_FIELDS), np.int64)
        more[:, s.NEXT] = np.arange(before + 1, before + 1 + len(more))
        more[-1, s.NEXT] = s.NOBODY
        self.frames = np.concatenate([self.frames, more])
        self.numbers[s.FREE] = before
        nothing: tuple[Any, None] = (None, None)
        self.letters += [nothing] * (len(self.frames) - len(self.letters))

    def _more_bins(self, now: int) -> None:
        rows = max(2 * len(self.counts), now // self.recorder.bin_ns + 1)
        counts = np.zeros((rows, len(s.COUNTS)), np.int64)
        counts[: len(self.counts)] = self.counts
        self.counts = counts

    # What nodes put in

    def turn(self, node: NodeId, on: bool) -> None:
        """A node's radio is switched on or off."""
        if on:
            self.nodes[node, s.RUNS] = 1
        else:
            channel.switch_off(self.nodes, self.frames, self.numbers, node)
            self._settle()

    def send(
        self,
        node: NodeId,
        target: NodeId,
        message: Message,
        to: tuple[NodeId, ...] | None = None,
        quiet: bool = False,
    ) -> None:
        """Queue a frame: for a target, or (NOBODY) for whoever hears it, or ``to`` alone."""
        kernel = self.kernel
        if target == s.NOBODY:
            fan = self._anyone[node] if to is None else self.fan(node, to)
        else:
            fan = self.fan(node, (target,))
        self.recorder.sent(fan, -1, 1, message)
        if kernel.now // self.recorder.bin_ns >= len(self.counts):
            self._more_bins(kernel.now)
        if self.numbers[s.FREE] == s.NOBODY:
            self._more_frames()
        flags = s.QUIET if quiet else 0
        if target != s.NOBODY and not message.events():
            flags |= s.LASTING
        if type(message).routine():
            flags |= s.ROUTINE
        airtime = self.parameters.airtime(self.size_of(node, message))
        frame = channel.submit(
            *(self.nodes, self.frames, self.heap, self.times, self.numbers),
            *(self.whole, self.keys, self.counts),
            *(node, target, airtime, flags, kernel.now),
        )
        if frame != s.NOBODY:
            self.letters[frame] = (message, to)
            if kernel.now < self.next_at:
                self.next_at = kernel.now
            self._settle()
        elif flags & s.LASTING and not quiet:
            later = kernel.now + to_ns(self.parameters.lifetime)
            kernel.call_at(later, partial(self._undelivered, node, target, message))

    def _undelivered(self, sender: NodeId, target: NodeId, message: Message) -> None:
        """Tell the layer that sent a message that it did not arrive."""
        node = self.network.nodes[sender]
        if node is not None:
            node.layers[type(message)].undelivered(target, message)

    def heard_at(self, node: NodeId, sender: NodeId) -> float:
        """When a node last received a frame of another, in seconds; -1 if never."""
        return float(self.last_heard[node, sender]) / NANOSECONDS

    def size_of(self, node: NodeId, message: Message) -> int:
        """Bytes of a message; refused if the medium does not take so many."""
        events = message.events()
        size = len(events) * self.parameters.event_bytes if events else message.size()
        if size > self.parameters.largest_frame:
            raise StackError(
                f"node {node} sends a message ({type(message).kind()}) of {size} bytes; the medium "
                f"takes {self.parameters.largest_frame}: raise largest_frame, or send less at once"
            )
        return size

    def fan(self, node: NodeId, to: tuple[NodeId, ...]) -> Fan:
        """Whom a frame is for, as the recorder wants to know it."""
        fans = self.network.hosts[node].fans
        fan = fans.get(to)
        if fan is None:
            if len(fans) >= 64:
                fans.clear()
            fan = Fan([Channel(node, other, {}) for other in to])
            fans[to] = fan
        return fan

    # What comes out

    def run(self, until: int) -> None:
        """See :class:`~shoal.simulation.kernel.Between`."""
        while self._step(until):
            self._instant(until)
        self._count_lost()

    def run_to_rest(self, until: int) -> bool:
        """See :class:`~shoal.simulation.kernel.Between`."""
        kernel = self.kernel
        while not kernel.at_rest():
            if not self._step(until):
                break
            self._instant(until)
        self._count_lost()
        return kernel.at_rest()

    def _count_lost(self) -> None:
        """Messages that were not sent, or in vain, are lost."""
        lost = int(self.counts[:, [s.GIVEN_UP, s.QUEUE_DROPS, s.EXPIRED]].sum())
        self.kernel.lost += lost - self._lost
        self._lost = lost

    def _instant(self, until: int) -> None:
        """Let the kernel's next instant happen if its turn has come."""
        instants = self.kernel.instants
        if instants and instants[0] <= self.next_at and instants[0] <= until:
            self.kernel.instant(heappop(instants))

    def _step(self, until: int) -> bool:
        """Let the channel go on to the kernel's next instant or a reception; False at the end."""
        kernel = self.kernel
        at = kernel.instants[0] if kernel.instants else FAR
        if self.next_at >= at or self.next_at > until:
            return at <= until
        outcome = channel.advance(
            *(self.nodes, self.levels, self.frames, self.near, self.gain, self.ears, self.heap),
            *(self.times, self.numbers, self.whole, self.real, self.keys, self.counts, self.out),
            *(self.places, self.legs, min(at - 1, until)),
        )
        self._settle()
        if outcome == s.DONE:
            self.next_at = int(self.times[self.heap[0, 0]])
            return at <= until or self.next_at <= until
        if outcome == s.CROWDED:
            self._widen(min(self.count, 2 * self.near.shape[1]))
        elif outcome == s.FULL:
            self._more_bins(int(self.times[self.heap[0, 0]]))
        else:
            kernel.now = int(self.numbers[s.NOW])
            self._hand_up(outcome)
        return True

    def _hand_up(self, outcome: int) -> None:
        """Give a frame to the nodes that received it, or tell its sender that it is lost."""
        message, to = self.letters[self.numbers[s.FRAME]]
        sender = int(self.numbers[s.SENDER])
        nodes = self.network.nodes
        if outcome == s.UNREACHABLE:
            node = nodes[sender]
            target = int(self.frames[self.numbers[s.FRAME], s.TARGET])
            if node is not None:
                node.unreachable(Contact(target))
                self._undelivered(sender, target, message)
            return
        kind = type(message)
        self.last_heard[self.out[: self.numbers[s.RECEIVERS]], sender] = self.kernel.now
        for receiver in self.out[: self.numbers[s.RECEIVERS]].tolist():
            node = nodes[receiver]
            if node is not None and (to is None or receiver in to):
                self.kernel.handled += 1
                node.layers[kind].receive(sender, message)

    def counted(self) -> Any:
        """What happened so far: a row per time bin, a column per entry of ``state.COUNTS``."""
        return self.counts

    def _settle(self) -> None:
        """Frames that wait keep the network from being at rest."""
        unsent = int(self.numbers[s.UNSENT])
        self.kernel.waiting += unsent - self._unsent
        self._unsent = unsent
