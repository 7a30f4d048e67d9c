"""An index as a folder of files that many processes map into memory at once.

Each kind of array is one ``.npy`` file; addresses are stored as offsets into these. A process that
opens the folder reads nothing until an event touches it, and all on one machine share the pages.
An opened index takes changes like any other: pages that change are its own.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np

from shoal.content.index import fields as f
from shoal.content.index.index import MatchIndex
from shoal.content.index.segments import Array, Segment, Snapshot

_FIELDS = {
    **{f.EXACT + key: "exact" for key in range(f.MAX_KEYS)},
    f.BOUNDS: "bounds",
    f.IDS: "ids",
    f.ALIVE: "alive",
    f.ZONES: "zones",
    f.SUPERS: "supers",
    f.SLOTS: "slots",
    f.RESIDUAL_LANES: "residual_lanes",
    f.RESIDUAL_START: "residual_start",
    f.RESIDUAL_COLUMNS: "residual_columns",
    f.RESIDUAL_CODES: "residual_codes",
    f.RESIDUAL_EXACT: "residual_exact",
    f.SPECIAL: "special",
}


def save(index: MatchIndex, folder: Path) -> None:
    """Write an index to a folder, in one segment."""
    with index.lock:
        _save(index, folder)


def _save(index: MatchIndex, folder: Path) -> None:
    index.compact()
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "layout": f.LAYOUT,
        "vocabulary": index.vocabulary,
        "opaque": index.opaque,
        "never": index.never,
        "segments": len(index.segments),
        "next": index.next_handle,
        "count": len(index),
        "shared": index.shared_lanes,
        "cuts": [],
    }
    if index.segments:
        segment = index.segments[0]
        about["cuts"] = sorted(segment.snapshot.cuts)
        _save_segment(segment, folder)
    (folder / "about.pickle").write_bytes(pickle.dumps(about))


def _save_segment(segment: Segment, folder: Path) -> None:
    stored = {**segment.arrays, "ids": [segment.ids], "alive": [segment.alive]}
    groups = segment.groups.copy()
    for name in sorted(set(_FIELDS.values())):
        arrays = stored.get(name, [])
        if not arrays:
            continue
        np.save(folder / f"{name}.npy", np.concatenate([array.ravel() for array in arrays]))
        offset = 0
        for array in arrays:
            begin = array.ctypes.data
            for field in (position for position, n in _FIELDS.items() if n == name):
                held = segment.groups[:, field]
                mine = (held >= begin) & (held < begin + array.nbytes)
                groups[mine, field] = held[mine] - begin + offset + 1
            offset += array.nbytes
    np.save(folder / "groups.npy", groups)
    own = {
        "handles": segment.handles,
        "place": segment.place,
        "block_group": segment.block_group,
        "group_starts": segment.arrays["group_starts"][0],
    }
    for name, array in own.items():
        np.save(folder / f"{name}.npy", array)
    cuts = [segment.snapshot.cuts[column][0] for column in sorted(segment.snapshot.cuts)]
    np.save(folder / "cut_sizes.npy", np.array([len(one) for one in cuts]))
    np.save(folder / "cuts.npy", np.concatenate([*cuts, np.empty(0)]))


def load(folder: Path) -> MatchIndex:
    """Open an index that :func:`save` wrote; its arrays stay in the files."""
    about = pickle.loads((folder / "about.pickle").read_bytes())
    if about.get("layout") != f.LAYOUT:
        raise ValueError(
            f"the index in {folder} was stored by another version of Shoal; store it again"
        )
    segments = [_load_segment(folder, about["cuts"])] if about["segments"] else []
    index = MatchIndex()
    index.adopt(
        about["vocabulary"], segments, about["opaque"], about["never"], about["next"],
        about["count"], about["shared"],
    )  # fmt: skip
    return index


def _load_segment(folder: Path, cut_columns: list[int]) -> Segment:
    def opened(name: str) -> Array:
        found: Array = np.load(folder / f"{name}.npy", mmap_mode="c")
        return found

    snapshot = Snapshot()
    cuts, at = opened("cuts"), 0
    for column, size in zip(cut_columns, np.load(folder / "cut_sizes.npy").tolist(), strict=True):
        snapshot.cut(column, cuts[at : at + size])
        at += size
    groups: Array = np.load(folder / "groups.npy")
    arrays: dict[str, list[Array]] = {}
    for name in sorted(set(_FIELDS.values())):
        if not (folder / f"{name}.npy").exists():
            continue
        arrays[name] = [opened(name)]
        begin = arrays[name][0].ctypes.data
        for field in (position for position, n in _FIELDS.items() if n == name):
            used = groups[:, field] > 0
            groups[used, field] += begin - 1
    ids, alive = arrays.pop("ids")[0], arrays.pop("alive")[0]
    segment = Segment(
        snapshot=snapshot,
        handles=opened("handles"),
        place=opened("place"),
        ids=ids.reshape(-1, f.BLOCK),
        alive=alive,
        groups=groups,
        block_group=opened("block_group"),
        arrays=arrays,
    )
    segment.live = len(segment.handles)
    segment.name_groups(opened("group_starts"))
    return segment
