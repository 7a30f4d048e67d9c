"""The live network: the protocols of :mod:`shoal.routing` on real sockets.

* :mod:`~shoal.live.broker`: a node: its stack, its links to peers, its clients.
* :mod:`~shoal.live.client` (:func:`shoal.connect`) and its synchronous face,
  :mod:`~shoal.live.sync`.
* :mod:`~shoal.live.wire`, :mod:`~shoal.live.messages`, :mod:`~shoal.live.connection`: frames, what
  is said, and over what.
* :mod:`~shoal.live.security`: TLS, tokens, access rules. :mod:`~shoal.live.recording`: the tables.

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
