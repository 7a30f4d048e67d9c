"""The C extension for single events, where it was built; None where not, or with SHOAL_PURE set."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from shoal.content.index import kernels as k

FIELDS: Final = (
    k.COLUMNS, k.SEGMENTS, k.SEGMENT_TABLE, k.SNAPSHOTS, k.SNAPSHOT_TABLE, k.RECENT,
    k.RECENT_START, k.RECENT_IDS, k.RECENT_COLUMNS, k.RECENT_LOW, k.RECENT_HIGH, k.SEEN,
    k.TOUCHED, k.TOUCHED_COUNT,
    k.SNAPSHOT, k.FREE_GROUPS, k.GROUP_STARTS, k.GROUP_COLUMNS, k.GROUP_TABLE,
    k.WIDTH, k.KEYS, k.EXACT, k.BLOCKS, k.BOUNDS, k.IDS, k.ALIVE, k.ZONES, k.SUPERS, k.SLOTS,
    k.SLOT_COUNT, k.RESIDUAL_START, k.RESIDUAL_COLUMNS, k.RESIDUAL_CODES, k.RESIDUAL_EXACT,
    k.SPECIAL, k.GROUP_SIZE,
    k.CUTS, k.CUT_COUNT, k.CUT_CELLS, k.CUT_BASE, k.CUT_SCALE, k.CUT_LAST_CELL, k.CUT_SIZE,
)  # fmt: skip


def _load() -> Any:
    if os.environ.get("SHOAL_PURE"):
        return None
    try:
        from shoal.content.index import _single
    except ImportError:
        return None
    extension: Any = _single
    extension.configure(FIELDS)
    return extension


_extension: Final = _load()
match: Callable[..., int] | None = _extension and _extension.match
"""(event, vocabulary in brief, addresses…) -> how many ids were written; None: use the kernels."""
bury: Final[Callable[..., int]] = _extension.bury if _extension else k.bury
"""See :func:`shoal.content.index.kernels.bury`."""
