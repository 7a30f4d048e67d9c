"""Trouble for a live network: broker processes under faults, honest clients beside hostile ones.

Brokers form a graph on which every event floods (``threshold = 1``), so that nothing but trouble
keeps an event from a subscriber. Every few seconds one of them is killed, stopped for a while, or
told to stop, and comes back. What the honest clients saw is then put into one table:

* *sent*: events that a broker accepted: ``publish`` returned.
* *owed*: pairs of a sent event and a subscriber whose filter it matches. All subscribers are there
  from before the first event until after the last, so trouble excuses nothing here.
* *delivered*: owed pairs that arrived.
* *reported as gap*: owed pairs that did not, and whose subscriber was told that events are missing
  at that place: the event was published after the last one that arrived before the gap (less
  :data:`REORDERING` seconds), and accepted before all brokers knew the subscription again. In
  doubt a pair is lost. With a recovery, a gap may name the broker of publication and how many
  events are missing; it then stands for as many that this broker accepted, and no others.
* *open gaps*: gaps after which that was never confirmed; each hides losses until the end.
* *lost*: owed pairs that did not arrive without the subscriber being told. The network promises
  best effort: what a killed broker had in its memory can be lost so.
* *duplicated*: deliveries of an event to a subscriber beyond the first, as it sees them.
* *misdelivered*: deliveries of what the subscriber did not ask for, or nobody honest published.
* *unsure*: publications that got no answer; they are neither owed nor wrong if they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import msgspec

from shoal.live.client import Bus, connect
from shoal.live.errors import LiveError
from shoal.live.messages import Promise
from shoal.live.processes import BrokerProcess, free_port
from shoal.live.settings import OVERLAY
from shoal.live.subscription import Gap, Subscription

KINDS: Final = 4
REORDERING: Final = 1.0
"""Seconds by which events may arrive in another order than they were published in."""
STATED: Final = 240.0
"""Seconds within which a recovery tells of what it cannot get."""
PUBLISHING: Final = 10.0
"""Seconds after which a publisher no longer waits for an answer."""
STARTING: Final = 60.0
"""Seconds in which a broker has to listen."""
ENDING: Final = 120.0
"""Seconds in which all that was published is to arrive at the end."""
QUIET: Final = 15.0
"""Seconds without a delivery after which none is expected any more."""

Fault: TypeAlias = Literal["kill", "stop", "terminate"]
FAULTS: Final[tuple[Fault, ...]] = ("kill", "stop", "terminate")
OVERLAYS: Final = {
    "lstree": ("--overlay=lstree", "--degree=4"),
    "graph": (*("--overlay=graph", "--degree=4"), "--set=routing.threshold=1.0"),
}
"""What brokers are told, by overlay: every event is to reach all who want it."""
SETTINGS: Final = (
    "--set=limits.rate=100",  # all that a flood of one client costs
    "--set=limits.block=1.0",
    "--set=anyone_may_block=true",  # the attack is to be one
)


RECOVERING: Final = ("--recovery=combined-pull",)
"""With the promise ``recovered``."""


class Outcome(msgspec.Struct, kw_only=True):
    """What honest clients saw: the table at the end."""

    sent: int = 0
    unsure: int = 0
    owed: int = 0
    delivered: int = 0
    gap: int = 0
    open_gaps: int = 0
    lost: int = 0
    duplicated: int = 0
    misdelivered: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    crashed: list[str] = msgspec.field(default_factory=list)
    """Brokers that ended without being told to, with their last words."""

    @property
    def right(self) -> bool:
        """Nothing twice, nothing to the wrong client, and no broker gave up by itself."""
        return not (self.duplicated or self.misdelivered or self.crashed)


@dataclass
class Publication:
    """An event of an honest publisher."""

    kind: int
    at: float
    """Time at which the publisher began to publish it."""
    accepted: float | None = None
    """Time of the broker's answer."""
    node: int = -1
    """The broker that accepted it."""


@dataclass
class Told:
    """A gap that a subscriber was told of: from when to when events may be missing."""

    start: float
    end: float = float("inf")
    publisher: int | None = None
    """The node at which they were published, where the gap names it."""
    left: int | None = None
    """Events that the gap may still stand for; None if it gives no number."""

    def holds(self, event: Publication) -> bool:
        """Whether the event was certainly published meanwhile, and is one of those meant."""
        if not self.start <= event.at or (event.accepted or 0.0) > self.end or self.left == 0:
            return False
        if self.publisher is not None and self.publisher != event.node:
            return False
        if self.left is not None:
            self.left -= 1
        return True


