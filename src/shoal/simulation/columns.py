"""A recorder's memory as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.record import SCHEMAS
from shoal.simulation.garbage import uncollected
from shoal.simulation.kernel import NANOSECONDS
from shoal.simulation.recorder import Recorder


def to_tables(recorder: Recorder, run_id: str, tables: Iterable[str]) -> dict[str, pa.Table]:
    """The asked-for tables (``runs`` is written by whoever runs the simulation)."""
    makers = {
        "publications": _publications,
        "deliveries": _deliveries,
        "traffic": _traffic,
        "routes": _routes,
        "links": _links,
        "repairs": _repairs,
        "messages": lambda made: _timed(made.messages),
        "notes": lambda made: _timed(made.notes),
        "loads": _loads,
        "reach": _reach,
        "air": _air,
    }
    with uncollected():
        return {
            name: _table(name, run_id, recorder.columns.get(name) or makers[name](recorder))
            for name in tables
            if name != "runs"
        }


def _table(name: str, run_id: str, columns: list[Any]) -> pa.Table:
    schema = SCHEMAS[name]
    rows = len(columns[0])
    ids = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [run_id]).cast(pa.string())
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, list(schema)[1:], strict=True)
    ]
    return pa.Table.from_arrays([ids, *arrays], schema=schema)


def _turn(rows: list[Any], width: int) -> list[Any]:
    """Rows as columns."""
    return list(zip(*rows, strict=True)) if rows else [()] * width


def _seconds(times: Iterable[int]) -> Any:
    return np.fromiter(times, np.int64) / NANOSECONDS


def _publications(recorder: Recorder) -> list[Any]:
    core = recorder.core
    records = recorder.publications
    return [
        [r.publisher for r in records],
        [r.sequence for r in records],
        _seconds(r.time for r in records),
        [r.owed.bit_count() for r in records],
        [(r.owed & r.received).bit_count() for r in records],
        [(r.owed & core).bit_count() for r in records],
        [(r.owed & r.received & core).bit_count() for r in records],
        [(r.owed & ~core).bit_count() for r in records],
        [(r.owed & r.received & ~core).bit_count() for r in records],
        [r.reachable.bit_count() for r in records],
    ]


def _deliveries(recorder: Recorder) -> list[Any]:
    numbers = np.frombuffer(recorder.deliveries, np.int64).reshape(-1, 7)
    publisher, sequence, node, hops = (numbers[:, i].astype(np.int32) for i in (0, 1, 2, 4))
    times = numbers[:, 3] / NANOSECONDS
    return [publisher, sequence, node, times, hops, numbers[:, 5] != 0, numbers[:, 6] != 0]


def _traffic(recorder: Recorder) -> list[Any]:
    kind, number, count, misrouted, cost, size, nodes = _turn(recorder.traffic, 7)
    width = recorder.bin_ns / NANOSECONDS
    time = np.fromiter(number, np.int64) * width
    return [kind, time, count, misrouted, cost, size, nodes]


def _routes(recorder: Recorder) -> list[Any]:
    rows = [(why, number, *sums) for (number, why), sums in sorted(recorder.routes.items())]
    why, number, count, hops, deterministic = _turn(rows, 5)
    width = recorder.bin_ns / NANOSECONDS
    return [why, np.fromiter(number, np.int64) * width, count, hops, deterministic]


def _links(recorder: Recorder) -> list[Any]:
    time, a, b, change, repair = _turn(recorder.links, 5)
    return [_seconds(time), a, b, change, [None if r < 0 else r for r in repair]]


def _repairs(recorder: Recorder) -> list[Any]:
    records = recorder.repairs
    return [
        [r.id for r in records],
        _seconds(r.broken_at for r in records),
        [None if r.replaced_at < 0 else r.replaced_at / NANOSECONDS for r in records],
        [r.path_length for r in records],
        [r.involved.bit_count() for r in records],
        _seconds(r.last_message_at for r in records),
    ]


def _timed(rows: list[Any]) -> list[Any]:
    """Messages or notes, which have four columns beside the time."""
    time, *others = _turn(rows, 5)
    return [_seconds(time), *others]


def _loads(recorder: Recorder) -> list[Any]:
    numbers = np.frombuffer(recorder.loads, np.int64).reshape(-1, 5)
    time = numbers[:, 0] * (recorder.bin_ns / NANOSECONDS)
    return [time, numbers[:, 1].astype(np.int32), *(numbers[:, i] for i in (2, 3, 4))]


def _reach(recorder: Recorder) -> list[Any]:
    records = recorder.publications
    return [
        [r.publisher for r in records],
        [r.sequence for r in records],
        _seconds(r.time for r in records),
        [r.copies for r in records],
        [sum(r.contacted) for r in records],
        [r.owed.bit_count() for r in records],
        [(_bits(r.contacted) & ~r.owed).bit_count() for r in records],
        [(r.owed & ~r.excused).bit_count() for r in records],
        [r.excused.bit_count() for r in records],
        [(r.owed & r.received & ~r.excused).bit_count() for r in records],
    ]


def _bits(flags: bytearray) -> int:
    """The set of the nodes that have a 1."""
    packed = np.packbits(np.frombuffer(flags, np.uint8), bitorder="little")
    return int.from_bytes(packed.tobytes(), "little")


def _air(recorder: Recorder) -> list[Any]:
    """What a medium counted; nothing without one. Bins in which nothing happened are left out."""
    counts = np.zeros((0, 10), np.int64) if recorder.air is None else recorder.air()
    bins = np.nonzero(counts.any(axis=1))[0]
    time = bins * (recorder.bin_ns / NANOSECONDS)
    return [time, *(counts[bins, column] for column in range(counts.shape[1]))]
