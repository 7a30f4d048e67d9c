"""Recorded sessions: who was up when, read from files. A broken line is an error that names it.

* ``sessions``: a CSV (also gzipped), one session a line: ``node``, ``t_up`` (or ``start``), and
  ``end`` or the interval in which that lies, ``t_last_seen`` and ``t_found_down`` (its middle is
  taken). An end of -1, or none, is a session that lasts to the end of the recording.
* ``fta``: ``event_trace.tab`` of the Failure Trace Archive, separated by tabs: ``event_id``,
  ``component_id``, ``node_id``, ``platform_id``, ``node_name``, ``event_type``,
  ``event_start_time``, ``event_stop_time``, ``event_end_reason``. Events of type 1 are times of
  availability. Seconds count from the first of them.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from shoal.simulation.importers import bad_line, read_rows, read_text
from shoal.stack import StackError


class Session(NamedTuple):
    """A time during which a node is up."""

    node: int
    start: float
    end: float
    """Infinite if it lasts for ever."""


STARTS = ("t_up", "start")
FIELDS = 9
"""Columns of an event table of the Failure Trace Archive."""


def read_sessions(path: Path) -> list[Session]:
    """A CSV of sessions, in order of their starts."""
    columns, rows = read_rows(path)
    start = next((column for column in STARTS if column in columns), None)
    between = {"t_last_seen", "t_found_down"} <= set(columns)
    if start is None or "node" not in columns or not (between or "end" in columns):
        expected = f"columns node, {' or '.join(STARTS)}, and end"
        bad_line(path, 1, ",".join(columns), expected)
    found: list[tuple[int, Session]] = []
    for number, row in enumerate(rows, 2):
        try:
            node, begins = int(row["node"]), float(row[start])
            if between:
                seen, gone = float(row["t_last_seen"]), float(row["t_found_down"])
                ends = math.inf if gone < 0 else (seen + gone) / 2
            else:
                ends = float(row["end"] or -1)
                ends = math.inf if ends == -1 else ends
        except (TypeError, ValueError):
            text = ",".join(map(str, row.values()))
            bad_line(path, number, text, "a node and times in seconds")
        found.append((number, Session(node, begins, ends)))
    return _checked(path, found)


def read_events(path: Path) -> list[Session]:
    """An event table of the Failure Trace Archive; a node's events in order of time."""
    expected = (
        f"{FIELDS} tab-separated fields: event_id, …, node_id, …, event_type 0 or 1, start, stop"
    )
    found: list[tuple[int, Session]] = []
    for number, text in enumerate(read_text(path).splitlines(), 1):
        if not text.strip() or text.startswith(("#", "event_id")):
            continue
        fields = text.split("\t")
        try:
            if len(fields) < FIELDS - 1 or fields[5] not in ("0", "1"):
                raise ValueError
            node, start, stop = int(fields[2]), float(fields[6]), float(fields[7])
        except ValueError:
            bad_line(path, number, text, expected)
        if fields[5] == "1":
            found.append((number, Session(node, start, stop)))
    sessions = _checked(path, _joined(found))
    first = min(session.start for session in sessions)
    return [Session(node, start - first, end - first) for node, start, end in sessions]


def _joined(found: list[tuple[int, Session]]) -> list[tuple[int, Session]]:
    """Events of a node that follow each other without a gap are one session."""
    whole: list[tuple[int, Session]] = []
    last: dict[int, int] = {}
    for number, session in found:
        before = last.get(session.node)
        if before is not None and whole[before][1].end == session.start:
            line, earlier = whole[before]
            whole[before] = (line, Session(session.node, earlier.start, session.end))
            continue
        last[session.node] = len(whole)
        whole.append((number, session))
    return whole


def _checked(path: Path, found: list[tuple[int, Session]]) -> list[Session]:
    """The sessions, if each ends after it starts and a node's follow each other in order."""
    if not found:
        raise StackError(f"{path}: no sessions in it")
    last: dict[int, Session] = {}
    for number, session in found:
        node, start, end = session
        before = last.get(node)
        if math.isnan(start) or math.isinf(start) or not start < end:
            text, expected = f"{start:g} to {end:g}", "a session that ends after it starts"
            bad_line(path, number, text, expected)
        if before is not None and start < before.start:
            expected = f"the sessions of node {node} in order of time"
            bad_line(path, number, f"{start:g} after {before.start:g}", expected)
        if before is not None and start < before.end:
            expected = f"a session of node {node} after its last, which ends {before.end:g}"
            bad_line(path, number, f"one that starts at {start:g}", expected)
        last[node] = session
    return [session for _, session in found]
