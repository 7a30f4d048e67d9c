"""A publish/subscribe tree as a picture: places, neighbours, parents, each node's share of work.

Drawn as SVG from the notes of one run (topologies ``static-tree`` and ``radio-range``). Beside each
node three bars show the events that it receives, processes and forwards; a part that it receives
for others alone is lighter. The root is a square. In a small tree each overhead O is written out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from shoal.stack import StackError

WIDTH, MARGIN, HEAD = 760.0, 60.0, 54.0
BAR, THICK = 56.0, 5.0
SMALL = 12
"""Nodes up to which overheads are written beside them."""
RECEIVED, FOREIGN, PROCESSED, FORWARDED = "#4477aa", "#a9c3dd", "#228833", "#cc6677"


def tree_picture(notes: Iterable[Mapping[str, Any]]) -> str:
    """The picture of the tree that a run noted."""
    values: dict[str, dict[int, float]] = defaultdict(dict)
    places: dict[int, tuple[float, float]] = {}
    parents: dict[int, int] = {}
    edges: set[tuple[int, int]] = set()
    for note in notes:
        node, what = note["node"], note["what"]
        if what == "place":
            x, y = map(float, note["value"].split())
            places[node], parents[node] = (x, y), note["peer"]
        elif what == "edge":
            edges.add((node, note["peer"]))
        elif what in ("inherent", "proxied", "foreign", "overhead"):
            values[what][node] = float(note["value"])
    if not places:
        raise StackError(
            "the run noted no tree to draw; is it whole at the end? Give it a longer duration"
        )
    return _Picture(places, parents, edges, values).svg()


def framed(width: float, height: float, title: str, heading: str, parts: Iterable[str]) -> str:
    """A picture on white, with its title for those who cannot see it and a heading."""
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:.1f}" '
        'font-family="sans-serif" font-size="11.5" role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width:g}" height="{height:.1f}" fill="#ffffff"/>',
        f'<text x="16" y="22" font-size="15" font-weight="bold">{escape(heading)}</text>',
        *parts,
        "</svg>\n",
    )
    return "\n".join(lines)


class _Picture:
    def __init__(
        self,
        places: dict[int, tuple[float, float]],
        parents: dict[int, int],
        edges: set[tuple[int, int]],
        values: Mapping[str, dict[int, float]],
    ) -> None:
        xs, ys = [x for x, _ in places.values()], [y for _, y in places.values()]
        span = max(max(xs) - min(xs), max(ys) - min(ys), 1e-9)
        scale = (WIDTH - 2 * MARGIN) / span
        self.at = {
            node: (MARGIN + (x - min(xs)) * scale, HEAD + MARGIN + (max(ys) - y) * scale)
            for node, (x, y) in places.items()
        }
        self.height = HEAD + 2 * MARGIN + (max(ys) - min(ys)) * scale
        self.parents, self.edges, self.values = parents, edges, values
        received = [values["inherent"][n] + values["foreign"][n] for n in places]
        self.unit = BAR / max([*received, *values["proxied"].values(), 1e-9])

    def svg(self) -> str:
        """The whole picture."""
        total = sum(self.values["overhead"].values())
        words = f"{len(self.at)} nodes, total overhead {total:,.6g}"
        parts = self._legend()
        for a, b in sorted(self.edges):
            parts.append(self._line(a, b, "#b4b4b4", 1.0))
        for node, parent in sorted(self.parents.items()):
            if parent >= 0:
                parts.append(self._line(parent, node, "#222222", 2.4))
        for node in sorted(self.at):
            parts += self._bars(node)
        for node in sorted(self.at):  # above all bars, so that each number is read
            parts += self._mark(node)
        return framed(WIDTH, self.height, words, words, parts)

    def _legend(self) -> list[str]:
        parts, x = [], 16.0
        for colour, word in (
            (RECEIVED, "received, wanted here"),
            (FOREIGN, "received for others"),
            (PROCESSED, "processed"),
            (FORWARDED, "forwarded"),
        ):
            parts.append(f'<rect x="{x:g}" y="34" width="14" height="{THICK:g}" fill="{colour}"/>')
            parts.append(f'<text x="{x + 19:g}" y="41">{word}</text>')
            x += 35 + 6.2 * len(word)
        return parts

    def _line(self, a: int, b: int, colour: str, width: float) -> str:
        (x1, y1), (x2, y2) = self.at[a], self.at[b]
        return (
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}" stroke-width="{width:g}"/>'
        )

    def _mark(self, node: int) -> list[str]:
        """A node, with its number as in the paper."""
        x, y = self.at[node]
        if self.parents[node] < 0:
            mark = f'<rect x="{x - 8:.1f}" y="{y - 8:.1f}" width="16" height="16"'
        else:
            mark = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="8"'
        return [
            f"<g><title>{escape(self._told(node))}</title>",
            f'{mark} fill="#ffffff" stroke="#222222" stroke-width="1.6"/>',
            f'<text x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{node + 1}</text></g>',
        ]

    def _told(self, node: int) -> str:
        """What a node does, in words."""
        values = {what: of[node] for what, of in self.values.items()}
        own, foreign = values["inherent"], values["foreign"]
        return (
            f"node {node + 1}: receives {own + foreign:.6g}, processes {own:.6g}, "
            f"forwards {values['proxied']:.6g}, overhead {values['overhead']:.6g}"
        )

    def _bars(self, node: int) -> list[str]:
        """What a node receives, processes and forwards."""
        x, y = self.at[node]
        own, foreign, proxied = (
            self.values[what][node] for what in ("inherent", "foreign", "proxied")
        )
        parts = []
        bars = (((own, RECEIVED), (foreign, FOREIGN)), ((own, PROCESSED),), ((proxied, FORWARDED),))
        for row, pieces in enumerate(bars):
            start = x + 12
            for amount, colour in pieces:
                width = amount * self.unit
                if width > 0:
                    parts.append(
                        f'<rect x="{start:.1f}" y="{y - 9 + row * (THICK + 1.5):.1f}" '
                        f'width="{width:.1f}" height="{THICK:g}" fill="{colour}"/>'
                    )
                start += width
        if len(self.at) <= SMALL:
            overhead = f"O = {self.values['overhead'][node]:.6g}"
            parts.append(f'<text x="{x + 12:.1f}" y="{y + 23:.1f}">{overhead}</text>')
        return parts
