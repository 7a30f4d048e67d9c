"""Measures of live and simulated runs side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge.claims import Claim
from shoal.pipeline.judge.samples import Row
from shoal.pipeline.measure.compute import check_defaults, measure_all, questions, to_rows
from shoal.pipeline.measure.registry import Question
from shoal.pipeline.plan.experiment import PlannedRun, plan_frame
from shoal.pipeline.progress import Progress
from shoal.pipeline.tables.dataframes import Tables
from shoal.pipeline.tables.live import gather, is_recording
from shoal.pipeline.tables.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BESIDE: Final = "report"
"""The experiment in which runs of any origin stand side by side."""
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
    planned: PlannedRun
    """Under its name beside the others, in the experiment :data:`BESIDE`."""
    answers: list[Row]
    """The measures' values, those over time among them."""


def check_asked(folders: Sequence[Path], names: Sequence[str]) -> None:
    """An error if a folder holds no tables, or there is no such measure."""
    for name in names:
        check_defaults(name)
    for folder in folders:
        if not (folder / "tables").is_dir():
            raise PipelineError(f"{folder} holds no tables", "name a folder given to --record")


def measured(
    spark: SparkSession,
    folders: Sequence[Path],
    out: Path,
    names: Sequence[str],
    claims: Sequence[Claim] = (),
    progress: Progress | None = None,
) -> list[Measured]:
    """Measures by run, and those that claims ask for. Recordings are first put together in ``out``.

    The claims' checks speak of the experiment :data:`BESIDE`.
    """
    asked = [Question(name, {}, frozenset({BESIDE})) for name in names]
    asked += [question for question in questions(claims, ()) if question.measure not in names]
    recordings = [folder for folder in folders if is_recording(folder)]
    found: list[tuple[Path, list[PlannedRun]]] = [
        (folder, _planned(folder)) for folder in folders if folder not in recordings
    ]
    if recordings:
        found.append((out, gather(recordings, out, progress)))
    rows: list[Measured] = []
    for folder, runs in found:
        named = [_beside(run, {row.planned.variant for row in rows}) for run in runs]
        answers = measure_all(plan_frame(spark, named), Tables(spark, folder), asked, progress)
        by_run: dict[str, list[Row]] = {run.variant: [] for run in named}
        for row in to_rows(answers):
            if row[5] is not None:
                by_run[row[2]].append(row)
        for run in named:
            mine = by_run[run.variant]
            values = {row[0]: row[5] for row in mine if row[3] is None and row[5] is not None}
            rows.append(Measured(run.run_id, run.point, values, run, mine))
    return rows


def _beside(run: PlannedRun, taken: set[str]) -> PlannedRun:
    """A run under a name that tells it from others on the same page."""
    name = f"{run.experiment}: {run.point.partition(' frame=')[0]}"
    return replace(
        run, experiment=BESIDE, variant=f"{name} ({run.run_id})" if name in taken else name
    )


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
