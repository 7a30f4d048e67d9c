"""A killed process leaves whole runs, or remains that are recognised; folding loses nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.tables import fold as folding
from shoal.pipeline.tables.fold import fold
from shoal.pipeline.tables.store import Store
from shoal.record import SCHEMAS


@pytest.fixture
def store(out: Path) -> Store:
    store = Store(out)
    store.prepare()
    return store


def keep(store: Store, run: str, rows: int = 3) -> None:
    """A made-up run with a table of a few rows and an empty one."""
    links = {
        "run_id": [run] * rows,
        "time": [float(i) for i in range(rows)],
        "a": list(range(rows)),
        "b": [7] * rows,
        "change": ["up"] * rows,
        "repair": [None] * rows,
    }
    tables = {
        "links": pa.table(links, schema=SCHEMAS["links"]),
        "traffic": SCHEMAS["traffic"].empty_table(),
    }
    store.write(run, tables, {"run_id": run, "status": "done", "wall_seconds": 1.0})


def rows_of(store: Store, table: str) -> list[str]:
    """The run of every row that a reader of the table sees."""
    found = store.inventory()
    files = store.files(found, table)
    return sorted(
        r for f in files for r in pq.ParquetFile(f).read(["run_id"])["run_id"].to_pylist()
    )


EXPECTED = ("links", "traffic")


def test_a_run_is_done_when_its_row_is_there(store: Store) -> None:
    keep(store, "a")
    assert store.inventory({"a": EXPECTED}).done == {"a"}
    store.path("runs", "a").unlink()
    found = store.inventory({"a": EXPECTED})
    assert (found.done, found.unfinished) == (set(), {"a"})
    store.clean(found)
    assert not store.path("links", "a").exists()


@pytest.mark.parametrize("table", ["links", "traffic", "runs"])
def test_a_table_cut_short_is_found_and_removed(store: Store, table: str) -> None:
    keep(store, "a")
    keep(store, "b")
    path = store.path(table, "a")
    path.write_bytes(path.read_bytes()[:-5])
    found = store.inventory()
    assert (found.done, found.damaged) == ({"b"}, {"a"})
    store.clean(found)
    assert store.inventory().done == {"b"}
    assert rows_of(store, "links") == ["b"] * 3


def test_a_missing_table_is_found(store: Store) -> None:
    keep(store, "a")
    store.path("traffic", "a").unlink()
    assert store.inventory({"a": ("links",)}).done == {"a"}
    assert store.inventory({"a": EXPECTED}).damaged == {"a"}


def test_drafts_are_rubbish_and_never_read(store: Store) -> None:
    keep(store, "a")
    draft = store.tables / "links" / ".b.parquet-123"
    draft.write_bytes(b"PAR1 half")
    found = store.inventory()
    assert (found.done, found.damaged) == ({"a"}, set())
    store.clean(found)
    assert not draft.exists()


def test_success_replaces_failure(store: Store) -> None:
    store.write_failure("a", {"run_id": "a", "status": "error", "error": "no"})
    assert store.inventory().failed == {"a"}
    assert rows_of(store, "runs") == ["a"]
    keep(store, "a")
    found = store.inventory()
    assert (found.done, found.failed) == ({"a"}, set())
    assert rows_of(store, "runs") == ["a"]


def test_folding_keeps_every_row_once(store: Store) -> None:
    runs = [f"{i:03}" for i in range(10)]
    for run in runs:
        keep(store, run)
    store.write_failure("bad", {"run_id": "bad", "status": "error"})
    before = {table: rows_of(store, table) for table in SCHEMAS}
    assert fold(store, store.inventory(), fewest=2) == 10
    assert {table: rows_of(store, table) for table in SCHEMAS} == before
    assert len(list((store.tables / "links").iterdir())) == 1
    keep(store, "new")
    assert store.inventory(dict.fromkeys(runs, EXPECTED)).done == {*runs, "new"}
    assert len(rows_of(store, "links")) == 33


def test_runs_are_folded_in_the_order_of_their_plan_and_found_without_the_other_files(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ["d", "a", "c", "b"]
    for run in (*order, "e", "f"):
        keep(store, run)
    monkeypatch.setattr(folding, "MOST", 2)
    fold(store, store.inventory(), fewest=2, order=[*order, "not simulated yet"])
    keep(store, "g")
    store.write_failure("h", {"run_id": "h", "status": "error"})
    found = store.inventory()
    for runs, there in (
        (["d"], {"d", "a"}),
        (["c", "e", "unknown"], {"c", "b", "e", "f"}),
        (["g", "h"], {"g"}),
        ([], set()),
    ):
        files = store.files(found.only(runs), "links")
        assert {r for file in files for r in pq.read_table(file)["run_id"].to_pylist()} == there
    rows = store.rows(found.only(["g", "h"]), ["run_id"])["run_id"].to_pylist()
    assert sorted(rows) == ["g", "h"]


def test_few_runs_and_large_ones_stay_as_they_are(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, "a")
    keep(store, "b")
    assert fold(store, store.inventory(), fewest=3) == 0
    monkeypatch.setattr(folding, "LARGEST", 10)
    assert fold(store, store.inventory(), fewest=1) == 0


def test_folding_stopped_at_any_step_neither_loses_nor_doubles(
    store: Store, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(5):
        keep(store, f"{i:03}")
    wanted = rows_of(store, "links"), rows_of(store, "runs")
    whole = out.with_name("whole")
    shutil.copytree(out, whole)
    steps = 0
    while True:
        shutil.rmtree(out)
        shutil.copytree(whole, out)
        left = steps

        def step(self: Path, *args: object, real: object, **kwargs: object) -> object:
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return real(self, *args, **kwargs)  # type: ignore[operator]  # one of Path's methods

        with monkeypatch.context() as patch:
            for name in ("replace", "unlink"):
                real = getattr(Path, name)
                patch.setattr(
                    Path, name, lambda self, *a, _r=real, **k: step(self, *a, real=_r, **k)
                )
            try:
                fold(store, store.inventory(), fewest=2)
                finished = True
            except KeyboardInterrupt:
                finished = False
        assert (rows_of(store, "links"), rows_of(store, "runs")) == wanted, f"after {steps} steps"
        store.clean(store.inventory())
        assert (rows_of(store, "links"), rows_of(store, "runs")) == wanted
        if finished:
            break
        steps += 1
    assert steps > 10


def test_a_damaged_part_is_given_up_whole(store: Store) -> None:
    for i in range(4):
        keep(store, f"{i:03}")
    fold(store, store.inventory(), fewest=2)
    part = next((store.tables / "links").glob("part-*"))
    part.write_bytes(part.read_bytes()[:-5])
    found = store.inventory()
    assert (found.done, len(found.damaged)) == (set(), 1)
    store.clean(found)
    assert rows_of(store, "runs") == []


def test_only_one_sweep_at_a_time_holds_a_folder(store: Store) -> None:
    with (
        store.lock(),
        pytest.raises(PipelineError, match="another sweep is writing"),
        Store(store.out).lock(),
    ):
        pass
    with store.lock():
        pass


def test_an_unwritable_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PipelineError, match=r"cannot write to .*file") as refused:
        Store(tmp_path / "file" / "out").prepare()
    assert "--out" in refused.value.cure


def test_attempts_at_a_run_are_counted(store: Store) -> None:
    assert [store.begin("a"), store.begin("a"), store.begin("b")] == [0, 1, 0]
    assert store.attempts() == {"a": 2, "b": 1}
    store.end("a")
    assert store.attempts() == {"b": 1}
