"""A run as a film: links, colours, depths and messages, in one page that needs nothing else.

The film looks at a simulation every so often, and never changes what happens in it. Trees are drawn
with their roots on top, other networks as a circle; radios where they are, with their frames as
rings and dots, and a cross where one was lost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from shoal.simulation.air import state as s
from shoal.simulation.air.topologies import OnAir
from shoal.simulation.kernel import NANOSECONDS, to_ns
from shoal.stack import LOCAL, StackError
from shoal.stack.layer import shown_parent

if TYPE_CHECKING:
    from shoal.simulation.run import Simulation

Still: TypeAlias = tuple[
    float, dict[int, list[Any]], set[tuple[int, int]], dict[int, tuple[float, float]]
]
"""A moment: its time, the nodes' states, the links, and where nodes are drawn."""

FRAMES = 600
"""Looks at a run, evenly spaced."""
MOST_NODES = 300
"""Nodes that can be told apart in a picture."""
MOST_MESSAGES = 80
"""Messages drawn between two looks; more would hide the links."""
MOST_FRAMES = 30
"""Frames of radios drawn between two looks."""
STILLS = 4
"""Moments in a picture that does not move."""
WIDTH, HEIGHT = 1000.0, 560.0


class Film:
    """What a simulation looks like at each of its frames."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.kinds: dict[str, int] = {}
        """Kinds of messages, numbered."""
        self.links: set[tuple[int, int]] = set()
        self.places: dict[int, tuple[float, float]] = {}
        self.states: dict[int, list[Any]] = {}
        """Per node that runs: its colour, depth and parent, as far as its overlay has them."""
        self.stills: list[Still] = []
        self.title = ""
        self._seen_links = 0
        self._seen_messages = 0
        self._tree = False
        self._air: OnAir | None = None
        """Radios that share the air, if the run is of such."""
        self._scale = (0.0, 0.0, 1.0)
        """The corner of the picture in metres, and how long a metre is in it."""

    def watch(self, simulation: Simulation) -> None:
        """Look at a simulation that is about to run."""
        config = simulation.config
        if config.nodes > MOST_NODES:
            raise StackError(
                f"an animation shows at most {MOST_NODES} nodes, not {config.nodes}; simulate fewer"
            )
        if isinstance(simulation.topology, OnAir):
            self._watch_air(simulation.topology)
        else:
            simulation.recorder.keeps_messages = True
        self._tree = simulation.network.acyclic
        stack = [p.name for p in simulation.stack.protocols() if p.kind != "topology"]
        self.title = f"{' + '.join(stack)}, {config.nodes} nodes, seed {config.seed}"
        step = to_ns(config.duration) // FRAMES
        for number in range(FRAMES + 1):
            look = partial(self._look, simulation)
            simulation.kernel.call_at(number * step, look, True)

    def _look(self, simulation: Simulation) -> None:
        recorder, network = simulation.recorder, simulation.network
        frame: dict[str, Any] = {"t": round(simulation.kernel.now / NANOSECONDS, 4)}
        changed = False
        for _, a, b, change, _ in recorder.links[self._seen_links :]:
            (self.links.add if change == "up" else self.links.discard)((min(a, b), max(a, b)))
            changed = True
        self._seen_links = len(recorder.links)
        states: dict[int, list[Any]] = {}
        for number, node in enumerate(network.nodes):
            if node is not None:
                seen = {} if node.overlay is None else node.overlay.describe()
                parent = seen.get("parent")
                above = "root" if parent == shown_parent(LOCAL, True) else parent
                states[number] = [seen.get("colour"), seen.get("depth"), above]
        colour_trees(states)
        news: dict[int, Any] = {n: s for n, s in states.items() if self.states.get(n) != s}
        news |= dict.fromkeys(self.states.keys() - states.keys())
        changed = changed or states.keys() != self.states.keys()
        self.states = states
        if news:
            frame["n"] = news
        if changed or self._air is not None:
            frame["l"] = sorted(self.links)
            places = self._layout(simulation.kernel.now)
            frame["p"] = {n: p for n, p in places.items() if self.places.get(n) != p}
            self.places = places
        if self._air is not None:
            self._frames_of(self._air, frame)
        else:
            frame["m"] = self._messages(recorder.messages[self._seen_messages :])
            self._seen_messages = len(recorder.messages)
        self.frames.append(frame)
        self.stills.append((frame["t"], states, set(self.links), self.places))

    def _messages(self, rows: Iterable[Any]) -> list[list[int]]:
        """Kind, source and target of some of the messages sent since the last look."""
        chosen: dict[tuple[int, int, int], None] = {}
        for _, kind, source, target, _ in rows:
            chosen[self.kinds.setdefault(kind, len(self.kinds)), source, target] = None
        wanted = [list(message) for message in chosen]
        return wanted[:: 1 + len(wanted) // MOST_MESSAGES]

    def _watch_air(self, topology: OnAir) -> None:
        """Have the channel write down what becomes of frames; fit all places into the picture."""
        self._air = topology
        topology.medium.watch()
        self.kinds = {"a broadcast": 0, "a frame for one node": 1, "an acknowledgement": 2}
        if topology.tracks is None:
            return
        left, low, right, high = topology.tracks.corners()
        scale = min(WIDTH / max(right - left, 1.0), HEIGHT / max(high - low, 1.0)) * 0.94
        middle = (left + right) / 2, (low + high) / 2
        self._scale = (middle[0] - WIDTH / 2 / scale, middle[1] - HEIGHT / 2 / scale, scale)

    def _frames_of(self, topology: OnAir, frame: dict[str, Any]) -> None:
        """Some of the frames sent since the last look: who sent, who received, who lost them."""
        rows = topology.medium.watched()
        sent = dict.fromkeys(map(tuple, rows[:, [s.LOG_START, s.LOG_SENDER]].tolist()))
        shown = set(list(sent)[:: 1 + len(sent) // MOST_FRAMES])
        heard, lost = [], []
        for start, sender, receiver, intact, kind in rows.tolist():
            if (start, sender) in shown:
                if intact:
                    heard.append([kind, sender, receiver])
                elif kind != 2:
                    lost.append(receiver)
        frame["m"], frame["x"] = heard, lost
        frame["r"] = [sender for _, sender in shown]

    def _layout(self, now: int) -> dict[int, tuple[float, float]]:
        if self._air is None or self._air.tracks is None:
            return layout(self.states, self.links, self._tree)
        left, low, scale = self._scale
        places = self._air.tracks.at(now / NANOSECONDS).tolist()
        return {
            node: (round((x - left) * scale, 1), round(HEIGHT - (y - low) * scale, 1))
            for node, (x, y) in enumerate(places)
            if node in self.states and x == x
        }

    # What comes of it

    def write(self, path: Path) -> None:
        """A page that plays, or (``.svg``) a few moments side by side."""
        text = self.picture() if path.suffix == ".svg" else self.page()
        path.write_text(text, encoding="utf-8")

    def page(self) -> str:
        """A self-contained page."""
        data = {
            "title": self.title,
            "kinds": list(self.kinds),
            "size": [WIDTH, HEIGHT],
            "range": self._range(),
            "frames": self.frames,
        }
        text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
        page = Path(__file__).with_name("animation.html").read_text(encoding="utf-8")
        return page.replace("/*DATA*/", text)

    def _range(self) -> float:
        """How far radios reach, in the picture; 0 if it shows none or no places."""
        if self._air is None or self._air.tracks is None:
            return 0.0
        return round(self._air.medium.parameters.range * self._scale[2], 1)

    def picture(self) -> str:
        """Moments of the run around its first failure, as SVG."""
        parts = []
        chosen = self._moments()
        for number, (at, states, links, seen) in enumerate(chosen):
            places = seen if self._air is not None else layout(states, links, self._tree)
            shift = f"translate({number % 2 * WIDTH},{number // 2 * (HEIGHT + 40)})"
            parts.append(f'<g transform="{shift}">{_still(at, states, links, places)}</g>')
        rows = (len(chosen) + 1) // 2
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH:g} '
            f'{rows * (HEIGHT + 40):g}" font-family="sans-serif"><title>{self.title}</title>'
            f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
        )

    def _moments(self) -> list[Still]:
        """Before the first failure, when it is noticed, while it is repaired, and afterwards."""
        first = 0
        for number in range(1, len(self.stills)):
            if self.stills[number - 1][1].keys() - self.stills[number][1].keys():
                first = number
                break
        later = self.stills[first:]
        moving = [n for n in range(1, len(later)) if later[n][1:3] != later[n - 1][1:3]]
        middle = moving[len(moving) // 2] if moving else len(later) // 2
        chosen = [max(0, first - 1), first, first + middle, len(self.stills) - 1]
        return [self.stills[number] for number in chosen[:STILLS]]


def colour_trees(states: dict[int, list[Any]]) -> None:
    """Where the overlay has no colours: the node on top of one's tree, and the steps to it."""
    for node, state in states.items():
        if state[0] is None and state[2] is not None:
            top, depth = node, 0
            while states[top][2] in states and depth < len(states):  # parents may disagree
                top, depth = states[top][2], depth + 1
            state[:2] = str(top), depth


