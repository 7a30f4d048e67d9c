"""Schemas of the recorded tables, for simulated and live runs alike."""

from shoal.record.schemas import SCHEMAS, TABLES, columns, table

__all__ = ["SCHEMAS", "TABLES", "columns", "table"]
