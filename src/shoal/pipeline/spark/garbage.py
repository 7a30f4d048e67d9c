"""Garbage collection in Spark workers: imported modules are not scanned after each task."""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """Once per process: take what there is out of the collector's sight.

    Spark has its workers collect garbage after each task. With numba and pyarrow loaded that takes
    longer than a small task itself.
    """
    global _settled
    if not _settled:
        gc.collect()
        gc.freeze()
        _settled = True
