"""What a run recorded, in the parts in which the pipeline hands it to cases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from shoal.pipeline.measure.cases import ENTRIES

Parts = dict[str, list[dict[str, Any]]]


def in_parts(tables: Mapping[str, pa.Table]) -> Parts:
    """Rows per table; the notes on entries of routing tables are apart."""
    rows = {name: table.to_pylist() for name, table in tables.items()}
    notes = rows.pop("notes", [])
    for name, on_entries in (("notes", False), (ENTRIES, True)):
        rows[name] = [note for note in notes if note["what"].startswith("entry ") == on_entries]
    return rows
