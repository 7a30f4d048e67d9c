"""The trees of DPS as a picture: groups with their sizes, and the way of one event through them.

Drawn as SVG from the notes and messages of one run. Each tree is an outline: a group stands below
its predecessor, to the right of it. Of all events the one is shown that came to the most groups.
"""

from __future__ import annotations

from ast import literal_eval
from collections import defaultdict
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from shoal.content import Attributes
from shoal.pipeline.measure.dps_cases import Forest, Key
from shoal.pipeline.measure.dps_traces import VALUES, fields
from shoal.pipeline.measure.run_view import Run
from shoal.pipeline.report.tree_picture import framed
from shoal.routing.dps.labels import EVERYTHING, label
from shoal.stack import StackError

COLUMN, ROW, INDENT, HEAD = 380.0, 22.0, 22.0, 84.0
SHOWN = 60
"""Groups drawn of one tree; the others are counted."""
PASSED, CUT, QUIET = "#228833", "#cc6677", "#bbbbbb"
PAINTED = (QUIET, CUT, PASSED)
"""In which order groups and ways are painted: the last ones on top."""


def groups_picture(
    notes: Iterable[Mapping[str, Any]], messages: Iterable[Mapping[str, Any]]
) -> str:
    """The picture of the trees that a run noted at its end."""
    try:
        forest = Forest(Run({}, {"notes": list(notes)}))
    except ValueError:
        raise StackError(
            "the run has no groups to draw: nobody had joined one at the end; "
            "let subscriptions begin earlier, or give it a longer duration"
        ) from None
    return _Picture(forest, _Way(messages)).svg()


class _Way:
    """The event that came to the most groups, and where it went."""

    def __init__(self, messages: Iterable[Mapping[str, Any]]) -> None:
        visits: dict[tuple[int, int], dict[Key, None]] = defaultdict(dict)
        steps: dict[tuple[int, int], dict[tuple[str, frozenset[str]], None]] = defaultdict(dict)
        content: dict[tuple[int, int], str] = {}
        for row in messages:
            if row["kind"] != "event":
                continue
            said = fields(row["content"])
            event = said["event"]
            visits[event][said["attribute"], said["at"]] = None
            steps[event][said["attribute"], frozenset((said["at"], said["came"]))] = None
            if event not in content:
                found = VALUES.search(row["content"])
                content[event] = found[1] if found is not None else ""
        self.event = max(visits, key=lambda event: len(visits[event]), default=None)
        self.visits = visits[self.event] if self.event is not None else {}
        self.steps = steps[self.event] if self.event is not None else {}
        text = content.get(self.event, "") if self.event is not None else ""
        self.values: dict[str, Any] = literal_eval(text) if text else {}

    def colours(self, above: Mapping[Key, str]) -> dict[Key, str]:
        """Per group whether the event passed it, ended there, or did not come to it.

        A group whose predecessor passed the event has it, also without a message: one node may
        lead both.
        """
        trees = {attribute for attribute, _ in self.visits}
        found = {(attribute, ""): PASSED for attribute in trees}
        event = Attributes(self.values)

        def colour(key: Key) -> str:
            if key not in found and key[0] in trees:
                over = colour((key[0], above[key])) if key in above else QUIET
                came = over == PASSED or key in self.visits
                found[key] = (PASSED if label(*key).matches(event) else CUT) if came else QUIET
            return found.setdefault(key, QUIET)

        for key in above:
            colour(key)
        return found


