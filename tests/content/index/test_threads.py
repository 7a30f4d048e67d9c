"""Threads share an index, and reading a value may run any code.

``test_sanitizer.py`` runs these tests again, with C extensions that report wrong reads of memory.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from shoal.content.index import MatchIndex, single


@pytest.fixture(params=["c", "numba"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numba":
        monkeypatch.setattr(single, "match", None)
        monkeypatch.setattr(single, "quick", None)
    elif single.match is None:
        pytest.skip("the extension is not built")


@pytest.fixture(autouse=True)
def often() -> object:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*works: Callable[[], None]) -> None:
    """Run these at the same time; the first error of any."""
    errors: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_threads_that_match_get_what_they_would_get_alone() -> None:
    index = MatchIndex()
    for n in range(60):
        index.insert(f"x BETWEEN {n} AND {n + 3} AND name LIKE 'n%' AND LENGTH(name) < 9")
        index.insert(f"x > {n}")

    def work(first: int) -> Callable[[], None]:
        def match() -> None:
            for turn in range(300):
                x = (first * 7 + turn) % 64
                event = {"x": float(x), "name": f"n{first}-{turn}"}  # never met before
                wanted = [2 * n for n in range(60) if n <= x <= n + 3]
                wanted += [2 * n + 1 for n in range(60) if x > n]
                assert sorted(index.match(event)) == sorted(wanted)
                assert sorted(index.match_ids(event).tolist()) == sorted(wanted)

        return match

    together(*(work(first) for first in range(6)))


def test_threads_that_match_see_what_others_insert_and_remove() -> None:
    index = MatchIndex()
    kept = [index.insert(f"x >= {n} AND s != 't{n}'") for n in range(50)]
    stop = threading.Event()

    def change() -> None:
        for turn in range(400):
            handle = index.insert(f"x < {turn} AND y{turn % 40} = 'a{turn}'")
            assert index.remove(handle)
        stop.set()

    def match() -> None:
        while not stop.is_set():
            for x in (0, 25, 49):
                wanted = [h for n, h in enumerate(kept) if x >= n and n != 5]
                assert sorted(index.match({"x": x, "s": "t5"})) == wanted

    together(change, match, match)


def test_batches_and_events_at_the_same_time() -> None:
    index = MatchIndex()
    index.insert_many(f"x BETWEEN {n} AND {n + 10}" for n in range(1500))
    index.compact()
    rows = list(range(0, 1500, 3))
    wanted = [list(range(max(0, x - 10), x + 1)) for x in rows]
    batch = pa.record_batch({"x": rows})

    def batches() -> None:
        for _ in range(10):
            assert index.match_batch(batch).lists() == wanted

    def streams() -> None:
        for _ in range(10):
            count = 0
            for part in index.stream(batch):
                count += len(part.ids)
            assert count == sum(map(len, wanted))

    def events() -> None:
        for x in rows[:300]:
            assert sorted(index.match({"x": x})) == wanted[x // 3]

    together(batches, streams, batches, events)


class Meddling(str):
    """Text that changes the index and the event when it is read."""

    target: MatchIndex
    event: dict[str, object]

    def __str__(self) -> str:
        if "z" in self.event:
            del self.event["z"]
            self.event.update((f"other{n}", "text") for n in range(200))
            assert self.target.match({"a": "z", "b": "z"}) == []
            for n in range(100):
                self.target.insert(f"new{n} = 1 AND b != 'it'")
            gc.collect()
        return "it"


def test_reading_a_value_may_run_code_that_changes_everything() -> None:
    index = MatchIndex()
    a, b = index.insert("a = 'it'"), index.insert("b LIKE 'i%' AND a = 'it'")
    event: dict[str, object] = {"z": 1, "a": Meddling("it"), "b": "it"}
    Meddling.target, Meddling.event = index, event
    assert sorted(index.match(event)) == [a, b]
    assert index.match({"a": "it", "b": "no"}) == [a]


def test_an_event_that_changes_while_it_is_read() -> None:
    """Texts that no filter has met are read by Python code, during which other threads run."""
    index = MatchIndex()
    handles = [index.insert(f"a{n} LIKE 'v%'") for n in range(40)]
    event: dict[str, object] = {f"a{n}": f"v{n}" for n in range(40)}
    stop = threading.Event()

    def change() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            name = f"a{turn % 40}"
            event[name] = f"v{turn}"
            event[f"more{turn % 999}"] = turn

    def match() -> None:
        try:
            for _ in range(1500):
                assert set(index.match(event)) <= set(handles)
        finally:
            stop.set()

    together(change, match)
