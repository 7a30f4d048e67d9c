"""The documentation of the tables is that of the schemas."""

from __future__ import annotations

import re
from pathlib import Path

from shoal.record import SCHEMAS

DOCS = Path(__file__).resolve().parents[2] / "docs" / "tables.md"


def test_every_table_and_column_is_documented_with_its_type() -> None:
    documented: dict[str, list[tuple[str, str]]] = {}
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        if table := re.fullmatch(r"## `(\w+)`", line):
            columns = documented.setdefault(table[1], [])
        elif column := re.match(r"\| `(\w+)` \| (\S+) \|", line):
            columns.append((column[1], column[2]))
    assert documented == {
        name: [(field.name, str(field.type)) for field in schema]
        for name, schema in SCHEMAS.items()
    }
