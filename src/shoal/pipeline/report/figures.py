"""Figures as inline SVG, all in one style: means over seeds as lines, 95% intervals as bands.

Colours are drawn as placeholders and come out as CSS custom properties, so that one file follows
the page's theme; text stays text in the page's font.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.pipeline.judge.statistics import Estimate
from shoal.pipeline.paper import Panel
from shoal.pipeline.report.lines import Line, Printed, without_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, WIDE, HEIGHT = 4.9, 6.4, 3.1
"""Inches of a panel beside another, of one alone, and of both: legible at the width of a phone."""

INK, FAINT, GRID, SHADE = "#000001", "#000002", "#000003", "#000004"
_THEME = {INK: "var(--ink)", FAINT: "var(--faint)", GRID: "var(--grid)", SHADE: "var(--shade)"}

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""One per variant: a figure must be readable without colour."""

COLOURS = 10
"""Colours of the theme; beyond them variants take the same ones again, dashed."""
_DASHES: Mapping[int, Any] = {5: (4, 2), 6: (1, 1.5), 7: (5, 1, 1, 1)}


@dataclass(frozen=True)
class Style:
    """Colour, dashes and marker of a variant in every figure."""

    number: int
    dashed: bool = False

    @property
    def placeholder(self) -> str:
        """The colour that stands in for the theme's."""
        return f"#{self.number + 16:06x}"

    @property
    def css(self) -> str:
        """The theme's colour."""
        return f"var(--series-{self.number % COLOURS})"

    @property
    def marker(self) -> str:
        """The sign at its points."""
        return MARKERS[self.number % len(MARKERS)]

    @property
    def dashes(self) -> Any:
        """Dashes of its line, in matplotlib's terms."""
        dashed = self.dashed or self.number >= COLOURS
        return (4, 2) if dashed else _DASHES.get(self.number, (None, None))


def styles(variants: Sequence[str], drawn: Sequence[str] = ()) -> dict[str, Style]:
    """A style for each variant of a paper, in its order, and for all others that are drawn.

    A variant of a variant ("A fast" where there is an "A") looks like it, dashed.
    """
    found = {variant: Style(number) for number, variant in enumerate(variants)}
    named = len(found)
    for variant in drawn:
        if variant not in found:
            base = found.get(variant.partition(" ")[0])
            found[variant] = Style(base.number, True) if base else Style(named)
            named += base is None
    return found


@dataclass(frozen=True)
class Drawing:
    """A panel as an SVG element, and where its points lie in it."""

    svg: str
    marks: tuple[tuple[tuple[float, float], ...], ...]
    """Position of each point of each line, in the units of the drawing."""


def draw(
    panel: Panel,
    lines: Sequence[Line],
    style: Mapping[str, Style],
    x_label: str,
    printed: Sequence[Printed] = (),
    bounds: tuple[float, float] | None = None,
    alone: bool = False,
) -> Drawing:
    """A panel, with the values that the paper prints as crosses.

    ``bounds`` are the least and the greatest value that the measure can have: axes end there.
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(_RC):
        canvas = Canvas(figsize=(WIDE if alone else WIDTH, HEIGHT), dpi=72, layout="constrained")
        axes = canvas.add_subplot()
        bars = without_axis(lines)
        lying = bars and len(lines) > 6
        if bars:
            _bars(axes, lines, style, lying)
        else:
            _curves(axes, panel, lines, style, bounds)
            axes.set_xlabel(panel.x_label or x_label)
            shown = [line.variant for line in lines]
            for i, value in enumerate(p for p in printed if p.variant in shown):
                colour, of = style[value.variant].placeholder, shown.index(value.variant)
                cross = axes.plot(value.x, value.y, "x", color=colour, markersize=8)[0]
                cross.set(markeredgewidth=1.6, gid=f"printed-{i}-series-{of}")
        (axes.set_xlabel if lying else axes.set_ylabel)(panel.y_label)
        if panel.y_scale == "linear" and not lying:
            axes.yaxis.set_major_formatter(_tick)
            _limit(axes, panel, [e.value for line in lines for e in line.estimates], bounds)
        canvas.draw_without_rendering()
        marks = tuple(_marks(axes, i, line, bars, lying) for i, line in enumerate(lines))
        text = io.StringIO()
        canvas.savefig(
            text, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    return Drawing(_themed(text.getvalue(), style, panel), marks)


def _tick(value: float, _place: float) -> str:
    """A number on an axis: 0.25, 20, 160,000."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}".replace("-", "−")


