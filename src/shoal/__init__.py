"""Publish/subscribe by content for networks that never hold still.

Talk to a live network:

* :func:`connect` (``async with``) and :func:`connect_sync` give a bus to publish and subscribe on.
* :func:`publish` sends one event and is done.

Ask what a network would do:

* :func:`simulate` runs a :class:`RunConfig` and gives a :class:`RunResult` with its tables.

Work with content:

* ``Filter("temperature > 30")`` reads a filter; :data:`F` builds one in Python.
* :class:`MatchIndex` finds the filters that match an event; :mod:`shoal.spark` does so for
  DataFrames.

Every name here is imported when it is first used, so that importing Shoal stays light.
"""

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from shoal.content import AttributeFilter as Filter
    from shoal.content import Attributes as Attributes
    from shoal.content import Event as Event
    from shoal.content import F as F
    from shoal.content import FilterError as FilterError
    from shoal.content.index import MatchIndex as MatchIndex
    from shoal.live.broker import Broker as Broker
    from shoal.live.client import Bus as Bus
    from shoal.live.client import connect as connect
    from shoal.live.errors import LiveError as LiveError
    from shoal.live.settings import Settings as Settings
    from shoal.live.subscription import Gap as Gap
    from shoal.live.subscription import Received as Received
    from shoal.live.subscription import Subscription as Subscription
    from shoal.live.sync import SyncBus as SyncBus
    from shoal.live.sync import connect as connect_sync
    from shoal.live.sync import publish as publish
    from shoal.simulation import RunConfig as RunConfig
    from shoal.simulation import RunResult as RunResult
    from shoal.simulation import parse_config as parse_config
    from shoal.simulation import simulate as simulate
    from shoal.stack import StackError as StackError

__version__ = "0.1.0"

_HOME = {
    "Attributes": "content",
    "Broker": "live.broker",
    "Bus": "live.client",
    "Event": "content",
    "F": "content",
    "Filter": "content",
    "FilterError": "content",
    "Gap": "live.subscription",
    "LiveError": "live.errors",
    "MatchIndex": "content.index",
    "Received": "live.subscription",
    "RunConfig": "simulation",
    "RunResult": "simulation",
    "Settings": "live.settings",
    "StackError": "stack",
    "Subscription": "live.subscription",
    "SyncBus": "live.sync",
    "connect": "live.client",
    "connect_sync": "live.sync",
    "parse_config": "simulation",
    "publish": "live.sync",
    "simulate": "simulation",
}
"""The module below ``shoal`` that each public name is imported from."""
_THERE = {"Filter": "AttributeFilter", "connect_sync": "connect"}
"""The names of those that are called otherwise in their own module."""

__all__ = [
    "Attributes",
    "Broker",
    "Bus",
    "Event",
    "F",
    "Filter",
    "FilterError",
    "Gap",
    "LiveError",
    "MatchIndex",
    "Received",
    "RunConfig",
    "RunResult",
    "Settings",
    "StackError",
    "Subscription",
    "SyncBus",
    "__version__",
    "connect",
    "connect_sync",
    "parse_config",
    "publish",
    "simulate",
]

if _os.environ.get("SHOAL_PURE"):
    # Run the Python sources instead of the compiled modules: same results, for comparison.
    from shoal import _pure as _pure

    _pure.install()


def __getattr__(name: str) -> _Any:
    """Import a public name when it is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'shoal' has no attribute '{name}'")
    from importlib import import_module

    value = getattr(import_module(f"shoal.{_HOME[name]}"), _THERE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
