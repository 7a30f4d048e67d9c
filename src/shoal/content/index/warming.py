"""Compiles or loads the kernels before they are needed."""

from __future__ import annotations

import numpy as np

from shoal.content.index import single
from shoal.content.index.index import MatchIndex
from shoal.content.index.scratch import Scratch
from shoal.content.native import built
from shoal.content.normal import Conjunction, NormalForm, Number, Text


def warm_up(*, batches: bool = True) -> None:
    """Compile every kernel, or load it from disk, so that no event or insertion has to wait.

    Without ``batches``, those for single events only: none where the C extensions are built.
    """
    if not batches and built():
        return
    from shoal.content.index import codes
    from shoal.content.index import kernels as k

    index = MatchIndex()
    handles = index.insert_many(
        NormalForm((Conjunction((Number("a", n, n + 2), Text("b", ("x",)), Number("c", n))),))
        for n in range(300)
    )
    index.flush()
    either = (Conjunction((Number("a", 0.5, 1),)), Conjunction((Text("b", ("x",)),)))
    index.insert(NormalForm(either))
    index.flush()
    index.remove(handles[0])
    index.compact()
    k.bury(index.segments[0].at, handles[1])
    extension, single.match = single.match, None
    try:
        index.match_ids({"a": 1.0, "b": "x", "c": 5.0})
    finally:
        single.match = extension
    if not batches:
        return
    cuts, code = index.segments[0].snapshot.table.ctypes.data, np.zeros(1, np.uint16)
    codes.codes_of(np.zeros(1), cuts, code)
    codes.codes_by_column(np.zeros(1, np.uint32), np.zeros(1), cuts, code)
    scratch, none = Scratch(2 * index.vocabulary.columns), np.zeros((0, 8), np.int64)
    rows, ends, tile = np.zeros(0, np.uint32), np.zeros(0, np.int64), scratch.tile
    k.match_many(
        index.publish(), none, none, rows, 0, 0, scratch.codes_at, scratch.keys_at,
        scratch.present_at, 0, ends,
    )  # fmt: skip
    from shoal.content.index.tiles import match_tile

    match_tile(index.publish(), tile.at, none, none, rows, 0, 0, False, 0, ends)
