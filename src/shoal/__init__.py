"""Shoal: publish/subscribe by content for networks that never hold still."""

import os as _os
from typing import Any as _Any

__version__ = "0.1.0"

if _os.environ.get("SHOAL_PURE"):
    # Run the Python sources instead of the compiled modules: same results, for comparison.
    from shoal import _pure as _pure

    _pure.install()


def __getattr__(name: str) -> _Any:
    """The client's front doors are imported when they are used: importing Shoal stays light."""
    if name == "connect":
        from shoal.live.client import connect

        return connect
    if name == "connect_sync":
        from shoal.live.sync import connect as connect_sync

        return connect_sync
    raise AttributeError(f"module 'shoal' has no attribute '{name}'")
