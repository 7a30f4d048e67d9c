"""The C extension for single events: its functions, or None where it is not built or not used."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any, Final

from shoal.content.index import fields as f
from shoal.content.native import extension

FIELDS: Final = (
    f.COLUMNS, f.SEGMENTS, f.SEGMENT_TABLE, f.SNAPSHOTS, f.SNAPSHOT_TABLE, f.RECENT,
    f.RECENT_START, f.RECENT_IDS, f.RECENT_COLUMNS, f.RECENT_LOW, f.RECENT_HIGH, f.SEEN,
    f.TOUCHED, f.TOUCHED_COUNT, f.READY, f.SCRATCH_CODES, f.SCRATCH_KEYS, f.SCRATCH_OUT,
    f.SNAPSHOT, f.FREE_GROUPS, f.GROUP_STARTS, f.GROUP_COLUMNS, f.GROUP_TABLE,
    f.HANDLES, f.HANDLE_COUNT, f.PLACES, f.FLAGGED, f.LIVE,
    f.WIDTH, f.KEYS, f.EXACT, f.BLOCKS, f.BOUNDS, f.IDS, f.ALIVE, f.ZONES, f.SUPERS, f.SLOTS,
    f.SLOT_COUNT, f.RESIDUAL_START, f.RESIDUAL_COLUMNS, f.RESIDUAL_CODES, f.RESIDUAL_EXACT,
    f.SPECIAL, f.GROUP_SIZE,
    f.CUTS, f.CUT_COUNT, f.CUT_CELLS, f.CUT_BASE, f.CUT_SCALE, f.CUT_LAST_CELL, f.CUT_SIZE,
)  # fmt: skip


def _load() -> Any:
    found = extension("content.index._single")
    if found is not None and getattr(found, "LAYOUT", None) != f.LAYOUT:
        warnings.warn(
            "the matching extension is of another version; install Shoal again", stacklevel=2
        )
        return None
    if found is not None:
        found.configure(FIELDS)
    return found


def kernels() -> Any:
    """The compiled kernels, loaded when first asked for."""
    global _kernels
    if _kernels is None:
        from shoal.content.index import kernels as loaded

        _kernels = loaded
    return _kernels


_kernels: Any = None
_extension: Final = _load()
match: Callable[..., list[int]] | None = _extension and _extension.match
"""(entries, addresses…) -> the ids found; None: use the kernels."""
lock: Final = threading.RLock
"""Makes the lock of an index, which is held wherever ``quick`` does not answer."""
quick: Callable[..., Any] | None = _extension and _extension.quick
"""(event, vocabulary in brief, index, raw) -> the ids found, or None where it takes a lock."""
count: Final[Callable[..., int] | None] = _extension and _extension.count
"""(entries, addresses…) -> how many ids were written."""
spread: Final[Callable[..., bytes] | None] = _extension and _extension.spread
"""(event, vocabulary in brief) -> the event's entries."""


def _bury(segment: int, handle: int) -> int:
    found: int = kernels().bury(segment, handle)
    return found


bury: Final[Callable[[int, int], int]] = _extension.bury if _extension else _bury
"""Clears the live bits of a handle's lanes: in C, or :func:`shoal.content.index.kernels.bury`."""
