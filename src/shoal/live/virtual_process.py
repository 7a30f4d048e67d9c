"""Brokers on a virtual loop with the habits of processes, behind wires with those of proxies.

``shoal chaos --live --virtual`` puts them in the place of
:class:`~shoal.live.processes.BrokerProcess` and :class:`~shoal.live.proxy.Proxy`.
"""

from __future__ import annotations

import asyncio
import math
import random
import signal
from typing import Any

from shoal.content import AttributeFilter
from shoal.live.broker import Broker
from shoal.live.proxy import LARGEST, with_events
from shoal.live.settings import settings_from
from shoal.live.virtual import VirtualLoop
from shoal.live.wire import LENGTH, Splitter, parse_address


class VirtualProcess:
    """A broker that can be stopped, killed and started again."""

    def __init__(self, loop: VirtualLoop, name: str, settings: dict[str, Any]) -> None:
        self.name = name
        self.address: str = settings["listen"]
        self._settings = settings_from({**settings, "name": name})
        self._loop = loop
        self._broker: Broker | None = None
        self.start()

    def start(self) -> None:
        """Start it, for the first time or again."""
        self._ending: asyncio.Task[None] | None = None
        self._starting = self._loop.create_task(self._loop.start(self._settings))

    async def listening(self) -> None:
        """Wait until it listens."""
        self._broker = await self._starting

    async def ended(self, seconds: float) -> None:
        """Wait until it has ended."""
        if self._ending is not None:
            async with asyncio.timeout(seconds):
                await self._ending
            self._broker = None

    def holds(self) -> set[int]:
        """Numbers of the honest clients' events that its recovery keeps."""
        recovery = None if self._broker is None else self._broker.layers.recovery
        held = [] if recovery is None else recovery.held(AttributeFilter("kind >= 0"), math.inf)
        contents: list[Any] = [event.content for event in held]
        return {content.values["n"] for content in contents}

    def words(self) -> str:
        """The broker's last words: none, as its log is that of this process."""
        return ""

    @property
    def running(self) -> bool:
        """Whether the broker is there, also if it is stopped."""
        return self._broker is not None and self._broker.running

    def signal(self, number: signal.Signals) -> None:
        """Do what this signal does to a process."""
        assert self._broker is not None
        if number == signal.SIGKILL:
            self._loop.kill(self._broker)
            self._broker = None
        elif number == signal.SIGSTOP:
            self._loop.stop_process(self._broker)
        elif number == signal.SIGCONT:
            self._loop.go_on(self._broker)
        else:
            self._ending = self._loop.create_task(self._loop.terminate(self._broker))

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.running:
            self.signal(signal.SIGKILL)


class VirtualWire:
    """The wire in front of a virtual broker; its faults can be set at any time."""

    def __init__(self, loop: VirtualLoop, address: str, seed: str) -> None:
        self._loop = loop
        self._port = parse_address(address)[1]
        self._chance = random.Random(seed)
        self._events = with_events()
        self._loss = 0.0
        self.address = address

    def fault(self, delay: float = 0.0, loss: float = 0.0) -> None:
        """Delay everything by so many seconds; drop this share of messages with events."""
        self._loss = loss
        place = self._loop.places.get(self._port)
        if place is not None:  # a broker that is down has no wire
            place.delay = delay
            place.lossy = self._leave if loss else None

    def cut(self) -> None:
        """Every connection breaks, with what was on its way."""
        place = self._loop.places.get(self._port)
        for end in [] if place is None else list(place.ends):
            end.reset()

    async def stop(self) -> None:
        """Do nothing: a virtual process holds no resources."""

    def _leave(self, data: bytes) -> bytes:
        splitter, kept = Splitter(LARGEST), b""
        for frame in splitter.feed(data):
            head = bytes(frame[1:40])
            lost = self._chance.random() < self._loss
            if not (lost and any(map(head.startswith, self._events))):
                kept += LENGTH.pack(len(frame)) + frame
        return data if splitter.partial else kept  # a part of something large
