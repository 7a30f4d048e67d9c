"""The store of runs: one Parquet file per run and table, whole or not there at all.

::

    OUT/tables/traffic/5d53….parquet         what one run left in one table
    OUT/tables/runs/5d53….parquet            its row in ``runs``, written last: now the run is done
    OUT/tables/runs/77ab….failed.parquet     the row of a run that failed, with its error
    OUT/tables/traffic/part-9f02….parquet    many small runs in one file, valid once ``runs`` has it
    OUT/tables/.sweep/in-flight/5d53…        a run being simulated, and how often it was tried

A file is written under a name that starts with a dot, which Spark and this module pass over, and
renamed when whole. What a killed process leaves behind is therefore either whole or recognised.
Files are not forced to disk one by one: after a power failure a damaged one is found by its missing
end and its run is simulated again.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.pipeline.errors import PipelineError, writing
from shoal.record import SCHEMAS, TABLES

ENDING = ".parquet"
FAILED = ".failed.parquet"
PART = "part-"
_MAGIC = b"PAR1"
Kept: TypeAlias = tuple[Mapping[str, pa.Table], Mapping[str, Any]]
"""A run to be kept: its tables, and its row in ``runs``."""


@dataclass
class Inventory:
    """Contents of a folder."""

    loose: dict[str, list[str]] = field(default_factory=dict)
    """Done, each table a file of its own: run -> tables other than ``runs``."""
    folded: dict[str, str] = field(default_factory=dict)
    """Done, in a part: run -> part."""
    failed: set[str] = field(default_factory=set)
    parts: dict[str, list[str]] = field(default_factory=dict)
    """Part -> tables other than ``runs``."""
    damaged: set[str] = field(default_factory=set)
    """Runs (or parts) of which a file is damaged or missing."""
    unfinished: set[str] = field(default_factory=set)
    """Runs that left some files but not their row in ``runs``."""
    rubbish: list[Path] = field(default_factory=list)
    """Files that belong to no run that is done."""

    @property
    def done(self) -> set[str]:
        """All runs that need not be simulated again."""
        return set(self.loose) | set(self.folded)

    def only(self, runs: Collection[str]) -> Inventory:
        """The files that hold some runs; other runs of the same parts are among them."""
        parts = {self.folded[run] for run in runs if run in self.folded}
        return Inventory(
            loose={run: self.loose[run] for run in runs if run in self.loose},
            failed=self.failed.intersection(runs),
            parts={part: tables for part, tables in self.parts.items() if part in parts},
        )


class Store:
    """The tables of one output folder."""

    def __init__(self, out: Path) -> None:
        self.out = out.absolute()
        self.tables = self.out / "tables"
        self.control = self.tables / ".sweep"
        self.in_flight = self.control / "in-flight"
        self._parts: dict[str, list[str]] = {}
        """Runs of the parts that have been read."""
        self._took: dict[str, float | None] = {}
        """Seconds that the runs of these parts took."""

    def prepare(self) -> None:
        """Make the folders; a clear error if that cannot be."""
        with writing(f"to {self.out}"):
            for table in TABLES:
                (self.tables / table).mkdir(parents=True, exist_ok=True)
            self.in_flight.mkdir(parents=True, exist_ok=True)
            probe = self.control / f"probe-{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder; only one sweep at a time writes to it."""
        with (self.control / "lock").open("a") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(
                    f"another sweep is writing to {self.out}",
                    "wait for it or choose another --out folder",
                ) from None
            yield

    def token(self) -> str | None:
        """The token of the sweep under way, if there is one."""
        try:
            return (self.control / "token").read_text()
        except OSError:
            return None

    def set_token(self, token: str | None) -> None:
        """Write the token of the sweep under way; None tells its workers to stop."""
        path = self.control / "token"
        if token is None:
            path.unlink(missing_ok=True)
        else:
            draft = self.control / f".{token}"
            draft.write_text(token)
            draft.replace(path)

    # Writing: called by whoever simulates

    def path(self, table: str, run: str, ending: str = ENDING) -> Path:
        """The file of a run (or part) in a table."""
        return Path(f"{self.tables}/{table}/{run}{ending}")

    def write(self, run: str, tables: Mapping[str, pa.Table], row: Mapping[str, Any]) -> None:
        """Write a run: its tables, then its row."""
        for name, table in tables.items():
            self._put(table, self.path(name, run))
        self._put(_row_table(row), self.path("runs", run))
        self.path("runs", run, FAILED).unlink(missing_ok=True)

    def write_part(self, part: str, runs: Sequence[Kept]) -> None:
        """Keep several small runs in one file per table: their tables, then their rows."""
        pieces: dict[str, list[pa.Table]] = {}
        for tables, _ in runs:
            for name, table in tables.items():
                pieces.setdefault(name, []).append(table)
        for name, some in pieces.items():
            self._put(pa.concat_tables(some).combine_chunks(), self.path(name, part))
        rows = _row_table(*(row for _, row in runs))
        named = rows.replace_schema_metadata({"tables": " ".join(sorted(pieces))})
        self._put(named, self.path("runs", part))

    def write_failure(self, run: str, row: Mapping[str, Any]) -> None:
        """Write the row of a run that failed."""
        self._put(_row_table(row), self.path("runs", run, FAILED))

    def _put(self, table: pa.Table, path: Path) -> None:
        draft = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
        try:
            # A dictionary pays for texts (`run_id` is next to nothing), and not for numbers.
            texts = [f.name for f in table.schema if pa.types.is_string(f.type)]
            pq.write_table(
                table,
                draft,
                compression="zstd",
                use_dictionary=texts,
                write_statistics=False,
                store_schema=bool(table.schema.metadata),
            )
            draft.replace(path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise

    def is_done(self, run: str) -> bool:
        """Whether a run's row is there, as a file of its own."""
        return self.path("runs", run).exists()

    def begin(self, run: str) -> int:
        """Mark a run as being simulated; how often it was begun before in this sweep."""
        mark = self.in_flight / run
        try:
            before = int(mark.read_text())
        except (FileNotFoundError, ValueError):
            before = 0
        mark.write_text(str(before + 1))
        return before

    def end(self, run: str) -> None:
        """The run is over, however it went."""
        (self.in_flight / run).unlink(missing_ok=True)

    def attempts(self) -> dict[str, int]:
        """The runs in flight, or lost in flight, and how often each was begun."""
        marks = {}
        for mark in self.in_flight.iterdir():
            with suppress(OSError, ValueError):
                marks[mark.name] = int(mark.read_text())
        return marks

    # Reading: what is there

    def finished(self) -> tuple[set[str], set[str]]:
        """Runs done and failed: by names only, and each part read once, cheap enough to poll."""
        done, failed = set(), set()
        for entry in os.scandir(self.tables / "runs"):
            name = entry.name
            if name.startswith("."):
                continue
            if name.startswith(PART):
                done.update(self._runs_of(name.removesuffix(ENDING)))
            elif name.endswith(FAILED):
                failed.add(name.removesuffix(FAILED))
            elif name.endswith(ENDING):
                done.add(name.removesuffix(ENDING))
        return done, failed

    def _runs_of(self, part: str) -> list[str]:
        """The runs of a part; none if it cannot be read."""
        if part not in self._parts:
            with suppress(OSError, pa.ArrowException):
                rows = pq.read_table(self.path("runs", part), columns=["run_id", "wall_seconds"])
                runs, took = (column.to_pylist() for column in rows.columns)
                self._parts[part] = runs
                self._took.update(zip(runs, took, strict=True))
        return self._parts.get(part, [])

    def wall_seconds(self, run: str) -> float | None:
        """Seconds that a run took which :meth:`finished` has named; None if it failed."""
        if run not in self._took:
            with suppress(OSError, pa.ArrowException):
                row = pq.read_table(self.path("runs", run), columns=["wall_seconds"])
                self._took[run] = row["wall_seconds"][0].as_py()
        return self._took.get(run)

    def inventory(self, expected: Mapping[str, tuple[str, ...]] | None = None) -> Inventory:
        """Runs that are whole and runs that are damaged; ``expected`` names the tables of a run."""
        found = Inventory()
        there: dict[str, set[str]] = {table: set() for table in TABLES}
        for table in TABLES:
            with suppress(FileNotFoundError):
                for entry in os.scandir(self.tables / table):
                    if entry.name.startswith("."):
                        found.rubbish.append(Path(entry.path))
                    elif entry.name.endswith(ENDING):
                        there[table].add(entry.name.removesuffix(ENDING))
        self._take_parts(found, there)
        self._take_loose(found, there, expected or {})
        return found

    def _take_parts(self, found: Inventory, there: dict[str, set[str]]) -> None:
        for part in sorted(name for name in there["runs"] if name.startswith(PART)):
            try:
                file = pq.ParquetFile(self.path("runs", part))
                tables = (file.metadata.metadata or {}).get(b"tables", b"").decode().split()
                for table in tables:
                    pq.read_metadata(self.path(table, part))
                runs = file.read(["run_id"])["run_id"].to_pylist()
            except (OSError, pa.ArrowException):
                found.damaged.add(part)
                continue
            found.parts[part] = tables
            found.folded.update(dict.fromkeys(runs, part))
        for table, names in there.items():
            for name in [n for n in names if n.startswith(PART)]:
                names.remove(name)
                if name not in found.parts:
                    found.rubbish.append(self.path(table, name))

    def _take_loose(
        self, found: Inventory, there: dict[str, set[str]], expected: Mapping[str, tuple[str, ...]]
    ) -> None:
        rows = there.pop("runs")
        failed = {name.removesuffix(".failed") for name in rows if name.endswith(".failed")}
        done = {name for name in rows if not name.endswith(".failed")}
        tables: dict[str, list[str]] = {}
        for table, runs in there.items():
            for run in runs:
                tables.setdefault(run, []).append(table)
        for run in sorted(done | set(tables)):
            mine = tables.get(run, [])
            files = [self.path(table, run) for table in mine]
            if run in found.folded:  # the part has it; whoever folded it was stopped while removing
                found.rubbish += [*files, self.path("runs", run)]
            elif run not in done:
                found.unfinished.add(run)
                found.rubbish += files
            elif set(expected.get(run, ())) <= set(mine) and all(
                map(_is_whole, [*files, self.path("runs", run)])
            ):
                found.loose[run] = mine
            else:
                found.damaged.add(run)
                found.rubbish += [*files, self.path("runs", run)]
        for run in sorted(failed):
            row = self.path("runs", run, FAILED)
            if run in found.done or not _is_whole(row):
                found.rubbish.append(row)
            else:
                found.failed.add(run)

    def clean(self, found: Inventory) -> None:
        """Remove what belongs to no run that is done, and the marks of runs in flight."""
        for path in [*found.rubbish, *self.in_flight.iterdir()]:
            with suppress(OSError):
                path.unlink()
        found.rubbish.clear()

    def files(self, found: Inventory, table: str) -> list[Path]:
        """The files that make up a table."""
        names = [p for p, tables in found.parts.items() if table == "runs" or table in tables]
        names += [r for r, tables in found.loose.items() if table == "runs" or table in tables]
        paths = [self.path(table, name) for name in names]
        if table == "runs":
            paths += [self.path(table, run, FAILED) for run in sorted(found.failed)]
        return paths

    def rows(self, found: Inventory, columns: list[str]) -> pa.Table:
        """The ``runs`` table, read here (not by Spark)."""
        import pyarrow.dataset as ds

        paths = [str(path) for path in self.files(found, "runs")]
        schema = SCHEMAS["runs"]
        if not paths:
            return schema.empty_table().select(columns)
        return ds.dataset(paths, schema=schema, format="parquet").to_table(columns=columns)


def _row_table(*rows: Mapping[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMAS["runs"])


def _is_whole(path: Path) -> bool:
    """Whether a Parquet file ends as it should; a file cut short does not."""
    try:
        with path.open("rb") as handle:
            handle.seek(-8, os.SEEK_END)
            end = handle.read(8)
    except OSError:
        return False
    return end[4:] == _MAGIC and int.from_bytes(end[:4], "little") < path.stat().st_size
