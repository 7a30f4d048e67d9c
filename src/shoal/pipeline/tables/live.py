"""The recordings of a live network's brokers as one run, with the tables that a simulated run has.

A broker knows what it published, delivered, sent and was asked for; who should have got an event is
known only when all recordings are put together. That is done here: subscriptions over time and the
published contents say how many deliveries were owed. Times count from the first row of the run.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.content import AnyContent, AnyFilter, Filter, FilterTable, NaiveTable
from shoal.live.recording import BIN
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.plan.experiment import PlannedRun
from shoal.pipeline.progress import Progress
from shoal.pipeline.tables.store import Store
from shoal.record import SCHEMAS

MANY: Final = 64
"""Filters from which on the matching index pays."""
SAME: Final = 10.0
"""Seconds within which the two ends of a link notice that it came or went."""
CLOSING: Final = 10.0
"""Seconds before the end of a recording in which a broker that stops ends the run with others."""
OF_TREES: Final = ("attached", "parent lost", "root")
"""Notes on places in a tree."""
_filter = msgspec.json.Decoder(AnyFilter)
_published = msgspec.json.Decoder(tuple[int, AnyContent])


@dataclass
class Session:
    """One broker from a start to a stop (or to its last sign of life)."""

    node: int
    notes: list[dict[str, Any]]

    @property
    def end(self) -> float:
        """Time at which its subscriptions ended."""
        last: float = self.notes[-1]["time"]
        return last


def is_recording(folder: Path) -> bool:
    """Whether a folder was written by brokers; else it is the output of a sweep or simulation."""
    return any((folder / "tables" / "notes").glob("*-*-*.parquet"))


def gather(
    folders: Sequence[Path], out: Path, progress: Progress | None = None
) -> list[PlannedRun]:
    """Put recordings together, one run for each name given to ``--run``, into an output folder."""
    rows: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    written: dict[str, set[int]] = defaultdict(set)
    """Per session, the files of notes: each time that a broker wrote, it left one."""
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        for table in SCHEMAS:
            for path in sorted((folder / "tables" / table).glob("[!.]*.parquet")):
                try:
                    found = pq.read_table(path, schema=SCHEMAS[table]).to_pylist()
                except (OSError, pa.ArrowException) as error:
                    raise PipelineError(
                        f"{path} cannot be read: {error}", "remove it, or copy it again"
                    ) from None
                session, _, number = path.stem.rpartition("-")
                if table == "notes" and number.isdigit():
                    written[session].add(int(number))
                for row in found:
                    row["session"] = session
                    rows[row["run_id"]][table].append(row)
    if not rows:
        raise PipelineError(
            f"nothing is recorded in {', '.join(map(str, folders))}",
            "start brokers with --record, or name the folder they record in",
        )
    holed = {session for session, numbers in written.items() if len(numbers) < max(numbers)}
    for tables in rows.values():  # rows of another table may be all that was lost
        notes = (note for note in tables["notes"] if note["what"] in ("alive", "stopped"))
        holed |= {note["session"] for note in notes if note["value"]}
    if holed and progress is not None:
        progress.note(
            f"{len(holed)} recordings have holes: what was lost there counts in no figure"
        )
    unknown = sum(len(_ids(of["deliveries"]) - _ids(of["publications"])) for of in rows.values())
    if unknown and progress is not None:
        progress.note(
            f"{unknown:,} events were delivered that no recording has as published (was a broker "
            "killed, or does one still run?): none of them counts as owed"
        )
    store = Store(out)
    store.prepare()
    return [_keep(store, run, tables) for run, tables in sorted(rows.items())]


def _ids(rows: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {(row["publisher"], row["sequence"]) for row in rows}


def _keep(store: Store, run: str, rows: dict[str, list[dict[str, Any]]]) -> PlannedRun:
    sessions = _sessions(rows["notes"])
    if not sessions:
        raise PipelineError(f"no notes of run '{run}' are there", "copy the recordings again")
    start = min(s.notes[0]["time"] for s in sessions)
    publications = _publications(rows, sessions)
    closing = _closing(sessions)
    links = [link for link in _links(rows["links"]) if link["time"] < closing]
    notes = [n for n in rows["notes"] if n["what"] not in OF_TREES or n["time"] < closing]
    tables = {
        "publications": publications,
        "deliveries": rows["deliveries"],
        "traffic": _traffic(rows["traffic"]),
        "routes": rows["routes"],
        "links": links,
        "notes": [*notes, *_lives(sessions, links)],
    }
    told = (n["value"] for s in sessions for n in s.notes if n["what"] == "started")
    facts = json.loads(next(told, '{"stack": "not recorded"}'))
    configuration = json.dumps({"bin": BIN, "live": True, "nodes": len(_nodes(sessions)), **facts})
    kept = {
        name: pa.Table.from_pylist(
            [{**row, "time": row["time"] - start} for row in found], schema=SCHEMAS[name]
        )
        for name, found in tables.items()
    }
    row = {
        "run_id": run,
        "seed": 0,
        "configuration": configuration,
        "status": "done",
        "nodes": len(_nodes(sessions)),
        "reconfigurations": sum(link["change"] == "down" for link in tables["links"]),
        "messages": sum(count["count"] for count in tables["traffic"]),
        "wall_seconds": max(s.end for s in sessions) - start,
    }
    store.write(run, kept, row)
    return PlannedRun(run, "live", run, None, facts["stack"], 0, configuration, 0.0)


def _nodes(sessions: Iterable[Session]) -> set[int]:
    return {session.node for session in sessions}


def _sessions(notes: list[dict[str, Any]]) -> list[Session]:
    by_session: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for note in notes:
        by_session[note["session"]].append(note)
    found = [Session(group[0]["node"], group) for group in by_session.values()]
    for session in found:
        session.notes.sort(key=lambda note: note["time"])
    return sorted(found, key=lambda session: session.notes[0]["time"])


def _closing(sessions: list[Session]) -> float:
    """Time at which brokers began to stop because the run was over; infinite if they did not."""
    last = {session.node: session for session in sessions}
    ends = max(session.end for session in sessions)
    stops = [
        note["time"]
        for session in last.values()
        if session.end > ends - CLOSING
        for note in session.notes
        if note["what"] in ("leaving", "stopped")
    ]
    return min(stops, default=inf)


def _lives(sessions: list[Session], links: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """When each broker was up, as notes that a simulation leaves too.

    A killed broker's last rows are lost: it went when the first other end noticed, and with its
    last sign of life if nobody did. Who was there in the last seconds was there to the end.
    """
    found = []
    ends = max(session.end for session in sessions)
    for session in sessions:
        note = session.notes[0]
        found.append({**note, "what": "node up", "value": ""})
        if session.end > ends - SAME:
            continue
        noticed = [
            link["time"]
            for link in links
            if link["change"] == "down"
            and session.node in (link["a"], link["b"])
            and 0 <= link["time"] - session.end < SAME
        ]
        at = min(noticed, default=session.end)
        found.append({**note, "time": at, "what": "node down", "value": ""})
    return found


def _publications(
    rows: dict[str, list[dict[str, Any]]], sessions: list[Session]
) -> list[dict[str, Any]]:
    """Every publication with those who wanted it then, and how many of them got it."""
    receivers: dict[tuple[int, int], set[int]] = defaultdict(set)
    for row in rows["deliveries"]:
        receivers[row["publisher"], row["sequence"]].add(row["node"])
    owed = _owed(sessions)
    found = []
    for row in rows["publications"]:
        key = (row["publisher"], row["sequence"])
        wanted = owed.get(key, set())
        counts = {
            "owed": len(wanted),
            "received": len(wanted & receivers[key]),
            "owed_core": 0,
            "received_core": 0,
            "owed_others": len(wanted),
            "received_others": len(wanted & receivers[key]),
            "reachable": len(wanted),
        }
        found.append({**row, **counts})
    for row in rows["deliveries"]:
        row["wanted"] = row["node"] in owed.get((row["publisher"], row["sequence"]), set())
    return sorted(found, key=lambda row: row["time"])


def _owed(sessions: list[Session]) -> dict[tuple[int, int], set[int]]:
    """Who wanted each event when it was published: subscriptions and contents in order of time."""
    acts: list[tuple[float, int, int, Any]] = []
    for session in sessions:
        mine: dict[Filter, None] = {}
        for note in session.notes:
            if note["what"] == "subscribed":
                filter = _filter.decode(note["value"])
                mine[filter] = None
                acts.append((note["time"], 0, session.node, filter))
            elif note["what"] == "unsubscribed":
                filter = _filter.decode(note["value"])
                mine.pop(filter, None)
                acts.append((note["time"], 1, session.node, filter))
            elif note["what"] == "published":
                acts.append((note["time"], 2, session.node, _published.decode(note["value"])))
        acts += [(session.end, 1, session.node, filter) for filter in mine]
    acts.sort(key=lambda act: act[:3])
    filters = {act[3] for act in acts if act[1] == 0}
    table = _table(len(filters))
    owed: dict[tuple[int, int], set[int]] = {}
    for _, kind, node, what in acts:
        if kind == 0:
            table.insert(node, what)
        elif kind == 1:
            table.remove(node, what)
        else:
            sequence, content = what
            owed[node, sequence] = set(table.match(content))
    return owed


def _table(filters: int) -> FilterTable:
    if filters <= MANY:
        return NaiveTable()
    from shoal.live.edge_table import INDEX, EdgeTable

    INDEX.load()
    return EdgeTable()


def _traffic(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The brokers' counts added up; each counts itself among those that got something."""
    sums: dict[tuple[str, float], dict[str, Any]] = {}
    for row in rows:
        key = (row["kind"], round(row["time"] / BIN))
        total = sums.get(key)
        if total is None:
            sums[key] = dict(row)
        else:
            for column in ("count", "misrouted", "cost", "bytes", "nodes"):
                total[column] += row[column]
    return sorted(sums.values(), key=lambda row: (row["time"], row["kind"]))


def _links(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each change once: both ends saw it, unless one of them died."""
    found: list[dict[str, Any]] = []
    up: set[tuple[int, int]] = set()
    last: dict[tuple[int, int, str], tuple[float, int]] = {}
    for row in sorted(rows, key=lambda row: row["time"]):
        a, b = sorted((row["a"], row["b"]))
        key = (a, b, row["change"])
        seen = last.get(key)
        if seen is not None and seen[1] != row["a"] and row["time"] - seen[0] < SAME:
            del last[key]  # the other end's view of the same change
            continue
        last[key] = (row["time"], row["a"])
        if (row["change"] == "up") == ((a, b) in up):
            continue  # a change back was lost with the broker that saw it
        up ^= {(a, b)}
        found.append({**row, "a": a, "b": b})
    return found
