"""What is recorded of a run, simulated or live: the tables' schemas, in one place."""

from shoal.record.schemas import SCHEMAS, TABLES, TableName

__all__ = ["SCHEMAS", "TABLES", "TableName"]
