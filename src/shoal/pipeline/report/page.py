"""One self-contained HTML page: figures beside what the paper says, and the verdict on every claim.

Opens from disk: styles, drawings and the few lines of script are inside, nothing is fetched.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup

import shoal
from shoal.pipeline.errors import writing
from shoal.pipeline.judge.decisions import VERDICTS, Verdict
from shoal.pipeline.judge.samples import Samples
from shoal.pipeline.judge.verdicts import Judgement
from shoal.pipeline.measure.compute import bounds_of
from shoal.pipeline.paper import Figure, Panel, Paper
from shoal.pipeline.plan.experiment import Experiment, PlannedRun, Tier
from shoal.pipeline.report.figures import Drawing, Style, draw, styles, swatch
from shoal.pipeline.report.lines import Line, Printed, lines_of, printed_in, without_axis
from shoal.pipeline.simulate.sweep import SweepOutcome
from shoal.simulation.config import code_version

SYMBOLS: Mapping[Verdict, str] = {
    "reproduced": "✓",
    "order only": "≈",
    "undecided": "?",
    "not reproduced": "✗",
    "not run": "–",
}
"""Verdicts must be told apart without colour too."""


@dataclass(frozen=True)
class Reproduced:
    """One paper's results, as the report shows them."""

    paper: Paper
    tier: Tier
    judgements: Sequence[Judgement]
    samples: Samples
    runs: Sequence[PlannedRun]
    sweep: SweepOutcome
    again: tuple[str, ...] = ()
    """The words of the command that makes it; ``shoal reproduce`` if empty."""


def write_report(results: Sequence[Reproduced], out: Path) -> Path:
    """``report.html`` in a folder."""
    path = out / "report.html"
    with writing(str(path)):
        path.write_text(render(results, out), encoding="utf-8")
    return path


