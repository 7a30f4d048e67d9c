"""The discrete-event kernel: simulated time, and a queue of what is to happen.

Time is whole nanoseconds, so that instants compare exactly and a run is the same on every machine.
Link delays are few, so many things happen at the same instant. So the queue has one list (*bucket*)
per instant, in the order in which its entries were scheduled, and a heap of these instants.

Only instants before the *horizon* have buckets. What happens later lies in one unsorted list per
*slot* of two milliseconds or, beyond the present *round* of a second, in one list per round. When
the horizon reaches a slot, its list is sorted. If everything were in buckets, the timers of many
nodes would make a large heap, which is slow as it lies all over the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mypy_extensions import mypyc_attr

from shoal.simulation.channels import KEPT, ROUTINE, Direct, Fan
from shoal.simulation.garbage import uncollected
from shoal.stack.host import Timer

if TYPE_CHECKING:
    from shoal.stack.message import Message

NANOSECONDS: Final = 1_000_000_000

SLOT: Final = 21
"""A slot of time is 2**21 ns."""
ROUND: Final = 30
"""A round of slots is 2**30 ns."""
LAST_SLOT: Final = (1 << (ROUND - SLOT)) - 1
IN_ROUND: Final = (1 << ROUND) - 1
AT: Final = itemgetter(0)


def to_ns(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return round(seconds * NANOSECONDS)


Entry: TypeAlias = tuple[int, "Fan | None", int, object]
"""An entry of the queue: ``(when, None, 0, timer)``; ``(when, fan, place to skip, message)``; or
``(when, way out of band, target, message)``, with ``~target`` unless the message is routine.
*When* is in ns since the round began: Python sorts numbers below 2**30 faster."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Between:
    """What goes on between the instants of a kernel, such as a radio channel.

    It runs the kernel's instants (:meth:`Kernel.instant`) among its own.
    """

    def run(self, until: int) -> None:
        """Let everything happen up to and including an instant."""
        raise NotImplementedError

    def run_to_rest(self, until: int) -> bool:
        """Run until nothing is going on; False if that has not come by ``until``."""
        raise NotImplementedError


