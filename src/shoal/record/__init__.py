"""Schemas of the recorded tables, for simulated and live runs alike."""

from shoal.record.schemas import SCHEMAS, TABLES, TableName

__all__ = ["SCHEMAS", "TABLES", "TableName"]
