"""The report: one self-contained HTML file, each figure beside what its paper says and the verdicts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2

import shoal
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.figures import SERIES, curves, draw
from shoal.pipeline.judge import VERDICTS, Judgement
from shoal.pipeline.paper import Figure, Paper
from shoal.pipeline.plan import Tier, merge
from shoal.pipeline.samples import Samples
from shoal.pipeline.sweep import Failure
from shoal.simulation.config import code_version, parse_config
from shoal.stack import StackError


@dataclass(frozen=True)
class Chapter:
    """One paper's part of a report."""

    paper: Paper
    judgements: Sequence[Judgement]
    samples: Samples
    failures: Sequence[Failure] = ()


@dataclass(frozen=True)
class _Shown:
    """A figure, ready for the page."""

    figure: Figure
    panels: list[str]
    judgements: list[Judgement]
    command: str
    configuration: str


@dataclass(frozen=True)
class _Section:
    paper: Paper
    figures: list[_Shown]
    others: list[Judgement]
    judgements: Sequence[Judgement]
    counts: Mapping[str, int]
    failures: Sequence[Failure] = field(default=())


def write_report(chapters: Iterable[Chapter], tier: Tier, out: Path) -> Path:
    """Write ``report.html``; it opens from disk and needs nothing else."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["figure"] = number
    environment.filters["slug"] = lambda verdict: verdict.replace(" ", "-")
    css = (Path(__file__).parent / "report.css").read_text("utf-8")
    page = environment.get_template("report.html.j2").render(
        sections=[_section(chapter, tier) for chapter in chapters],
        tier=tier,
        verdicts=VERDICTS,
        css=css,
        series=len(SERIES),
        version=shoal.__version__,
        code=code_version(),
    )
    path = out / "report.html"
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise PipelineError(
            f"cannot write {path}: {error.strerror or error}", "choose another --out folder"
        ) from None
    return path


def _section(chapter: Chapter, tier: Tier) -> _Section:
    paper = chapter.paper
    by_id = {judgement.claim.id: judgement for judgement in chapter.judgements}
    shown = [_shown(figure, chapter, by_id, tier) for figure in paper.figures]
    told = {judgement.claim.id for figure in shown for judgement in figure.judgements}
    counts = Counter(judgement.verdict for judgement in chapter.judgements)
    return _Section(
        paper,
        shown,
        [judgement for judgement in chapter.judgements if judgement.claim.id not in told],
        chapter.judgements,
        {verdict: counts[verdict] for verdict in VERDICTS},
        chapter.failures,
    )


def _shown(
    figure: Figure, chapter: Chapter, by_id: Mapping[str, Judgement], tier: Tier
) -> _Shown:
    paper = chapter.paper
    experiments = {experiment.name: experiment for experiment in paper.experiments}
    order = list(paper.variants)
    panels = []
    for i, panel in enumerate(figure.panels):
        experiment = experiments[panel.experiment]
        found = curves(panel, list(experiment.variants), chapter.samples)
        if found:
            name = f"{paper.name}-{figure.name}-{i}"
            panels.append(draw(panel, found, order, name, experiment.axis_label))
    judgements = [by_id[claim] for claim in figure.claims if claim in by_id]
    names = " ".join(f"--claim {judgement.claim.id}" for judgement in judgements)
    settings = {panel.experiment: _settings(experiments[panel.experiment]) for panel in figure.panels}
    return _Shown(
        figure,
        panels,
        judgements,
        f"shoal reproduce {paper.name} {names} --{tier} --out DIR",
        json.dumps(settings, indent=2, ensure_ascii=False),
    )


def _settings(experiment: Any) -> dict[str, Any]:
    """An experiment as its configuration says it: what is common, what is compared, what is swept."""
    try:
        parse_config(merge(experiment.base, next(iter(experiment.variants.values()))))
    except StackError as error:
        return {"cannot be run": str(error)}
    settings: dict[str, Any] = {"base": experiment.base, "variants": experiment.variants}
    if experiment.axis is not None:
        settings[f"sweep {experiment.axis}"] = experiment.values
    return settings


def number(value: object) -> str:
    """A figure as a person would write it: four digits that matter."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if isinstance(value, float | int):
        text = f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
        return text.replace("-", "−")
    return str(value)