@dataclass
class Listener:
    """An honest subscriber, and what it got."""

    kind: int
    got: Counter[int] = field(default_factory=Counter)
    gaps: list[Told] = field(default_factory=list)
    misdelivered: int = 0
    last: float = 0.0
    """Publication time of the last event that arrived."""
    heard: float = 0.0
    """Arrival time of that event."""


class LiveChaos:
    """One run: brokers, faults, clients, and what came of it."""

    def __init__(
        self,
        *,
        brokers: int = 12,
        seed: int = 0,
        every: float = 5.0,
        hostile: bool = True,
        publishers: int = 4,
        subscribers: int = 8,
        rate: float = 20.0,
        promise: Promise = "best effort",
        overlay: str = OVERLAY,
    ) -> None:
        self._stack = OVERLAYS.get(overlay, (f"--overlay={overlay}",))
        self.promise: Promise = promise
        self._chance = random.Random(f"{seed} faults")
        self._seed, self._every, self._hostile = seed, every, hostile
        self._counts = brokers, publishers, subscribers
        self._pause = 1 / rate
        self.brokers: list[BrokerProcess] = []
        self.publications: dict[int, Publication] = {}
        self.listeners: list[Listener] = []
        self.faults: Counter[str] = Counter()
        self._tasks: list[asyncio.Task[None]] = []
        self._attackers: subprocess.Popen[bytes] | None = None
        self._crashed: list[str] = []

    async def run(self, seconds: float, progress: Callable[[LiveChaos], None]) -> Outcome:
        """Run the test, from the start of the brokers to their end."""
        began = time.monotonic()
        try:
            await self._start()
            publishing = [self._spawn(self._publish(n)) for n in range(self._counts[1])]
            faults = self._spawn(self._trouble())
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                await asyncio.sleep(min(0.5, ends - time.monotonic()))
                progress(self)
                self._check([*publishing, faults])
            for task in publishing:
                task.cancel()
            await self._finish(faults, progress)
        finally:
            await self._stop()
        return self._outcome(time.monotonic() - began)

    # Beginning and end

    async def _start(self) -> None:
        count, _, subscribers = self._counts
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        for n, address in enumerate(addresses):
            joins = [f"--join={other}" for other in addresses[:3] if other != address]
            recovery = RECOVERING if self.promise == "recovered" else ()
            given = [*self._stack, *SETTINGS, *recovery, *joins]
            process = BrokerProcess(f"chaos-{n}", given, address=address)
            self.brokers.append(process)
        for broker in self.brokers:
            await self._listens(broker)
        ready = [asyncio.Event() for _ in range(subscribers)]
        for n, event in enumerate(ready):
            listener = Listener(n % KINDS)
            self.listeners.append(listener)
            self._spawn(self._listen(n, listener, event))
        async with asyncio.timeout(STARTING):
            await asyncio.gather(*(event.wait() for event in ready))
        if self._hostile:
            self._attackers = subprocess.Popen(
                [sys.executable, "-m", "shoal.live.hostile", str(self._seed), *addresses],
                env=self.brokers[0].environment,
            )

    async def _listens(self, broker: BrokerProcess) -> None:
        try:
            async with asyncio.timeout(STARTING):
                await asyncio.to_thread(broker.listens)
        except TimeoutError:
            broker.signal(signal.SIGKILL)
            raise LiveError(f"broker '{broker.name}' does not listen in {STARTING:g} s") from None

    async def _finish(
        self, faults: asyncio.Task[None], progress: Callable[[LiveChaos], None]
    ) -> None:
        """Wait until what was published has arrived, as far as it will."""
        if self._attackers is not None:
            self._attackers.kill()
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ENDING):
                await asyncio.wait([faults])
                self._check([faults])
                began = time.monotonic()
                while not self._complete() and time.monotonic() - max(began, self._heard()) < QUIET:
                    await asyncio.sleep(0.2)
                    progress(self)

    def _heard(self) -> float:
        return max(listener.heard for listener in self.listeners)

    def _complete(self) -> bool:
        return all(
            n in listener.got
            for n, event in self.publications.items()
            for listener in self.listeners
            if event.accepted is not None and event.kind == listener.kind
        )

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._attackers is not None:
            self._attackers.kill()
            self._attackers.wait()
        for broker in self.brokers:
            if not broker.running:
                self._crashed.append(f"{broker.name}: {broker.words()[-300:].strip()}")
            broker.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    @staticmethod
    def _check(tasks: list[asyncio.Task[None]]) -> None:
        """Raise what one of these has failed with."""
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()

    # Faults

    _stopping = False

    async def _trouble(self) -> None:
        """A fault now and then, one at a time; each broker is well again before the next."""
        chance = self._chance
        while not self._stopping:
            began = time.monotonic()
            broker = chance.choice(self.brokers)
            fault = chance.choice(FAULTS)
            pause = chance.uniform(0.2, 0.8) * self._every
            if not broker.running:
                raise LiveError(f"broker '{broker.name}' ended by itself: {broker.words()[-500:]}")
            self.faults[fault] += 1
            if fault == "stop":
                broker.signal(signal.SIGSTOP)
                try:
                    await asyncio.sleep(pause)
                finally:
                    broker.signal(signal.SIGCONT)
            else:
                broker.signal(signal.SIGKILL if fault == "kill" else signal.SIGTERM)
                await asyncio.to_thread(broker.process.wait, STARTING)
                if fault == "kill":
                    await asyncio.sleep(pause)
                broker.start()
                await self._listens(broker)
            await asyncio.sleep(max(0.0, began + self._every - time.monotonic()))

    # Honest clients

    async def _connect(self, number: int) -> Bus:
        addresses = [broker.address for broker in self.brokers]
        at = number % len(addresses)
        rotated = ",".join(addresses[at:] + addresses[:at])
        return await connect(rotated, name=f"honest-{number}", reconnect=(0.05, 0.5))

    async def _publish(self, number: int) -> None:
        bus = await self._connect(number * 3 + 1)
        count = 0
        try:
            while True:
                count += 1
                n = (count << 8) | number
                event = self.publications[n] = Publication(count % KINDS, time.monotonic())
                with contextlib.suppress(LiveError, TimeoutError):
                    async with asyncio.timeout(PUBLISHING):
                        await bus.publish(n=n, kind=event.kind)
                        event.accepted = time.monotonic()
                        event.node = -1 if bus.broker is None else bus.broker.node
                await asyncio.sleep(self._pause)
        finally:
            await bus.close()

    async def _listen(self, number: int, listener: Listener, ready: asyncio.Event) -> None:
        bus = await self._connect(number)
        try:
            wanted = f"kind = {listener.kind}"
            async with bus.subscribe(wanted, gaps=True, promise=self.promise) as events:
                await bus.settled()
                listener.last = listener.heard = time.monotonic()
                ready.set()
                await self._collect(bus, events, listener)
        finally:
            await bus.close()

    async def _collect(self, bus: Bus, events: Subscription, listener: Listener) -> None:
        item: Any
        async for item in events:
            now = time.monotonic()
            if isinstance(item, Gap):
                if item.publisher is not None:  # told once it was sought in vain
                    told = Told(now - STATED, now, item.publisher, item.count)
                    listener.gaps.append(told)
                    continue
                told = Told(listener.last - REORDERING)
                listener.gaps.append(told)
                self._spawn(self._regain(bus, told))
                continue
            n = item.get("n")
            event = self.publications.get(n)
            if event is None or event.kind != item.get("kind") or event.kind != listener.kind:
                listener.misdelivered += 1
                continue
            listener.got[n] += 1
            listener.last, listener.heard = max(listener.last, event.at), now

    async def _regain(self, bus: Bus, told: Told) -> None:
        """The gap ends when all brokers know the subscription again."""
        while True:
            with contextlib.suppress(LiveError):
                await bus.settled()
                told.end = time.monotonic()
                return
            await asyncio.sleep(0.1)

    # The table

    def _outcome(self, seconds: float) -> Outcome:
        sent = {n: e for n, e in self.publications.items() if e.accepted is not None}
        found = Outcome(
            sent=len(sent),
            unsure=len(self.publications) - len(sent),
            seconds=round(seconds, 1),
            faults=dict(self.faults),
            crashed=self._crashed,
        )
        for listener in self.listeners:
            owed = {n: event for n, event in sent.items() if event.kind == listener.kind}
            missing = [event for n, event in owed.items() if n not in listener.got]
            told = [event for event in missing if any(gap.holds(event) for gap in listener.gaps)]
            found.open_gaps += sum(gap.end == float("inf") for gap in listener.gaps)
            found.owed += len(owed)
            found.delivered += len(owed) - len(missing)
            found.gap += len(told)
            found.lost += len(missing) - len(told)
            found.duplicated += sum(count - 1 for count in listener.got.values())
            found.misdelivered += listener.misdelivered
        return found