def layout(
    states: dict[int, list[Any]], links: set[tuple[int, int]], tree: bool
) -> dict[int, tuple[float, float]]:
    """Where to draw each node."""
    if not tree:
        return _circle(states)
    neighbours: dict[int, list[int]] = {node: [] for node in states}
    for a, b in sorted(links):
        if a in neighbours and b in neighbours:
            neighbours[a].append(b)
            neighbours[b].append(a)
    tops = [node for node, (_, _, parent) in states.items() if parent == "root"]
    if any(parent is not None for _, _, parent in states.values()):  # roots, then orphans
        tops += [node for node, (_, _, parent) in states.items() if parent not in states]
    tops += sorted(states, key=lambda node: -len(neighbours[node]))
    level: dict[int, int] = {}
    across: dict[int, float] = {}
    leaves = 0.0
    for top in tops:
        if top not in level:
            leaves = _place(top, neighbours, level, across, leaves) + 0.6
    wide = WIDTH / max(leaves, 1.0)
    high = min(90.0, (HEIGHT - 60) / max(1, max(level.values(), default=1)))
    return {
        node: (round((across[node] + 0.3) * wide, 1), round(40 + level[node] * high, 1))
        for node in states
    }


def _place(
    top: int,
    neighbours: dict[int, list[int]],
    level: dict[int, int],
    across: dict[int, float],
    leaves: float,
) -> float:
    """Put one tree to the right of others: leaves side by side, parents above the middle."""
    level[top] = 0
    order = [top]
    stack = [top]
    below: dict[int, list[int]] = {}
    while stack:
        node = stack.pop()
        below[node] = [n for n in sorted(neighbours[node]) if n not in level]
        for child in below[node]:
            level[child] = level[node] + 1
        stack += reversed(below[node])
        if node != top:
            order.append(node)
        if not below[node]:
            across[node] = leaves
            leaves += 1.0
    for node in reversed(order):
        if below[node]:
            middle = [across[child] for child in below[node]]
            across[node] = sum(middle) / len(middle)
    return leaves


