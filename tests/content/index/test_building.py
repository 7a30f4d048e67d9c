"""The C extension and numba's kernels lay out the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from shoal.content import native

BUILD = """
import hashlib, random, sys
from shoal.content import AttributeFilter
from shoal.content.index import MatchIndex, fields

fields.MAX_CUTS = 100  # so few that some bounds are not among them
random.seed(7)


def condition(name):
    number, width = random.choice([random.random() * 100, random.randint(0, 50)]), random.random()
    return random.choice([
        f"{name} > {number} AND {name} <= {number + 20 * width}",
        f"{name} < {number * 1e4}",
        f"{name} = '{random.randint(0, 30)}x'",
        f"{name} LIKE 'p{random.randint(0, 9)}%'",
        f"NOT ({name} > {random.randint(0, 9)})",
        f"{name} != {random.randint(0, 50)}",
    ])


def text():
    names = random.sample("abcdefghijklmnopqrstuvw", random.choice([1, 2, 3, 5, 16]))
    whole = " AND ".join(f"({condition(name)})" for name in names)
    return f"({whole}) OR (z = {random.randint(0, 99)})" if random.random() < 0.1 else whole


filters = [AttributeFilter(text()) for _ in range(5000)]
index = MatchIndex()
handles = [index.insert(filter.normal) for filter in filters]
for handle in handles[::3]:
    index.remove(handle)
for filter in filters[:1500]:
    index.insert(filter.normal)
index.compact()
digest = hashlib.blake2b()
for segment in index.segments:
    for array in (segment.handles, segment.place, segment.ids, segment.alive, segment.block_group):
        digest.update(array.tobytes())
    for name, arrays in sorted(segment.arrays.items()):
        for array in arrays:
            digest.update(name.encode() + array.tobytes())
kinds = sorted({name for segment in index.segments for name in segment.arrays})
print("numba" in sys.modules, kinds, digest.hexdigest())
"""


@pytest.mark.skipif(not native.built(), reason="the extension is not built")
def test_both_build_the_same_index() -> None:
    said = []
    for pure in ("", "1"):
        environment = {**os.environ, "SHOAL_PURE": pure, "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", BUILD]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        said.append(done.stdout.split(maxsplit=1))
    (native_uses_numba, native_built), (numba_used, numba_built) = said
    assert (native_uses_numba, numba_used) == ("False", "True")
    for part in ("exact", "residual_exact", "slots", "special", "zones"):
        assert f"'{part}'" in native_built
    assert native_built == numba_built
