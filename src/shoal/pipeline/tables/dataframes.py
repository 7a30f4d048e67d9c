"""The recorded tables of an output folder as DataFrames, read when asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.plan.experiment import read_plan
from shoal.pipeline.tables.store import Inventory, Store
from shoal.record import SCHEMAS, TABLES
from shoal.simulation.config import RunConfig, parse_config
from shoal.stack.registry import suggestion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Tables(Mapping[str, "DataFrame"]):
    """Tables by name: ``tables["traffic"]``. One that nobody wrote is empty, with its columns."""

    def __init__(self, spark: SparkSession, out: Path) -> None:
        self.spark = spark
        self.store = Store(out)
        self._found: Inventory | None = None
        self._frames: dict[str, DataFrame] = {}

    def only(self, runs: Collection[str]) -> Tables:
        """These tables without the files that hold none of some runs, which Spark need not read."""
        narrowed = Tables(self.spark, self.store.out)
        narrowed._found = self._inventory().only(runs)
        return narrowed

    def __getitem__(self, name: str) -> DataFrame:
        if name not in SCHEMAS:
            raise KeyError(f"no table '{name}'{suggestion(name, list(TABLES))}")
        if name not in self._frames:
            self._frames[name] = self._load(name)
        return self._frames[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)

    def _load(self, name: str) -> DataFrame:
        paths = [_literal(path) for path in self.store.files(self._inventory(), name)]
        schema = spark_schema(name)
        if not paths:
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(*paths)

    def _inventory(self) -> Inventory:
        if self._found is None:
            self._found = self.store.inventory()
        return self._found


def spark_schema(table: str) -> StructType:
    """A table's schema, as Spark has it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(SCHEMAS[table])


def _literal(path: Path) -> str:
    """A path with the characters escaped that Spark would read as a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", str(path))


def find_configuration(out: Path, run_id: str) -> RunConfig:
    """The configuration of a run in a folder, by its id or the beginning of it."""
    store = Store(out)
    found = store.inventory()
    known: dict[str, str] = {}
    rows = store.rows(found, ["run_id", "configuration"]).to_pylist()
    known.update((row["run_id"], row["configuration"]) for row in rows)
    if (out / "plan.parquet").exists():
        known.update((run.run_id, run.configuration) for run in read_plan(out))
    matching = sorted(name for name in known if run_id and name.startswith(run_id))
    if len(matching) != 1:
        raise PipelineError(
            f"{'several runs begin with' if matching else 'no run'} '{run_id}' in {out}",
            f"give more of its id: {', '.join(matching[:3])}, …"
            if matching
            else "take an id from the runs table, or another --out folder",
        )
    return parse_config(json.loads(known[matching[0]]))
