"""Shoal: publish/subscribe by content for networks that never hold still."""

import os as _os

__version__ = "0.1.0"

if _os.environ.get("SHOAL_PURE"):
    # Run the Python sources instead of the compiled modules: same results, for comparison.
    from shoal import _pure as _pure

    _pure.install()
