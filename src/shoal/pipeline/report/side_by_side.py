"""Live and simulated runs on one page, each measure of all of them in one figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from shoal.pipeline.judge.samples import Samples
from shoal.pipeline.measure.compute import every_measure
from shoal.pipeline.measure.live import BESIDE, Measured
from shoal.pipeline.paper import Figure, Panel, Paper
from shoal.pipeline.plan.experiment import Experiment
from shoal.pipeline.report.page import Reproduced, write_report
from shoal.pipeline.simulate.sweep import SweepOutcome

OVER_TIME: Final = ("delivery_over_time", "traffic_over_time")
"""Measures that the page shows beside those asked for."""


def side_by_side(
    rows: Sequence[Measured], measures: Sequence[str], out: Path, command: Sequence[str]
) -> Path:
    """``report.html`` in a folder, with a figure for each measure that some run has."""
    known = {measure.name: measure for measure in every_measure()}
    answered = {answer[0] for row in rows for answer in row.answers}
    figures: list[Figure] = []
    for name in measures:
        if name in answered:
            label = f"{name.replace('_', ' ')} ({known[name].unit})".removesuffix(" ()")
            panel = Panel(BESIDE, name, label)
            figures.append(Figure(str(len(figures) + 1), known[name].summary, (panel,), "", ()))
    variants = {row.planned.variant: json.loads(row.planned.configuration) for row in rows}
    experiment = Experiment(BESIDE, "Runs side by side", {}, variants, axis_label="seconds")
    names = dict.fromkeys(variants, "")
    paper = Paper(BESIDE, "Runs side by side", "", (experiment,), (), tuple(figures), names)
    samples = Samples(answer for row in rows for answer in row.answers)
    runs = [row.planned for row in rows]
    return write_report(
        [Reproduced(paper, "full", (), samples, runs, SweepOutcome(), tuple(command))], out
    )