class Kernel:
    """Simulated time, and the queue of what is to happen."""

    def __init__(self) -> None:
        self.now = 0
        self.handled = 0
        """Messages handed to their receivers so far."""
        self.lost = 0
        """Messages lost on their way: by links, with links that went down, to nodes that were
        gone."""
        self.waiting = 0
        """Messages on their way, without routine ones; a message to several nodes counts once."""
        self.armed = 0
        """One-off timers that will fire, of all nodes."""
        self.unnoticed = 0
        """Ends of broken connections that have yet to notice the break."""
        self.between: Between | None = None
        """A radio channel or the like that runs the instants among its own; None if there is
        none."""
        self.posted = 0
        """Entries queued so far; counted only while ``orders`` is kept."""
        self.orders: dict[int, list[int]] | None = None
        """Per instant, the number in ``posted`` of each entry; kept for a data plane only."""
        self._buckets: dict[int, list[Any]] = {}  # Any: compiled, an Entry would be unpacked
        """Entries per instant before the horizon, those in ``_ready`` excepted."""
        self._instants: list[int] = []
        """Instants of the buckets, as a heap."""
        self._horizon = 0
        """Instant before which entries lie in buckets: the end of the slot that was opened last."""
        self._ready: list[Any] = []
        """Entries of that slot when it was opened, sorted by instant."""
        self._place = 0
        """Place in ``_ready`` of the first entry that has not happened."""
        self._ready_at = -1
        """Instant of that entry; -1 if there is none."""
        self._slots: list[list[Any]] = [[] for slot in range(LAST_SLOT + 1)]
        """Entries per slot of the present round, from the horizon on."""
        self._filled = 0
        """Slots that are not empty."""
        self._rounds: dict[int, list[Any]] = {}
        """Entries per later round."""
        self._round_heap: list[int] = []
        """Numbers of these rounds, as a heap."""
        self._round_start = 0
        """Instant at which the present round began."""
        self._next_round = 0
        """Instant at which the present round ends."""
        self._last_at = -1
        """Instant of the last entry: the next one mostly has the same."""
        self._last_list: list[Any] = []
        """List that the last entry lies in."""
        self._last_stamp: object = 0
        """Its *when*; an object, as compiled code would make a new one for each entry."""

    def post(self, at: int, fan: Fan, skip: int, message: Message) -> None:
        """A message arrives over each channel of a fan that is up then, but the one at ``skip``."""
        if at != self._last_at:
            self._aim(at)
        self._last_list.append((self._last_stamp, fan, skip, message))
        if skip > ROUTINE:
            self.waiting += 1

    def post_direct(
        self, at: int, way: Direct, target: int, message: Message, routine: bool
    ) -> None:
        """A message out of band arrives at the life of its target that there is then."""
        if at != self._last_at:
            self._aim(at)
        if not routine:
            target = ~target
            self.waiting += 1
        self._last_list.append((self._last_stamp, way, target, message))

    def call_at(self, at: int, callback: Callable[[], None], background: bool = False) -> SimTimer:
        """Call back at an instant. Background calls do not keep a run from being at rest."""
        timer = SimTimer(self, callback, background)
        if not background:
            self.armed += 1
        self.queue(at, timer)
        return timer

    def queue(self, at: int, timer: SimTimer) -> None:
        """Let a timer fire at an instant."""
        if at < self.now:
            raise ValueError(f"{at} ns is in the past; it is {self.now} ns")
        if at != self._last_at:
            self._aim(at)
        self._last_list.append((self._last_stamp, None, 0, timer))

    def _aim(self, at: int) -> None:
        """Set the list and the *when* for entries of an instant, which are queued next."""
        self._last_at = at if self.orders is None else -1  # there, each is numbered
        if self.orders is not None:
            self.orders.setdefault(at, []).append(self.posted)
            self.posted += 1
        self._last_stamp = at & IN_ROUND
        if at < self._horizon:
            self._last_list = _entries(self._buckets, at, self._instants)
        elif at < self._next_round:
            self._last_list = self._slot(at)
        else:
            self._last_list = _entries(self._rounds, at >> ROUND, self._round_heap)

    def _slot(self, at: int) -> list[Any]:
        """The list of an instant's slot, to which the caller adds an entry."""
        entries = self._slots[(at >> SLOT) & LAST_SLOT]
        if not entries:
            self._filled += 1
        return entries

    def next_instant(self) -> int:
        """The instant of the next entry; -1 if there is none."""
        at = self._ready_at
        if self._instants:
            near = self._instants[0]
            return near if at < 0 or near < at else at
        if at < 0:
            if not self._filled and self._round_heap:
                self._open_round(heappop(self._round_heap))
            if self._filled:
                self._open_slot()
                at = self._ready_at
        return at

    def _open_round(self, number: int) -> None:
        """Distribute the entries of a round to its slots."""
        self._horizon = self._round_start = number << ROUND
        self._next_round = self._horizon + (1 << ROUND)
        self._last_at = -1
        for entry in self._rounds.pop(number):
            self._slot(entry[0]).append(entry)

    def _open_slot(self) -> None:
        """Sort the entries of the next slot by instant; those of one instant keep their order."""
        slots, slot = self._slots, (self._horizon - self._round_start) >> SLOT
        while not slots[slot]:
            slot += 1
        entries, slots[slot] = slots[slot], []
        self._filled -= 1
        self._last_at = -1
        self._horizon = self._round_start + ((slot + 1) << SLOT)
        if len(entries) > 1:
            entries.sort(key=AT)
        self._ready = entries
        self._place = 0
        self._ready_at = self._time_of(0)

    def _time_of(self, place: int) -> int:
        """Instant of the entry at a place in ``_ready``; -1 if there is none."""
        if place >= len(self._ready):
            return -1
        in_round: int = self._ready[place][0]
        return self._round_start + in_round

    def run(self, until: int) -> None:
        """Let everything happen up to and including an instant."""
        with uncollected():  # scanning the queue again and again costs a third
            if self.between is not None:
                self.between.run(until)
            at = self.next_instant()
            while 0 <= at <= until:
                self.instant(at)
                at = self.next_instant()
            if until > self.now:
                self.now = until

    def run_to_rest(self, until: int) -> bool:
        """Run until nothing is going on; False if that has not come by ``until``."""
        if self.between is not None:
            return self.between.run_to_rest(until)
        at = self.next_instant()
        while 0 <= at <= until:
            if self.at_rest():
                return True
            self.instant(at)
            at = self.next_instant()
        return self.at_rest()

    def at_rest(self) -> bool:
        """Whether nothing is going on: no message, no one-off timer, no failure to be noticed."""
        return self.armed == 0 and self.waiting == 0 and self.unnoticed == 0

    def due(self, at: int) -> list[Entry]:
        """Advance to the next instant, which is this one; return its entries, now dequeued."""
        self.now = at
        self._last_at = -1
        place = end = self._place
        if self._ready_at == at:
            ready, stamp = self._ready, self._ready[place][0]
            while end < len(ready) and ready[end][0] == stamp:
                end += 1
            self._place, self._ready_at = end, self._time_of(end)
        entries: list[Entry] = self._ready[place:end]
        if self._instants and self._instants[0] == at:
            heappop(self._instants)
            late = self._buckets.pop(at)  # queued since its slot was opened
            return entries + late if entries else late
        return entries

    def handle(self, fan: Fan | None, skip: int, what: object) -> None:
        """Handle one entry: a timer fires, or a message arrives."""
        if fan is None:
            assert isinstance(what, SimTimer)
            what.fire()
            return
        if isinstance(fan, Direct):
            target = skip
            if skip < 0:
                self.waiting -= 1
                target = ~skip
            layer = fan.layers[fan.handled_by[type(what)]][target]  # type: ignore[index]  # a Message
            if layer is None:
                self.lost += 1
            else:
                self.handled += 1
                layer.receive(fan.source, what)
            return
        if skip == KEPT:
            self._keep(fan, what)
            return
        if skip > ROUTINE:
            self.waiting -= 1
        if fan.kind is not type(what):
            fan.prepare(type(what))  # type: ignore[arg-type]  # a Message
        source = fan.source
        if fan.whole:  # a receiver can break links of its own only, so it stays whole meanwhile
            self.handled += fan.size if skip < 0 else fan.size - 1
            skipped = None if skip < 0 else fan.receivers[skip]
            for receiver in fan.receivers:
                if receiver is not skipped:
                    receiver.receive(source, what)
            return
        for place, channel in enumerate(fan.channels):
            if place == skip:
                continue
            if channel.up:
                self.handled += 1
                fan.receivers[place].receive(source, what)
            elif channel.held is not None:
                channel.held.append(what)  # type: ignore[arg-type]  # a Message
            else:
                self.lost += 1

    def _keep(self, fan: Fan, beat: object) -> None:
        """A heartbeat arrives: note it and the time, once for all channels where possible."""
        if fan.whole and fan.carries:
            self.handled += fan.size
            fan.beat_at = self.now
            fan.beat = beat
            return
        for channel in fan.channels:
            if channel.up:
                self.handled += 1
                channel.heard = self.now
                channel.beat = beat
            elif channel.held is not None:
                channel.held.append(beat)  # type: ignore[arg-type]  # a Message
            else:
                self.lost += 1

    def instant(self, at: int) -> None:
        """Handle all entries of the next instant, which is this one."""
        if self._ready_at == at and not (self._instants and self._instants[0] == at):
            after = self._place + 1
            following = self._time_of(after)
            if following != at:  # a single entry: the usual case with many timers
                entry: Entry = self._ready[self._place]
                self.now = at
                self._last_at = -1
                self._place = after
                self._ready_at = following
                self.handle(entry[1], entry[2], entry[3])
                return
        handled = arrived = 0
        for _at, fan, skip, what in self.due(at):  # compiled, a variable "_" would be boxed
            if fan is None or fan.kind is not type(what) or not fan.whole:
                self.handle(fan, skip, what)
                continue
            # The most frequent case, as in `handle` but without a call for each message.
            if skip != ROUTINE:
                arrived += 1
            handled += fan.size
            skipped = None
            if skip >= 0:
                handled -= 1
                skipped = fan.receivers[skip]
            source = fan.source
            for receiver in fan.receivers:
                if receiver is not skipped:
                    receiver.receive(source, what)
        self.handled += handled
        self.waiting -= arrived


