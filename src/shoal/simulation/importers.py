"""Readers of recorded movement, contacts and meshes. A broken line is an error that names it.

* ``bonnmotion``: one line per node, ``time x y`` triples (BonnMotion's native format).
* ``ns2``: movement files of ns-2, ``$node_(0) set X_ 1.0`` and
  ``$ns_ at 2.0 "$node_(0) setdest ..."``.
* ``positions``: a CSV (also gzipped) of timestamped positions: a time, a name, and either latitude
  and longitude in degrees or x and y in metres.
* contacts: connectivity reports of the ONE simulator, ``time CONN a b up|down``.
* meshes: JSON with ``nodes`` and ``links``, each link with a transmit quality 0..1 per direction
  (1 where none was measured, as over a tunnel).

Nodes are numbered in the order in which files name them first.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from shoal.simulation.mobility import Point
from shoal.stack import StackError

TrackFormat: TypeAlias = Literal["bonnmotion", "ns2", "positions"]
EARTH_RADIUS = 6_371_000.0
GAP = 300.0
"""Seconds without a position after which a node is taken to have left, perhaps to come back."""


class Contact(NamedTuple):
    """A link comes or goes."""

    at: float
    a: int
    b: int
    up: bool


class MeshLink(NamedTuple):
    """A link of a mesh and the quality of its directions, a to b and b to a."""

    a: int
    b: int
    forth: float
    back: float


def read_tracks(path: Path, format: TrackFormat) -> list[list[Point]]:
    """One track per node."""
    readers: dict[str, Callable[[Path], list[list[Point]]]] = {
        "bonnmotion": read_bonnmotion,
        "ns2": read_ns2,
        "positions": read_positions,
    }
    return readers[format](path)


def read_text(path: Path) -> str:
    """A recording, gzipped or not."""
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise StackError(f"{path}: {why}; give a file that can be read") from None


def read_rows(path: Path) -> tuple[Sequence[str], list[dict[str, str]]]:
    """Columns and rows of a CSV recording."""
    rows = csv.DictReader(StringIO(read_text(path)))
    try:
        return rows.fieldnames or (), list(rows)
    except csv.Error as error:
        raise StackError(f"{path}, line {rows.line_num}: {error}; write it as CSV") from None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that say something, numbered from 1."""
    for number, line in enumerate(read_text(path).splitlines(), 1):
        text = line.strip()
        if text and not text.startswith("#"):
            yield number, text


def bad_line(path: Path, number: int, line: str, expected: str) -> NoReturn:
    """Refuse a recording for one of its lines."""
    shown = line if len(line) <= 60 else line[:57] + "..."
    raise StackError(f"{path}, line {number}: expected {expected}, found '{shown}'")


def _numbers(path: Path, number: int, line: str, words: list[str], expected: str) -> list[float]:
    try:
        values = [float(word) for word in words]
    except ValueError:
        bad_line(path, number, line, expected)
    if not all(math.isfinite(value) for value in values):
        bad_line(path, number, line, expected)
    return values


def read_bonnmotion(path: Path) -> list[list[Point]]:
    """BonnMotion's movements: a line per node of time, x and y."""
    expected = "triples 'time x y' in order of time"
    tracks: list[list[Point]] = []
    for number, line in _lines(path):
        values = _numbers(path, number, line, line.split(), expected)
        if len(values) % 3:
            bad_line(path, number, line, expected)
        track = [(values[i], values[i + 1], values[i + 2]) for i in range(0, len(values), 3)]
        if any(b[0] < a[0] for a, b in pairwise(track)):
            bad_line(path, number, line, expected)
        tracks.append(_stays(track))
    return tracks


_SET = re.compile(r"\$node_\((\d+)\)\s+set\s+([XYZ])_\s+(\S+)$")
_DEST = re.compile(r'\$ns_\s+at\s+(\S+)\s+"\$node_\((\d+)\)\s+setdest\s+(\S+)\s+(\S+)\s+(\S+)"$')
_OTHER = re.compile(r"\$(god_|ns_\s+at\s+\S+\s+\"\$god_)")


