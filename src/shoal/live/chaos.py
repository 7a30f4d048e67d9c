"""Trouble for a live network: broker processes under faults, honest clients beside hostile ones.

Brokers form a tree or another overlay (:data:`OVERLAYS`) on which every event reaches all who want
it, so that nothing but trouble keeps an event from a subscriber. Every few seconds one of them is
killed, stopped for a while, or told to stop, and comes back. With the promise ``recovered``, now
and then two are killed at once, and every broker stands behind a bad wire
(:mod:`~shoal.live.proxy`) that is cut, delays messages or drops events between brokers. What the
honest clients saw is then put into one table (:mod:`~shoal.live.chaos_table`).

On a :class:`~shoal.live.virtual.VirtualLoop` with the same seed, the same brokers run in this
process, and time costs nothing but what they do in it. Such a run can be repeated, event by event.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Literal, TypeAlias

from shoal.live.chaos_table import Listener, Outcome, Publication, Told, fingerprint, outcome
from shoal.live.client import Bus, connect
from shoal.live.errors import LiveError
from shoal.live.hostile import attack
from shoal.live.messages import Promise
from shoal.live.processes import BrokerProcess, as_arguments, free_port
from shoal.live.proxy import Proxy
from shoal.live.settings import OVERLAY, check_recovers, settings_from
from shoal.live.subscription import Gap, Subscription
from shoal.live.virtual import VirtualLoop
from shoal.live.virtual_process import VirtualProcess, VirtualWire

KINDS: Final = 4
REORDERING: Final = 1.0
"""Seconds by which events may arrive in another order than they were published in."""
STATED: Final = 240.0
"""Seconds within which a recovery tells of what it cannot get."""
PAUSE: Final = 0.05
"""Seconds between two events of a publisher."""
PUBLISHING: Final = 10.0
"""Seconds after which a publisher no longer waits for an answer."""
STARTING: Final = 60.0
"""Seconds in which a broker has to listen."""
ENDING: Final = 120.0
"""Seconds in which all that was published is to arrive at the end."""
QUIET: Final = 15.0
"""Seconds without a delivery after which none is expected any more."""

Fault: TypeAlias = Literal["kill", "stop", "terminate", "kill two"]
FAULTS: Final[tuple[Fault, ...]] = ("kill", "stop", "terminate")
OVERLAYS: Final[dict[str, dict[str, Any]]] = {
    "lstree": {"overlay": {"name": "lstree", "max_degree": 4}},
    "graph": {"overlay": {"name": "graph", "degree": 4}, "routing": {"threshold": 1.0}},
}
"""Settings of brokers, by overlay: every event is to reach all who want it."""
WIRE_FAULTS: Final = ("cut", "delay", "drop")
WIRES: Final = 8
"""Faults of wires per fault of a broker."""
DROPPED: Final = 0.3
"""The share of messages with events that a bad wire drops."""
SETTINGS: Final[dict[str, Any]] = {
    "limits": {"rate": 100, "block": 1.0},  # all that a flood of one client costs
    "anyone_may_block": True,  # the attack is to be one
}


class LiveChaos:
    """One run: brokers, faults, clients, and what came of it."""

    def __init__(
        self,
        *,
        brokers: int = 12,
        seed: int = 0,
        every: float = 5.0,
        publishers: int = 4,
        subscribers: int = 8,
        promise: Promise = "best effort",
        overlay: str = OVERLAY,
        settings: Mapping[str, Any] = {},
    ) -> None:
        self._overlay, self._more = overlay, dict(settings)
        given = self._settings = SETTINGS | OVERLAYS.get(overlay, {"overlay": {"name": overlay}})
        given |= {"recovery": {"name": "combined-pull"}} if promise == "recovered" else {}
        for name, value in settings.items():
            was = given.get(name)
            both = isinstance(was, dict) and isinstance(value, dict)
            given[name] = was | value if both else value
        stack = settings_from(given).stack()  # an error if brokers cannot run it
        if promise == "recovered":
            check_recovers(stack)
        self.promise: Promise = promise
        self._chance = random.Random(f"{seed} faults")
        self._seed, self._every = seed, every
        self._counts = brokers, publishers, subscribers
        self._virtual: VirtualLoop | None = None
        self.brokers: list[BrokerProcess | VirtualProcess] = []
        self.proxies: list[Proxy | VirtualWire] = []
        """The wires in front of the brokers; none where only best effort is promised."""
        self.publications: dict[int, Publication] = {}
        self.listeners: list[Listener] = []
        self.faults: Counter[str] = Counter()
        self.addresses: list[str] = []
        """Where clients reach the brokers."""
        self._tasks: list[asyncio.Task[None]] = []
        self._attackers: subprocess.Popen[bytes] | None = None
        self._attack: asyncio.Task[None] | None = None
        self._crashed: list[str] = []
        self._held: set[int] = set()
        """Events that virtual brokers held when nothing arrived any more."""

    async def run(self, seconds: float, progress: Callable[[LiveChaos], None]) -> Outcome:
        """Run the test, from the start of the brokers to their end."""
        loop = asyncio.get_running_loop()
        self._now = loop.time
        self._virtual = loop if isinstance(loop, VirtualLoop) else None
        self._began = self._now()
        try:
            await self._start()
            publishing = [self._spawn(self._publish(n)) for n in range(self._counts[1])]
            faults = self._spawn(self._trouble())
            if self.proxies:
                publishing.append(self._spawn(self._bad_wires()))
            ends = self._now() + seconds
            while self._now() < ends:
                await asyncio.sleep(min(0.5, ends - self._now()))
                progress(self)
                self._check([*publishing, faults])
            for task in publishing:
                task.cancel()
            await self._finish(faults, progress)
        finally:
            await self._stop()
        found = self._outcome()
        found.faults, found.crashed = dict(self.faults), self._crashed
        if self._virtual is not None:
            found.fingerprint = fingerprint(self.publications, self.listeners)
        return found

    def _outcome(self) -> Outcome:
        found = outcome(self.publications, self.listeners, self._held)
        found.promise, found.seconds = self.promise, round(self.seconds(), 1)
        return found

    def command(self, seconds: float) -> str:
        """The command that repeats a virtual run of so many seconds with default clients."""
        return (
            f"shoal chaos --live --virtual --promise '{self.promise}' --overlay {self._overlay} "
            f"--brokers {self._counts[0]} --every {self._every:g} --minutes {seconds / 60} "
            f"--seed {self._seed} {shlex.join(as_arguments(self._more))}".rstrip()
        )

    def seconds(self) -> float:
        """Seconds since the beginning, of the time in which the brokers live."""
        return self._now() - self._began

    # Beginning and end

    async def _start(self) -> None:
        count, _, subscribers = self._counts
        virtual = self._virtual is not None
        ports = range(7000, 7000 + count) if virtual else [free_port() for _ in range(count)]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        if self.promise == "recovered":
            self.proxies = [await self._wire(n, address) for n, address in enumerate(addresses)]
        reached = self.addresses = [proxy.address for proxy in self.proxies] or addresses
        for n, address in enumerate(addresses):
            joins = [other for other in reached[:3] if other != reached[n]]
            given = {**self._settings, "join": joins}
            given |= {"advertise": reached[n]} if self.proxies else {}
            self.brokers.append(self._process(f"chaos-{n}", given, address))
        for broker in self.brokers:
            await self._listens(broker)
        ready = [asyncio.Event() for _ in range(subscribers)]
        for n, event in enumerate(ready):
            listener = Listener(n % KINDS)
            self.listeners.append(listener)
            self._spawn(self._listen(n, listener, event))
        async with asyncio.timeout(STARTING):
            await asyncio.gather(*(event.wait() for event in ready))
        first = self.brokers[0]
        if isinstance(first, BrokerProcess):
            self._attackers = subprocess.Popen(
                [sys.executable, "-m", "shoal.live.hostile", str(self._seed), *reached],
                env=first.environment,
            )
        else:
            self._attack = self._spawn(attack(self._seed, reached, virtual=True))

    async def _wire(self, number: int, address: str) -> Proxy | VirtualWire:
        seed = f"{self._seed} {number}"
        if self._virtual is not None:
            return VirtualWire(self._virtual, address, seed)
        return await Proxy(address, seed).start()

    def _process(
        self, name: str, settings: dict[str, Any], address: str
    ) -> BrokerProcess | VirtualProcess:
        if self._virtual is not None:
            given = {**settings, "listen": address, "seed": self._chance.getrandbits(32)}
            return VirtualProcess(self._virtual, name, given)
        return BrokerProcess(name, as_arguments(settings), address=address)

    async def _listens(self, broker: BrokerProcess | VirtualProcess) -> None:
        try:
            async with asyncio.timeout(STARTING):
                await broker.listening()
        except TimeoutError:
            broker.signal(signal.SIGKILL)
            raise LiveError(f"broker '{broker.name}' does not listen in {STARTING:g} s") from None

    async def _finish(
        self, faults: asyncio.Task[None], progress: Callable[[LiveChaos], None]
    ) -> None:
        """Wait until what was published has arrived, as far as it will."""
        if self._attackers is not None:
            self._attackers.kill()
        if self._attack is not None:
            self._attack.cancel()
        self._stopping = True
        with contextlib.suppress(TimeoutError):
            recovered = self.promise == "recovered"
            async with asyncio.timeout(STATED if recovered else ENDING):
                await asyncio.wait([faults])
                self._check([faults])
                began = self._now()
                while not self._complete() and self._now() - max(began, self._heard()) < QUIET:
                    await asyncio.sleep(0.2)
                    progress(self)
                for broker in self.brokers if recovered else ():
                    if isinstance(broker, VirtualProcess):
                        self._held |= broker.holds()
                while recovered and not self._outcome().right:
                    await asyncio.sleep(1.0)  # until it is there, or its subscribers are told
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
        for proxy in self.proxies:
            await proxy.stop()

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
            began = self._now()
            broker = chance.choice(self.brokers)
            fault = chance.choice((*FAULTS, "kill two") if self.proxies else FAULTS)
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
                hit = [broker]
                if fault == "kill two":
                    hit.append(chance.choice([one for one in self.brokers if one is not broker]))
                for one in hit:
                    one.signal(signal.SIGTERM if fault == "terminate" else signal.SIGKILL)
                    await one.ended(STARTING)
                if fault != "terminate":
                    await asyncio.sleep(pause)
                for one in hit:
                    one.start()
                    await self._listens(one)
            await asyncio.sleep(max(0.0, began + self._every - self._now()))

    async def _bad_wires(self) -> None:
        """Faults of the wires, beside those of the brokers; each heals before the next."""
        chance = random.Random(f"{self._seed} wires")
        while True:
            proxy, fault = chance.choice(self.proxies), chance.choice(WIRE_FAULTS)
            self.faults[fault] += 1
            try:
                if fault == "cut":
                    proxy.cut()
                elif fault == "delay":
                    proxy.fault(delay=chance.uniform(0.05, 0.5))
                else:
                    proxy.fault(loss=DROPPED)
                await asyncio.sleep(self._every / WIRES)
            finally:
                proxy.fault()

    # Honest clients

    async def _connect(self, number: int) -> Bus:
        addresses = self.addresses
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
                event = self.publications[n] = Publication(count % KINDS, self._now())
                with contextlib.suppress(LiveError, TimeoutError):
                    async with asyncio.timeout(PUBLISHING):
                        await bus.publish(n=n, kind=event.kind)
                        event.accepted = self._now()
                        event.node = -1 if bus.broker is None else bus.broker.node
                await asyncio.sleep(PAUSE)
        finally:
            await bus.close()

    async def _listen(self, number: int, listener: Listener, ready: asyncio.Event) -> None:
        bus = await self._connect(number)
        try:
            wanted = f"kind = {listener.kind}"
            async with bus.subscribe(wanted, gaps=True, promise=self.promise) as events:
                await bus.settled()
                listener.last = listener.heard = self._now()
                ready.set()
                await self._collect(bus, events, listener)
        finally:
            await bus.close()

    async def _collect(self, bus: Bus, events: Subscription, listener: Listener) -> None:
        item: Any
        async for item in events:
            now = self._now()
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
                told.end = self._now()
                return
            await asyncio.sleep(0.1)
