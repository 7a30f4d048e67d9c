"""Signs of life over every connection, and an eye on those of the others."""

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
TALK = 30.0
"""Seconds that a connection for messages out of band is kept."""


async def keep_alive(broker: Broker) -> None:
    """Beat over every connection, and close those whose other ends are silent."""
    interval = broker.settings.heartbeat
    told: object = ()
    while True:
        broker.ticked()
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
                session.connection.mention(frame)
        told = others
        await asyncio.sleep(interval)