def _entries(lists: dict[int, list[Any]], key: int, heap: list[int]) -> list[Any]:
    """The list of a key; if there is none, a new one, and the key goes onto the heap."""
    entries = lists.get(key)
    if entries is None:
        entries = []
        lists[key] = entries
        heappush(heap, key)
    return entries


class SimTimer(Timer):
    """A callback in simulated time."""

    def __init__(
        self, kernel: Kernel, callback: Callable[[], None] | None, background: bool
    ) -> None:
        self.kernel = kernel
        self.callback = callback
        self.background = background

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            if not self.background:
                self.kernel.armed -= 1

    def fire(self) -> None:
        """Call back, unless cancelled."""
        callback = self.callback
        if callback is not None:
            self.cancel()
            callback()


class NodeTimer(SimTimer):
    """A timer of one node, which fires only while that node lives."""

    def __init__(self, clock: Clock, callback: Callable[[], None], period: int) -> None:
        super().__init__(clock.kernel, callback, period > 0)
        self.clock = clock
        self.period = period
        """Nanoseconds between two calls; 0 for a single one."""

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            if not self.background and not self.clock.stopped:
                self.clock.armed -= 1
                self.kernel.armed -= 1

    def fire(self) -> None:
        """Call back, unless cancelled; and again after a period."""
        callback = self.callback
        if callback is None or self.clock.stopped:
            return
        if not self.period:
            self.cancel()
            callback()
            return
        callback()
        if self.callback is not None and not self.clock.stopped:
            self.kernel.queue(self.kernel.now + self.period, self)


class Clock:
    """The timers of one node: all of them end with it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.armed = 0
        """One-off timers of this node that will fire."""
        self.stopped = False

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back once."""
        timer = NodeTimer(self, callback, 0)
        self.armed += 1
        self.kernel.armed += 1
        self.kernel.queue(self.kernel.now + to_ns(delay), timer)
        return timer

    def every(self, period: float, callback: Callable[[], None], first: float) -> Timer:
        """Call back again and again."""
        if period <= 0:
            raise ValueError(f"every {period} s: simulated time would never pass")
        timer = NodeTimer(self, callback, max(to_ns(period), 1))
        self.kernel.queue(self.kernel.now + to_ns(first), timer)
        return timer

    def stop(self) -> None:
        """The node is gone: no timer fires any more."""
        self.stopped = True
        self.kernel.armed -= self.armed
        self.armed = 0