def _marks(
    axes: Axes, number: int, line: Line, bars: bool, lying: bool
) -> tuple[tuple[float, float], ...]:
    """Positions of a line's points, or of the end of its bar, in the drawing."""
    points = [(x, e.value) for x, e in zip(line.x, line.estimates, strict=True)]
    if bars:
        value = line.estimates[0].value
        points = [(value, -number) if lying else (number, value)]
    places = axes.transData.transform(points)
    return tuple((round(float(x), 1), round(72 * HEIGHT - float(y), 1)) for x, y in places)


def _beneath(panel: Panel, lines: Sequence[Line]) -> list[int]:
    """Number of later lines that coincide with each line, at the scale of the drawing."""
    values = [[e.value for e in line.estimates] for line in lines]
    from_zero = panel.y_from_zero and panel.y_scale == "linear"
    spread = np.ptp(np.concatenate([*values, [0.0] * from_zero])) or 1.0

    def same(a: int, b: int) -> bool:
        return len(values[a]) == len(values[b]) and bool(
            np.allclose(values[a], values[b], rtol=0, atol=0.01 * spread)
        )

    return [sum(same(i, j) for j in range(i + 1, len(lines))) for i in range(len(lines))]


def _curves(
    axes: Axes,
    panel: Panel,
    lines: Sequence[Line],
    style: Mapping[str, Style],
    bounds: tuple[float, float] | None,
) -> None:
    if panel.shade is not None:
        axes.axvspan(*panel.shade, color=SHADE, linewidth=0, zorder=0)
    beneath = _beneath(panel, lines)
    for i, line in enumerate(lines):
        look = style[line.variant]
        means = [e.value for e in line.estimates]
        crowded = len(line.x) > 20
        # A curve that others hide is broader than they are, and so are its signs.
        hidden = len(lines) - 1 - i if crowded else beneath[i]
        axes.plot(
            line.x,
            means,
            color=look.placeholder,
            marker=None if crowded else look.marker,
            markersize=4.5 + 3.5 * hidden,
            linewidth=(1.2 if crowded else 1.7) + (0.8 if crowded else 2.6) * hidden,
            dashes=look.dashes,
            label=line.variant,
            gid=f"series-{i}",
        )
        lows = [e.value if e.low is None else e.low for e in line.estimates]
        highs = [e.value if e.high is None else e.high for e in line.estimates]
        if panel.y_scale == "log":
            lows = [max(low, mean / 10) for low, mean in zip(lows, means, strict=True)]
        counts = panel.relative_to is None and min(means) >= 0  # costs, counts and shares
        limits = bounds or (0.0 if counts else -math.inf, math.inf)
        lows, highs = np.clip(lows, *limits).tolist(), np.clip(highs, *limits).tolist()
        # Intervals from two or three seeds are wide and say little: they stay in the background.
        alpha = 0.05 if line.seeds < 4 else 0.09 if crowded else 0.16
        band = axes.fill_between(
            line.x, lows, highs, color=look.placeholder, alpha=alpha, linewidth=0
        )
        band.set_gid(f"band-{i}")
    axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    if panel.x_scale == "log":
        ticks = sorted({float(x) for line in lines for x in line.x})
        shown = ticks if len(ticks) <= 7 else ticks[:: math.ceil(len(ticks) / 7)]
        axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
        axes.set_xticks([], minor=True)


def _limit(
    axes: Axes, panel: Panel, means: Sequence[float], bounds: tuple[float, float] | None
) -> None:
    """Show the means well: an interval from few seeds may run out of the drawing."""
    low, high = axes.get_ylim()
    span = (max(means) - min(min(means), 0.0 if panel.y_from_zero else math.inf)) or 1.0
    low, high = max(low, min(means) - 0.5 * span), min(high, max(means) + 0.5 * span)
    if panel.y_from_zero:
        low, high = min(0.0, low), max(0.0, high)
    if bounds is not None:
        if high < bounds[1] < high + 0.1 * (high - low):  # nearly there: show the end itself
            high = bounds[1]
        room = 0.02 * (min(high, bounds[1]) - max(low, bounds[0]))  # for the width of a line
        low, high = max(low, bounds[0]), min(high, bounds[1] + room)
    elif panel.relative_to is None and min(means) >= 0:  # what is counted does not go below 0
        low = max(low, -0.02 * (high - low))
    axes.set_ylim(low, high)