def read_ns2(path: Path) -> list[list[Point]]:
    """ns-2 movement: where nodes start, and where they head for at which speed."""
    expected = "'$node_(N) set X_ x' or '$ns_ at t \"$node_(N) setdest x y speed\"'"
    starts: dict[int, dict[str, float]] = {}
    moves: dict[int, list[tuple[float, float, float, float]]] = {}
    for number, line in _lines(path):
        if found := _SET.match(line):
            (value,) = _numbers(path, number, line, [found[3]], expected)
            starts.setdefault(int(found[1]), {})[found[2]] = value
        elif found := _DEST.match(line):
            words = [found[1], found[3], found[4], found[5]]
            at, x, y, speed = _numbers(path, number, line, words, expected)
            moves.setdefault(int(found[2]), []).append((at, x, y, speed))
        elif not _OTHER.match(line):
            bad_line(path, number, line, expected)
    tracks = []
    for node in sorted(starts.keys() | moves.keys()):
        place = starts.get(node, {})
        if "X" not in place or "Y" not in place:
            raise StackError(
                f"{path}: node {node} has no start; expected '$node_({node}) set X_ x'"
            )
        tracks.append(_walk(place["X"], place["Y"], sorted(moves.get(node, []))))
    return tracks


def _walk(x: float, y: float, moves: list[tuple[float, float, float, float]]) -> list[Point]:
    """Follow commands to go somewhere; a new one replaces one not finished."""
    track: list[Point] = [(0.0, x, y)]
    time, to_x, to_y, speed = 0.0, x, y, 0.0
    for at, next_x, next_y, next_speed in [*moves, (math.inf, x, y, 0.0)]:
        way = math.hypot(to_x - x, to_y - y)
        if speed > 0 and way > 0:
            arrival = time + way / speed
            share = min(1.0, (at - time) / (arrival - time))
            x, y = x + share * (to_x - x), y + share * (to_y - y)
            track.append((min(at, arrival), x, y))
        if at < math.inf and track[-1][0] < at:
            track.append((at, x, y))
        time, to_x, to_y, speed = at, next_x, next_y, next_speed
    return _stays(track)


def _stays(track: list[Point]) -> list[Point]:
    """A node stays where it was last seen to go."""
    if track:
        track.append((math.inf, track[-1][1], track[-1][2]))
    return track


TIMES = ("timestamp", "time", "t")
NAMES = ("icao24", "id", "node", "name")


def read_positions(path: Path) -> list[list[Point]]:
    """Timestamped positions as CSV. Nodes are absent before their first and after their last."""
    columns, rows = read_rows(path)
    time = next((c for c in TIMES if c in columns), None)
    name = next((c for c in NAMES if c in columns), None)
    plane = "x" in columns and "y" in columns
    if time is None or name is None or not (plane or {"latitude", "longitude"} <= set(columns)):
        bad_line(
            path, 1, ",".join(columns),
            f"columns for a time ({', '.join(TIMES)}), a name ({', '.join(NAMES)}) "
            "and latitude, longitude or x, y",
        )  # fmt: skip  # one thought
    seen: dict[str, list[Point]] = {}
    across, along = ("x", "y") if plane else ("longitude", "latitude")
    for number, row in enumerate(rows, 2):
        position = _position(path, number, row, time, across, along)
        seen.setdefault(str(row[name]), []).append(position)
    if not seen:
        raise StackError(f"{path}: no positions after the first line")
    start = min(track[0][0] for track in seen.values())
    tracks = [[(t - start, x, y) for t, x, y in sorted(track)] for track in seen.values()]
    if not plane:
        tracks = _project(tracks)
    return [_with_gaps(track) for track in tracks]


