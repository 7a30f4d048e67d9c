"""Figures as SVG that a page can restyle: one panel each, one look for all.

Drawn by matplotlib in placeholder colours, which are then replaced by CSS custom properties, so that
the same drawing serves a light and a dark page. Lines are means over seeds, bands 95% intervals.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import FuncFormatter, NullFormatter

from shoal.pipeline.curves import compare
from shoal.pipeline.paper import Panel
from shoal.pipeline.samples import NotMeasured, Sample, Samples
from shoal.pipeline.statistics import Estimate, jackknife

INK, MUTED, GRID, SHADE = "#010203", "#040506", "#070809", "#0a0b0c"
SERIES = tuple(f"#{i:02x}a1b2" for i in range(16, 24))
_VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", SHADE: "--shade"} | {
    colour: f"--series-{i}" for i, colour in enumerate(SERIES)
}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2)))

STYLE = {
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "font.size": 9,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "svg.fonttype": "none",
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True)
class Curve:
    """A variant's means and their intervals along the axis."""

    variant: str
    x: Sequence[float]
    points: Sequence[Estimate]


def curves(panel: Panel, variants: Sequence[str], samples: Samples) -> list[Curve]:
    """What a panel shows; variants that were not run are left out."""
    found = []
    for variant in panel.variants or variants:
        try:
            sample = samples.find(panel.measure, panel.parameters, panel.experiment, variant)
            reference = None
            if panel.relative_to is not None:
                reference = samples.find(
                    panel.measure, panel.parameters, panel.experiment, panel.relative_to
                )
        except NotMeasured:
            continue
        found.append(_curve(panel, variant, sample, reference))
    return [curve for curve in found if curve.points]


def _curve(panel: Panel, variant: str, sample: Sample, reference: Sample | None) -> Curve:
    x, points = [], []
    if reference is not None:
        reference = reference.at_points(sample.x)
        shared = tuple(seed for seed in sample.seeds if seed in reference.seeds)
        sample, reference = sample.of_seeds(shared), reference.of_seeds(shared)
    for i, at in enumerate(sample.x):
        mine = sample.values[i]
        theirs = None if reference is None else reference.values[i]
        whole = ~np.isnan(mine) if theirs is None else ~(np.isnan(mine) | np.isnan(theirs))
        if not whole.any():
            continue
        mine = mine[whole]
        if theirs is None:
            point = jackknife(lambda kept, v=mine: float(v[kept].mean()), len(mine))  # type: ignore[misc]  # bound now
        else:
            pair = (mine, theirs[whole])

            def statistic(kept: np.ndarray, pair: tuple[np.ndarray, np.ndarray] = pair) -> float:
                a, b = pair[0][kept].mean(keepdims=True), pair[1][kept].mean(keepdims=True)
                return float(compare(panel.as_, a, b)[0])

            point = jackknife(statistic, len(mine))
        if math.isfinite(point.value):
            x.append(float(at))
            points.append(point)
    return Curve(variant, x, points)


def draw(panel: Panel, shown: Sequence[Curve], order: Sequence[str], name: str, x_label: str) -> str:
    """One panel as an ``<svg>`` element. ``order`` gives each variant its colour throughout a report."""
    with matplotlib.rc_context(STYLE):
        drawing = Drawing(figsize=(4.6, 3.1), layout="constrained")
        axes = drawing.add_subplot()
        axes.grid(True, axis="y")
        axes.set_axisbelow(True)
        if panel.shade is not None:
            axes.axvspan(*panel.shade, color=SHADE, lw=0)
        if all(len(curve.x) == 1 and math.isnan(curve.x[0]) for curve in shown):
            _bars(axes, shown, order)
        else:
            _lines(axes, panel, shown, order)
            axes.set_xlabel(panel.x_label or x_label)
        axes.set_ylabel(panel.y_label)
        if panel.title:
            axes.set_title(panel.title)
        buffer = io.StringIO()
        drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _restyled(buffer.getvalue(), name)


def _look(variant: str, order: Sequence[str]) -> tuple[str, str, object]:
    i = (list(order).index(variant) if variant in order else len(order)) % len(SERIES)
    return SERIES[i], MARKERS[i], DASHES[i]


def _bars(axes: Axes, shown: Sequence[Curve], order: Sequence[str]) -> None:
    """Without an axis to sweep: a bar per variant."""
    for at, curve in enumerate(shown):
        (point,) = curve.points
        colour, _, _ = _look(curve.variant, order)
        axes.bar(at, point.value, 0.62, color=colour, lw=0)
        if point.low is not None and point.high is not None:
            axes.vlines(at, point.low, point.high, color=INK, lw=1.2)
    axes.set_xticks(range(len(shown)), [curve.variant for curve in shown])


def _lines(axes: Axes, panel: Panel, shown: Sequence[Curve], order: Sequence[str]) -> None:
    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    dense = max(len(curve.x) for curve in shown) > 24
    for curve in shown:
        colour, marker, dashes = _look(curve.variant, order)
        values = [point.value for point in curve.points]
        axes.plot(
            curve.x,
            values,
            color=colour,
            marker="" if dense else marker,
            linestyle=dashes,  # type: ignore[arg-type]  # a name or a pattern
            label=curve.variant,
        )
        low = [p.value if p.low is None else p.low for p in curve.points]
        high = [p.value if p.high is None else p.high for p in curve.points]
        axes.fill_between(curve.x, low, high, color=colour, alpha=0.16, lw=0)
    if panel.y_from_zero and panel.y_scale == "linear" and axes.get_ylim()[0] > 0:
        axes.set_ylim(bottom=0)
    if panel.x_scale == "log":
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=6, borderaxespad=0, columnspacing=1)


def _restyled(svg: str, name: str) -> str:
    """Only the element itself, colours as variables, text in the page's font, ids of its own."""
    svg = svg[svg.index("<svg") :]
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"font: (\d+\.?\d*)px [^;\"]+", r"font-size: \1px", svg)
    svg = re.sub(r'<svg [^>]*viewBox="([^"]+)"[^>]*>', r'<svg viewBox="\1" role="img">', svg, count=1)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    prefix = re.sub(r"\W", "_", name)
    svg = re.sub(r'id="([^"]+)"', rf'id="{prefix}_\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}_\1"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}_\1)", svg)