def _circle(states: dict[int, list[Any]]) -> dict[int, tuple[float, float]]:
    from math import cos, pi, sin

    total = max(len(states), 1)
    return {
        node: (
            round(WIDTH / 2 + WIDTH * 0.42 * sin(2 * pi * place / total), 1),
            round(HEIGHT / 2 - HEIGHT * 0.42 * cos(2 * pi * place / total), 1),
        )
        for place, node in enumerate(sorted(states))
    }


def hue(colour: object) -> int:
    """A tree's colour as an angle on the colour wheel."""
    return hashlib.blake2b(str(colour).encode(), digest_size=2).digest()[0] * 360 // 256


def _still(
    at: float,
    states: dict[int, list[Any]],
    links: set[tuple[int, int]],
    places: dict[int, tuple[float, float]],
) -> str:
    drawn = [f'<text x="16" y="24" font-size="20">{at:.2f} s, {len(states)} nodes</text>']
    for a, b in sorted(links):
        if a in places and b in places:
            (x, y), (u, v) = places[a], places[b]
            drawn.append(f'<path d="M{x},{y}L{u},{v}" stroke="#999" stroke-width="1.5"/>')
    for node, (colour, depth, parent) in states.items():
        if node not in places:
            continue
        x, y = places[node]
        fill = "#ddd" if colour in (None, "none") else f"hsl({hue(colour)},65%,62%)"
        ring = ' stroke="black" stroke-width="2.5"' if parent == "root" else ' stroke="#555"'
        title = f"<title>{node}: colour {colour}, depth {depth}, parent {parent}</title>"
        drawn.append(f'<circle cx="{x}" cy="{y}" r="9" fill="{fill}"{ring}>{title}</circle>')
        drawn.append(
            f'<text x="{x}" y="{y + 3.5}" font-size="9" text-anchor="middle">{node}</text>'
        )
    return "".join(drawn)