def _with_gaps(track: list[Point]) -> list[Point]:
    """Nowhere while nothing was heard of a node for long."""
    whole = track[:1]
    for before, after in pairwise(track):
        if after[0] - before[0] > GAP:
            whole += [(before[0] + 1e-3, math.nan, math.nan), (after[0] - 1e-3, math.nan, math.nan)]
        whole.append(after)
    return whole


def _position(
    path: Path, number: int, row: Mapping[str, Any], time: str, across: str, along: str
) -> Point:
    expected = f"a time and numbers in {across} and {along}"
    try:
        at = _seconds(str(row[time]))
        x, y = float(row[across]), float(row[along])
    except (TypeError, ValueError, OverflowError):
        bad_line(path, number, ",".join(str(v) for v in row.values()), expected)
    inside = across == "x" or (-180 <= x <= 180 and -90 <= y <= 90)
    if not (math.isfinite(at) and math.isfinite(x) and math.isfinite(y) and inside):
        shown = f"{row[time]}, {row[across]}, {row[along]}"
        bad_line(path, number, shown, "a position on the globe, in degrees, and when")
    return at, x, y


def _seconds(text: str) -> float:
    """A number of seconds, or a date and time."""
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text).timestamp()


def _project(tracks: list[list[Point]]) -> list[list[Point]]:
    """Degrees to metres on a plane that touches the globe in the middle of all positions."""
    count = sum(len(track) for track in tracks)
    middle_x = sum(p[1] for track in tracks for p in track) / count
    middle_y = sum(p[2] for track in tracks for p in track) / count
    metre = math.radians(1) * EARTH_RADIUS
    shrink = math.cos(math.radians(middle_y))
    return [
        [(t, (x - middle_x) * metre * shrink, (y - middle_y) * metre) for t, x, y in track]
        for track in tracks
    ]


def read_contacts(path: Path) -> tuple[list[Contact], int]:
    """ONE connectivity reports: the contacts in order of time, and how many nodes there are."""
    expected = "'time CONN a b up' or 'time CONN a b down', in order of time"
    contacts: list[Contact] = []
    names: dict[str, int] = {}
    for number, line in _lines(path):
        words = line.split()
        if len(words) != 5 or words[1] != "CONN" or words[4] not in ("up", "down"):
            bad_line(path, number, line, expected)
        (at,) = _numbers(path, number, line, words[:1], expected)
        if contacts and at < contacts[-1].at:
            bad_line(path, number, line, expected)
        a, b = (names.setdefault(name, len(names)) for name in words[2:4])
        if a == b:
            bad_line(path, number, line, "two different nodes")
        contacts.append(Contact(at, min(a, b), max(a, b), words[4] == "up"))
    return contacts, len(names)


def read_mesh(path: Path) -> tuple[list[MeshLink], int]:
    """A community mesh: its links, and how many nodes they join; unlinked ones are left out."""
    expected = 'JSON with "nodes" and "links" of source, target, source_tq, target_tq'
    try:
        raw = list(json.loads(read_text(path))["links"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise StackError(f"{path}, line {line}: expected {expected}") from None
    names: dict[str, int] = {}
    links: dict[tuple[int, int], MeshLink] = {}
    for position, entry in enumerate(raw):
        link = _mesh_link(path, position, entry, names)
        links.setdefault((link.a, link.b), link)
    return [link for link in links.values() if link.a != link.b], len(names)


def _mesh_link(path: Path, position: int, entry: Any, names: dict[str, int]) -> MeshLink:
    try:
        a, b = (names.setdefault(str(entry[end]), len(names)) for end in ("source", "target"))
        forth, back = (float(entry.get(f"{end}_tq", 1.0)) for end in ("source", "target"))
        if not (0 <= forth <= 1 and 0 <= back <= 1):
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        raise StackError(
            f"{path}, link {position}: expected source, target, and source_tq and target_tq "
            f"between 0 and 1, found {str(entry)[:60]}"
        ) from None
    return MeshLink(a, b, forth, back) if a < b else MeshLink(b, a, back, forth)