def _bars(axes: Axes, lines: Sequence[Line], style: Mapping[str, Style], lying: bool) -> None:
    """Without an axis: one bar per variant; lying where there are many, or names would collide."""
    places = [-i if lying else i for i in range(len(lines))]
    for i, line in enumerate(lines):
        estimate, colour = line.estimates[0], style[line.variant].placeholder
        bar = axes.barh if lying else axes.bar
        drawn = bar(places[i], estimate.value, 0.64, color=colour, alpha=0.85, linewidth=0)
        drawn[0].set_gid(f"series-{i}")
        if estimate.low is not None and estimate.high is not None:
            ends, beside = [_low(estimate), estimate.high], [places[i], places[i]]
            points = (ends, beside) if lying else (beside, ends)
            axes.plot(*points, color=INK, linewidth=1.2, gid=f"band-{i}")
    (axes.set_yticks if lying else axes.set_xticks)(places, [line.variant for line in lines])
    axes.tick_params(axis="y" if lying else "x", length=0)


def _low(estimate: Estimate) -> float:
    """The low end of an interval; what is counted from 0 up does not go below it."""
    low = estimate.value if estimate.low is None else estimate.low
    return max(low, 0.0) if estimate.value >= 0 else low


_RC: Any = {  # a dict of matplotlib's own literal type
    "svg.fonttype": "none",
    "svg.hashsalt": "shoal",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "lines.markersize": 4.5,
    "lines.markeredgewidth": 0,
}


def _themed(svg: str, style: Mapping[str, Style], panel: Panel) -> str:
    """The drawing alone, with the theme's colours and the page's font, sized by the page."""
    svg = svg[svg.index("<svg") :]
    for placeholder, css in _THEME.items():
        svg = svg.replace(placeholder, css)
    for look in style.values():
        svg = svg.replace(look.placeholder, look.css)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", svg)
    # Ids are only unique within a drawing; many share the page.
    prefix = re.sub(r"\W", "", f"{panel.experiment}{panel.measure}{panel.y_label}")
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    label = f"{panel.y_label} ({panel.experiment})"
    return re.sub(
        r'<svg [^>]*?viewBox="([^"]+)"[^>]*>',
        rf'<svg role="img" aria-label="{label}" viewBox="\1">',
        svg,
        count=1,
    )


_SHAPES = {
    "o": '<circle cx="14" cy="6" r="3.4"/>',
    "s": '<rect x="11" y="3" width="6" height="6"/>',
    "^": '<path d="M14 2.2 18 9.2H10z"/>',
    "D": '<path d="M14 1.6 18.4 6 14 10.4 9.6 6z"/>',
    "v": '<path d="M14 9.8 18 2.8H10z"/>',
    "P": '<path d="M12.5 2h3v2.5H18v3h-2.5V10h-3V7.5H10v-3h2.5z"/>',
    "X": '<path d="M11 2l3 3 3-3 1.5 1.5-3 2.5 3 2.5L17 10l-3-3-3 3-1.5-1.5 3-2.5-3-2.5z"/>',
    "*": '<path d="M14 1l1.4 3.6H19l-3 2.3 1.1 3.7L14 8.4l-3.1 2.2L12 6.9 9 4.6h3.6z"/>',
}


def swatch(look: Style) -> str:
    """A variant's line and sign, for a legend."""
    dashes = f' stroke-dasharray="{" ".join(map(str, look.dashes))}"' if look.dashes[0] else ""
    return (
        f'<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true" style="color:{look.css}">'
        f'<path d="M1 6h26" stroke="currentColor" stroke-width="2"{dashes}/>'
        f'<g fill="currentColor">{_SHAPES[look.marker]}</g></svg>'
    )
