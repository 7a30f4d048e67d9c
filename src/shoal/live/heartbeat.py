"""Signs of life: a broker sends them, misses those of others, and notices when it is late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from shoal.live.messages import Others
from shoal.live.wire import encode

if TYPE_CHECKING:
    from shoal.live.broker import Broker

PATIENCE: Final = 4
"""Heartbeats after which a silent broker is given up."""
CLIENT_PATIENCE: Final = 30.0
"""Seconds after which a silent client is given up."""
TALK: Final = 30.0
"""Seconds that a connection for messages out of band is kept."""
LATE: Final = 1.0
"""Seconds by which the event loop must be late for that to be noticed."""


class Lateness:
    """How late the event loop came round last, as after the process was suspended."""

    def __init__(self, broker: Broker) -> None:
        self._time = broker.loop.time
        self._interval = broker.settings.heartbeat
        self._counts_for = broker.settings.limits.handshake
        self._ticked = self._time()
        self._noticed = (0.0, 0.0)
        """Lateness in seconds, and the time until which it counts."""

    def tick(self) -> None:
        """The event loop has come round, as it should once per interval."""
        now = self._time()
        late = now - self._ticked - self._interval
        if late > LATE:
            self._noticed = late, now + self._counts_for
        self._ticked = now

    def seconds(self) -> float:
        """Seconds by which messages may have waited here, since this process did not run."""
        now = self._time()
        late, until = self._noticed
        late = max(now - self._ticked - self._interval, late if now < until else 0.0)
        return late if late > LATE else 0.0


async def keep_alive(broker: Broker) -> None:
    """Beat over every connection, and close those whose other ends are silent."""
    interval = broker.settings.heartbeat
    told: object = ()
    while True:
        broker.lateness.tick()
        talks = broker.out_of_band.peers()
        for peer in [*broker.peers.connected.values(), *talks]:
            peer.connection.beat(PATIENCE * interval)
        for peer in talks:
            if broker.loop.time() - peer.since > TALK:
                peer.connection.close("nothing more to say out of band")
        for session in list(broker.sessions):
            session.connection.beat(max(CLIENT_PATIENCE, PATIENCE * interval))
        others = broker.others()
        if others and others != told:
            frame = encode(Others(others))
            for session in broker.sessions:
                session.connection.send_or_drop(frame)
        told = others
        await asyncio.sleep(interval)
