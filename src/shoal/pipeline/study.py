"""A user's own experiment: simulate, measure, and leave a report like a paper's.

The folder then holds the recorded tables, ``plan.parquet``, ``measures.parquet`` (a row per run and
measure), ``summary.csv`` (means and 95% intervals) and ``report.html``.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from shoal.pipeline.judge.samples import NotMeasured, Samples
from shoal.pipeline.judge.statistics import Estimate, jackknife
from shoal.pipeline.measure.compute import (
    check_defaults,
    figures_of,
    measure_all,
    to_rows,
    write_values,
)
from shoal.pipeline.measure.registry import Question, find_measure
from shoal.pipeline.paper import Paper
from shoal.pipeline.plan.experiment import Experiment, PlannedRun, Tier, plan, plan_frame
from shoal.pipeline.plan.experiment import write_plan as keep_plan
from shoal.pipeline.progress import ConsoleProgress
from shoal.pipeline.report.page import Reproduced, write_report
from shoal.pipeline.simulate.sweep import SweepOutcome, sweep
from shoal.pipeline.spark.session import check_master, spark_session
from shoal.pipeline.tables.dataframes import Tables
from shoal.pipeline.tables.store import Store
from shoal.simulation import RunConfig, parse_config

USUAL: Final = ("delivery", "all_messages_per_event", "overhead", "misrouted", "settle_time")
"""The measures of an experiment that names none."""


@dataclass(frozen=True)
class Row:
    """Estimates of all measures over the seeds, for one variant at one point."""

    variant: str
    point: Mapping[str, Any]
    """The swept keys and their values."""
    values: Mapping[str, Estimate | None]
    """Estimate per measure; None where the measure does not apply."""


@dataclass(frozen=True)
class Study:
    """Outcome of an experiment."""

    title: str
    rows: tuple[Row, ...]
    measures: tuple[str, ...]
    units: tuple[str, ...]
    sweep: SweepOutcome
    report: Path
    folder: Path


def study(
    experiment: Experiment,
    out: Path,
    command: Sequence[str],
    tier: Tier = "full",
    *,
    seeds: int | None = None,
    master: str = "local[*]",
    retry: bool = False,
) -> Study:
    """Run an experiment into a folder; ``command`` is what the report says to run it again with."""
    measures = experiment.measures or USUAL
    units = tuple(check_defaults(name) for name in measures)
    experiment = recording(experiment, measures)
    planned = plan([experiment], tier, seeds)
    check_master(master)
    store = Store(out)
    store.prepare()
    with store.lock():  # the plan of a sweep under way stays
        keep_plan(planned, out)
    runs = [replace(run, variant=_label(run, experiment.axis)) for run in planned]
    progress = ConsoleProgress()
    for text in dict.fromkeys(text for run in planned if run.seed == 0 for text in _warnings(run)):
        progress.note(f"warning: {text}")
    progress.stage("Starting Spark")
    with spark_session(master, out) as spark:
        swept = sweep(spark, planned, out, retry=retry, progress=progress)
        asked = [Question(name, {}, frozenset({experiment.name})) for name in measures]
        values = measure_all(plan_frame(spark, runs), Tables(spark, out), asked, progress)
    write_values(values, out)
    samples = Samples(to_rows(values))
    rows = tuple(_rows(runs, planned, samples, measures))
    _write_summary(rows, dict(zip(measures, units, strict=True)), out)
    paper = _paper(experiment, runs, measures)
    result = Reproduced(paper, tier, (), samples, runs, swept, tuple(command))
    report = write_report([result], out)
    return Study(experiment.title, rows, measures, units, swept, report, out)


def recording(experiment: Experiment, measures: Sequence[str]) -> Experiment:
    """The experiment with all tables recorded that its measures read."""
    needed = {table for name in measures for table in find_measure(name).tables} - {"runs"}

    def with_tables(configuration: Mapping[str, Any]) -> Mapping[str, Any]:
        record = list(configuration.get("record", RunConfig().record))
        missing = sorted(needed - set(record))
        return {**configuration, "record": record + missing} if missing else configuration

    variants = {
        label: with_tables(override) if "record" in override else override
        for label, override in experiment.variants.items()
    }
    return replace(experiment, base=with_tables(experiment.base), variants=variants)


def _warnings(run: PlannedRun) -> list[str]:
    found = parse_config(json.loads(run.configuration)).warnings()
    return [f"variant '{run.variant}': {text}" for text in found]


def _label(run: PlannedRun, axis: str | None) -> str:
    """The name of a run's variant with the swept values that are not on the axis."""
    beside = [
        f"{key.rpartition('.')[2]} = {value}"
        for key, value in json.loads(run.point).items()
        if key != axis or run.x is None
    ]
    return ", ".join([run.variant, *beside])


def _rows(
    runs: Sequence[PlannedRun],
    planned: Sequence[PlannedRun],
    samples: Samples,
    measures: Sequence[str],
) -> list[Row]:
    found: dict[tuple[str, float | None], Row] = {}
    for run, plain in zip(runs, planned, strict=True):
        if (run.variant, run.x) not in found:
            values = {name: _estimate(samples, name, run) for name in measures}
            found[run.variant, run.x] = Row(plain.variant, json.loads(run.point), values)
    return list(found.values())


def _estimate(samples: Samples, measure: str, run: PlannedRun) -> Estimate | None:
    """A measure's mean at a run's point, over the seeds that have a value there."""
    try:
        sample = samples.find(measure, {}, run.experiment, run.variant)
    except NotMeasured:
        return None
    if run.x is not None:
        sample = sample.select((run.x, run.x))
    values = sample.values[~np.isnan(sample.values)]
    if not len(values):
        return None
    return jackknife(lambda kept: float(values[kept].mean()), len(values))


def _paper(experiment: Experiment, runs: Sequence[PlannedRun], measures: Sequence[str]) -> Paper:
    """The experiment as the report knows one: a figure for each measure."""
    labels = dict.fromkeys((run.variant for run in runs), "")
    variants = {label: _differences(label, experiment) for label in labels}
    seen = replace(experiment, variants=variants, also={})
    figures = figures_of(experiment.name, measures)
    return Paper(experiment.name, experiment.title, "", (seen,), (), figures, labels)


def _differences(label: str, experiment: Experiment) -> Mapping[str, Any]:
    name, _, beside = label.partition(", ")
    override = experiment.variants.get(name, {})
    return {**override, "also": beside} if beside else override


def _write_summary(rows: Sequence[Row], units: Mapping[str, str], out: Path) -> None:
    """``summary.csv``: a line per variant, point and measure."""
    keys = list(rows[0].point)
    with (out / "summary.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["variant", *keys, "measure", "unit", "mean", "low", "high"])
        for row in rows:
            for name, estimate in row.values.items():
                numbers = (
                    ("", "", "")
                    if estimate is None
                    else (estimate.value, estimate.low, estimate.high)
                )
                point = [row.point[key] for key in keys]
                writer.writerow([row.variant, *point, name, units[name], *numbers])
