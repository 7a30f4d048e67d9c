"""Threads share an index whose C extensions report every read of memory that is not their own.

The extensions are compiled here with gcc's address sanitizer, whether others were built or not, and
``test_threads.py`` runs with them in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import shoal.content.index

INDEX = Path(shoal.content.index.__file__).parent
SOURCES = {
    "shoal.content._building": INDEX / "building.c",
    "shoal.content.index._single": INDEX / "single.c",
}
CONFTEST = """
import importlib.util, sys
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader

BUILT = {built!r}


class Sanitized:
    # Found before an extension that is installed.
    def find_spec(self, name, path=None, target=None):
        if name in BUILT:
            return importlib.util.spec_from_file_location(
                name, BUILT[name], loader=ExtensionFileLoader(name, BUILT[name])
            )


sys.meta_path.insert(0, Sanitized())
from shoal.content.index import building, single

assert single._extension.__file__ == BUILT["shoal.content.index._single"]
assert building._extension.__file__ == BUILT["shoal.content._building"]
"""
WRONG = """
import sys
sys.path.insert(0, {folder!r})
import wrong
"""
WRONG_C = """
#include <Python.h>
#include <stdlib.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "wrong", NULL, -1, NULL};
PyMODINIT_FUNC PyInit_wrong(void) {
    volatile char *freed = malloc(100);
    free((void *)freed);
    return freed[3] ? NULL : PyModule_Create(&definition);
}
"""


def compiled(source: Path, target: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler is not None
    subprocess.run(
        [
            compiler, "-shared", "-fPIC", "-O1", "-g", "-fsanitize=address",
            "-fno-omit-frame-pointer", f"-I{sysconfig.get_path('include')}", str(source),
            "-o", str(target),
        ],
        check=True,
    )  # fmt: skip


@pytest.fixture
def environment() -> dict[str, str]:
    """What a process needs that loads such extensions."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        pytest.skip("no Python headers")
    library = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    given = {key: value for key, value in os.environ.items() if key != "SHOAL_PURE"}
    return {
        **given,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }


def test_threads_read_no_memory_that_is_not_theirs(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    built = {}
    for name, source in SOURCES.items():
        target = tmp_path / f"{name.rpartition('.')[2]}{suffix}"
        compiled(source, target)
        built[name] = str(target)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(built=built))
    tests = Path(__file__).with_name("test_threads.py").read_text()
    (tmp_path / "test_sanitized.py").write_text(tests)
    ran = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-rs",
            "-k", "not numba and not batches", "-c", os.devnull, "--rootdir", str(tmp_path),
            str(tmp_path),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-6000:]
    assert " passed" in ran.stdout
    assert "skipped" not in ran.stdout


def test_a_wrong_read_would_be_reported(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "wrong.c").write_text(WRONG_C)
    compiled(tmp_path / "wrong.c", tmp_path / f"wrong{sysconfig.get_config_var('EXT_SUFFIX')}")
    ran = subprocess.run(
        [sys.executable, "-c", WRONG.format(folder=str(tmp_path))],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode != 0
    assert "heap-use-after-free" in ran.stderr
