"""The same measures over live and simulated runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import shoal.pipeline.measure.graphs  # registers its measures
import shoal.pipeline.measure.recovery  # registers its measures
import shoal.pipeline.measure.runs  # noqa: F401  # registers its measures
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.measure.registry import find_measure
from shoal.pipeline.plan.experiment import PlannedRun, plan_frame
from shoal.pipeline.tables.dataframes import Tables
from shoal.pipeline.tables.live import gather, is_recording
from shoal.pipeline.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USUAL: Final = (
    "delivery",
    "messages_per_event",
    "control_share",
    "receivers",
    "route_length",
    "recovered_share",
    "recovery_delay",
)


@dataclass(frozen=True)
class Measured:
    """One run and its measures."""

    run: str
    stack: str
    values: dict[str, float]


def measured(
    spark: SparkSession, folders: Sequence[Path], out: Path, names: Sequence[str]
) -> list[Measured]:
    """Measures by run. Recordings are first put together in ``out``."""
    asked = [find_measure(name) for name in names]
    for folder in folders:
        if not (folder / "tables").is_dir():
            raise PipelineError(f"{folder} holds no tables", "name a folder given to --record")
    recordings = [folder for folder in folders if is_recording(folder)]
    found: list[tuple[Path, list[PlannedRun]]] = [
        (folder, _planned(folder)) for folder in folders if folder not in recordings
    ]
    if recordings:
        found.append((out, gather(recordings, out)))
    rows = []
    for folder, runs in found:
        plan, tables = plan_frame(spark, runs), Tables(spark, folder)
        values: dict[str, dict[str, float]] = {run.variant: {} for run in runs}
        for measure in asked:
            for row in measure(plan, tables).collect():
                if row["value"] is not None:
                    values[row["variant"]][measure.name] = row["value"]
        rows += [Measured(run.run_id, run.point, values[run.variant]) for run in runs]
    return rows


def _planned(folder: Path) -> list[PlannedRun]:
    """A simulated folder's runs, whoever simulated them."""
    store = Store(folder)
    rows = store.rows(store.inventory(), ["run_id", "configuration", "seed", "status"]).to_pylist()
    return [
        _named(row["run_id"], row["configuration"], row["seed"])
        for row in rows
        if row["status"] == "done"
    ]


def _named(run: str, configuration: str, seed: int) -> PlannedRun:
    raw = json.loads(configuration)
    kinds = ("topology", "overlay", "routing", "reconfiguration", "recovery")
    parts = [raw.get(kind) or {} for kind in kinds]
    stack = " ".join(part["name"] for part in parts if "name" in part)
    return PlannedRun(run, "simulated", run, None, stack, seed, configuration, 0.0)
