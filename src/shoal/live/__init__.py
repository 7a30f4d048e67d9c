"""The live network: brokers, which run the simulator's protocol stacks on sockets, and clients.

* ``broker``: a node, with its ``settings``; ``host`` is what its stack sees of the world.
* ``edge``, on ``edge_table`` and ``entries``: the filters of a broker's clients. ``session``: one
  client; ``outbox`` and ``ordering``: the events that wait for it.
* ``peers``, ``peer``, ``out_of_band``: other brokers. ``departures``: brokers that stop and come
  back; ``lives``: brokers that have started; ``waves``: when all brokers know something.
* ``wire``, ``messages``, ``connection``: frames, messages, and what carries them. ``dialling``,
  ``lobby``, ``handshake``: how a connection is made. ``security``, ``proof``: TLS, rules, tokens.
* ``budget``, ``turns``, ``heartbeat``: memory, time and signs of life, shared by connections.
* ``client`` (:func:`shoal.connect`), with ``reconnecting`` and ``moving``; ``sync`` has the same
  without an event loop.
* ``recording``: the tables; ``metrics`` and ``status``: for operators.
* ``chaos``: brokers under faults; ``virtual``: brokers in one process and in virtual time.

Nothing here needs Spark or Java, and a broker starts in well under a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.live.broker import Broker
    from shoal.live.client import Bus, connect
    from shoal.live.errors import DisconnectedError, LiveError, ProtocolError, RefusedError
    from shoal.live.settings import Limits, Settings
    from shoal.live.subscription import Gap, Received, Subscription

__all__ = [
    "Broker",
    "Bus",
    "DisconnectedError",
    "Gap",
    "Limits",
    "LiveError",
    "ProtocolError",
    "Received",
    "RefusedError",
    "Settings",
    "Subscription",
    "connect",
]

_HOME = {
    "Broker": "broker",
    "Limits": "settings",
    "Settings": "settings",
    "Bus": "client",
    "Gap": "subscription",
    "Received": "subscription",
    "Subscription": "subscription",
    "connect": "client",
}


def __getattr__(name: str) -> Any:
    """Names are imported on first use, so that a client does not load a broker."""
    if name not in __all__:
        raise AttributeError(f"module 'shoal.live' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"shoal.live.{_HOME.get(name, 'errors')}"), name)
