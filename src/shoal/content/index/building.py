"""The kernels that lay lanes out and read them back: building.c, or numba's where it is not built.

``ordering`` and ``unfolding`` have the functions of the modules of these names.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from shoal.content.index import fields as f
from shoal.content.native import extension

FIELDS = (
    f.CUTS, f.CUT_COUNT, f.CUT_CELLS, f.CUT_BASE, f.CUT_SCALE, f.CUT_LAST_CELL, f.CUT_SIZE,
    f.WIDTH, f.KEYS, f.EXACT, f.BOUNDS, f.IDS, f.SLOTS, f.SLOT_COUNT,
    f.RESIDUAL_START, f.RESIDUAL_COLUMNS, f.RESIDUAL_CODES, f.RESIDUAL_EXACT,
)  # fmt: skip

_extension = extension("content._building")
if _extension is not None:
    _extension.configure(FIELDS)
ordering: Any = _extension or import_module("shoal.content.index.ordering")
unfolding: Any = _extension or import_module("shoal.content.index.unfolding")