class _Picture:
    def __init__(self, forest: Forest, way: _Way) -> None:
        self.forest, self.way = forest, way
        self.below: dict[Key, list[str]] = defaultdict(list)
        above: dict[Key, str] = {}
        for attribute, over, text in forest.edges():
            self.below[attribute, over].append(text)
            above[attribute, text] = over
        self.colours = way.colours(above)
        self.trees = sorted(forest.labels())
        self.sizes = {key: self._subscribers(key) for key in forest.members}
        self.height = HEAD

    def _subscribers(self, key: Key) -> int:
        """Members that want something; a root has others that only hold it."""
        return sum(
            1
            for _, _, group in self.forest.rows
            if (group["attribute"], group["text"]) == key and group["filters"]
        )

    def svg(self) -> str:
        """The whole picture."""
        drawn = [part for place, tree in enumerate(self.trees) for part in self._tree(place, tree)]
        groups = sum(1 for _, text in self.forest.members if text)
        title = f"Trees of {len(self.trees)} attributes, {groups} groups"
        width = max(COLUMN * len(self.trees), 2 * COLUMN)
        event = ", ".join(f"{name} = {value!r}" for name, value in self.way.values.items())
        told = f"the way of the event {event}" if event else "no event was published"
        heading = f"{title}; {told}"
        return framed(width, self.height + ROW, title, heading, [*_legend(), *drawn])

    def _tree(self, place: int, attribute: str) -> list[str]:
        """One outline."""
        parts: list[str] = []
        ways: list[tuple[int, str]] = []
        x0, y = 28.0 + place * COLUMN, HEAD + ROW
        ahead: list[tuple[str, int, float, str]] = [("", 0, 0.0, "")]
        drawn, left, mine = 0, 0, y
        while ahead:
            text, depth, above, came = ahead.pop()
            if drawn >= SHOWN:
                left += 1
            else:
                drawn += 1
                x = x0 + INDENT * depth
                if text:
                    ways.append(self._way((attribute, text), came, x, y, above))
                parts += self._group((attribute, text), x, y)
                mine, y = y, y + ROW
            below = sorted(  # labels as a reader sorts them: shorter numbers first
                self.below[attribute, text],
                key=lambda one: (-PAINTED.index(self._colour((attribute, one))), len(one), one),
            )
            ahead += [(one, depth + 1, mine, text) for one in reversed(below)]
        if left:
            parts.append(f'<text x="{x0:g}" y="{y + 4:g}">and {left} more groups</text>')
            y += ROW
        self.height = max(self.height, y)
        return [*(way for _, way in sorted(ways)), *parts]

    def _colour(self, key: Key) -> str:
        return self.colours.get(key, QUIET)

    def _way(self, key: Key, came: str, x: float, y: float, above: float) -> tuple[int, str]:
        """The line from a group's predecessor, and how late it is painted."""
        attribute, text = key
        colour = self._colour(key)
        walked = colour != QUIET and self._colour((attribute, came)) == PASSED
        walked = walked or (attribute, frozenset((text, came))) in self.way.steps
        stroke, width = (colour, 2.2) if walked else (QUIET, 1.0)
        line = (
            f'<path d="M{x - INDENT:g} {above + 4:g} V{y:g} H{x - 4:g}" fill="none" '
            f'stroke="{stroke}" stroke-width="{width:g}"/>'
        )
        return PAINTED.index(stroke), line

    def _group(self, key: Key, x: float, y: float) -> list[str]:
        attribute, text = key
        size = self.sizes.get(key, 0)
        colour = self._colour(key)
        name = text or (f"tree of {attribute}" if attribute != EVERYTHING else "tree of everything")
        radius = 3 + min(8.0, 1.3 * size**0.5)
        leaders = ", ".join(str(node) for node, _ in self.forest.leaders[key])
        told = f"{name}: {size} subscribers, led by node {leaders}"
        nodes = f"{size} node{'s' if size != 1 else ''}" if text or size else "owner"
        return [
            f"<g><title>{escape(told)}</title>",
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:.1f}" fill="{colour}"/>',
            f'<text x="{x + 14:g}" y="{y + 4:g}">{escape(_short(name))}'
            f'<tspan fill="#777777"> · {nodes}</tspan></text></g>',
        ]


def _short(text: str, most: int = 38) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _legend() -> list[str]:
    parts, x = [], 24.0
    for colour, words in (
        (PASSED, "it matches: to members, and on"),
        (CUT, "it does not: the branch is cut off"),
        (QUIET, "it does not come here"),
    ):
        parts.append(f'<circle cx="{x:g}" cy="50" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{x + 11:g}" y="54">{words}</text>')
        x += 34 + 6.3 * len(words)
    return parts