def render(results: Sequence[Reproduced], out: Path) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("shoal.pipeline.report", "."),
        autoescape=select_autoescape(["j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    environment.filters["slug"] = slug
    template = environment.get_template("page.html.j2")
    css, script = (
        (Path(__file__).parent / name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js")
    )
    return template.render(
        papers=[_paper(result, out) for result in results],
        css=Markup(css),
        script=Markup(script),
        symbols=SYMBOLS,
        verdicts=VERDICTS,
        version=shoal.__version__,
        code=code_version(),
    )


def _paper(result: Reproduced, out: Path) -> dict[str, Any]:
    paper = result.paper
    counts = Counter(judgement.verdict for judgement in result.judgements)
    looks = styles(list(paper.variants), _drawn(paper))
    by_id = {judgement.claim.id: judgement for judgement in result.judgements}
    return {
        "name": paper.name,
        "title": paper.title,
        "citation": paper.citation,
        "speaker": paper.speaker,
        "tier": result.tier,
        "counts": [(verdict, counts[verdict]) for verdict in VERDICTS],
        "total": len(result.judgements),
        "judged": len(result.judgements) - counts["not run"],
        "means_only": sum(j.means_only and j.verdict == "reproduced" for j in result.judgements),
        "runs": len({run.run_id for run in result.runs}),
        "seeds": max((run.seed for run in result.runs), default=-1) + 1,
        "figures": [_figure(f, result, looks, by_id, out) for f in paper.figures],
        "top": [judgement for judgement in result.judgements if judgement.claim.top],
        "chapters": _chapters(result.judgements),
        "failures": result.sweep.failures,
        "command": _command(result, (), out),
    }


def _drawn(paper: Paper) -> list[str]:
    """Every variant that a figure shows."""
    experiments = {experiment.name: experiment for experiment in paper.experiments}
    return [
        variant
        for figure in paper.figures
        for panel in figure.panels
        for variant in panel.variants or experiments[panel.experiment].variants
    ]


def _chapters(judgements: Sequence[Judgement]) -> list[tuple[str, list[Judgement]]]:
    """Claims by the part of the paper they stand in, as their ids say: ``T7.3-b`` is of ``7.3``."""

    def chapter(judgement: Judgement) -> str:
        return re.sub(r"^[A-Z]+", "", judgement.claim.id).rpartition("-")[0]

    return [(name, list(group)) for name, group in groupby(judgements, key=chapter)]


def _figure(
    figure: Figure,
    result: Reproduced,
    looks: Mapping[str, Style],
    by_id: Mapping[str, Judgement],
    out: Path,
) -> dict[str, Any]:
    experiments = {experiment.name: experiment for experiment in result.paper.experiments}
    panels = []
    shown: dict[str, None] = {}
    named_beside = True
    quoted = False
    for panel in figure.panels:
        experiment = experiments[panel.experiment]
        lines = lines_of(panel, result.samples, list(experiment.variants))
        if lines:
            shown |= dict.fromkeys(line.variant for line in lines)
            named_beside = named_beside and without_axis(lines)
            bounds = panel.y_range
            if bounds is None and panel.relative_to is None:
                bounds = bounds_of(panel.measure)
            printed = printed_in(panel, result.paper.claims)
            alone = len(figure.panels) == 1 and bool(figure.says)
            drawing = draw(panel, lines, looks, experiment.axis_label, printed, bounds, alone)
            data = _data(panel, lines, drawing, printed, experiment.axis_label)
            title = panel.title or (panel.y_label if len(figure.panels) > 1 else "")
            panels.append({"title": title, "svg": Markup(drawing.svg), "data": data})
            quoted = quoted or any(value.variant in shown for value in printed)
    names = list(dict.fromkeys(panel.experiment for panel in figure.panels))
    return {
        "name": figure.name,
        "title": figure.title,
        "says": figure.says,
        "panels": panels,
        "quoted": quoted,
        "legend": [
            {
                "label": variant,
                "name": result.paper.variants.get(variant, ""),
                "swatch": Markup(swatch(looks[variant])),
            }
            for variant in looks
            if variant in shown and (variant in result.paper.variants or not named_beside)
        ],
        "judgements": [by_id[name] for name in figure.claims if name in by_id],
        "configurations": [_configuration(experiments[name], result) for name in names],
        "command": _command(result, [name for name in figure.claims if name in by_id], out),
    }


def _data(
    panel: Panel, lines: Sequence[Line], drawing: Drawing, printed: Sequence[Printed], x_label: str
) -> dict[str, Any]:
    """Numbers of a panel: for the table below it, values on hover, and downloads."""
    series = []
    for line, marks in zip(lines, drawing.marks, strict=True):
        points = [
            {
                "x": None if math.isnan(x) else float(x),
                "mean": e.value,
                "low": e.low,
                "high": e.high,
                "at": mark,
                "printed": next(
                    (p.y for p in printed if (p.variant, p.x) == (line.variant, float(x))), None
                ),
            }
            for x, e, mark in zip(line.x, line.estimates, marks, strict=True)
        ]
        series.append({"variant": line.variant, "seeds": line.seeds, "points": points})
    name = slug(f"{panel.experiment} {panel.y_label}")
    labels = {"x": panel.x_label or x_label or "x", "y": panel.y_label}
    return {"name": name, "labels": labels, "series": series}


def _configuration(experiment: Experiment, result: Reproduced) -> dict[str, str]:
    """Configuration of an experiment, as text."""
    mine = [run for run in result.runs if run.experiment == experiment.name]
    points = sorted({run.x for run in mine if run.x is not None})
    lines = []
    if experiment.axis:
        values = ", ".join(f"{point:g}" for point in points)
        lines.append(f"{experiment.axis} = {values}")
    lines.append(f"seeds: {len({run.seed for run in mine})}, runs: {len(mine)}")
    if result.tier == "quick" and experiment.quick:
        lines.append(f"quick tier: {json.dumps(experiment.quick)}")
    return {
        "name": experiment.name,
        "title": experiment.title,
        "sweep": "\n".join(lines),
        "base": _readable(experiment.base),
        "variants": _readable(experiment.variants),
    }


def _readable(data: Mapping[str, Any]) -> str:
    """JSON with one line for each key of the first level."""
    return "\n".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in data.items()
    )


def _command(result: Reproduced, claims: Sequence[str], out: Path) -> str:
    if result.again:
        return shlex.join(result.again)
    words = ["shoal", "reproduce", result.paper.name, f"--{result.tier}"]
    for name in claims:
        words += ["--claim", name]
    return shlex.join([*words, "--out", out.name or str(out)])


def number(value: float | str | None) -> str:
    """A value as a reader wants it: three or four significant digits."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value % 1 == 0 or abs(value) >= 1000:
        text = f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.2e}"
    else:
        text = f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}"
    return text.replace("-", "−")


def slug(text: str) -> str:
    """A word for an id or a class."""
    return re.sub(r"\W+", "-", text).strip("-").lower()
