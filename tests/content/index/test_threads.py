"""Threads share an index, reading a value may run any code, and no freed memory is read."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from shoal.content.index import MatchIndex, single

SOURCE = Path(single.__file__).with_name("single.c")
EXTENSION = sysconfig.get_config_var("EXT_SUFFIX")


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


def test_under_the_address_sanitizer(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """These tests again, with an extension that reports reads of memory that is not its own."""
    if os.environ.get("SHOAL_SANITIZED"):
        pytest.skip("this is that run")
    if "numba" in request.node.name:
        pytest.skip("for the extension only")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    built = tmp_path / f"_single{EXTENSION}"
    subprocess.run(
        [
            compiler, "-shared", "-fPIC", "-O1", "-g", "-fsanitize=address",
            "-fno-omit-frame-pointer", f"-I{sysconfig.get_path('include')}", str(SOURCE),
            "-o", str(built),
        ],
        check=True,
    )  # fmt: skip
    # Found before the extension that is installed: a package's path may have several folders.
    (tmp_path / "conftest.py").write_text(
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('_single', {str(built)!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "sys.modules['shoal.content.index._single'] = module\n"
        "import shoal.content.index\n"
        "shoal.content.index._single = module\n"
        "from shoal.content.index import single\n"
        "assert single._extension is module\n"
    )
    (tmp_path / "test_sanitized.py").write_text(Path(__file__).read_text())
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
            "-k", "not numba and not batches", "-c", os.devnull, "--rootdir", str(tmp_path),
            str(tmp_path),
        ],
        env={
            **os.environ,
            "SHOAL_SANITIZED": "1",
            "LD_PRELOAD": library,
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    assert " passed" in ran.stdout
