"""One memory for all arrays of the channel, and the compiler of what works on it."""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from shoal.content.compiled import compiler
from shoal.simulation.air.state import KINDS, Air
from shoal.stack.chance import FIRST, GAMMA, SECOND

_compiled = compiler(
    Path(__file__).parent,
    (
        "state",
        "arrays",
        "reception",
        "timers",
        "flood",
        "queueing",
        "channel",
        "movement",
        "../draws",
    ),
    *(GAMMA, FIRST, SECOND),
)
kernel = _compiled(_nrt=False)
"""A compiled function that allocates nothing: counting references would take most of its time."""
inlined = _compiled(_nrt=False, forceinline=True)
"""Such a function, compiled into its callers."""


def pack(parts: Air) -> tuple[Any, Air]:
    """One memory for copies of these arrays, and the parts of it that are these."""
    head = 3 * len(parts)
    sizes = [part.size for part in parts]
    memory = np.zeros(head + sum(sizes), np.int64)
    views = []
    start = head
    for number, (name, part) in enumerate(zip(Air._fields, parts, strict=True)):
        rows, columns = part.shape if part.ndim == 2 else (part.size, 1)
        memory[3 * number : 3 * number + 3] = start, rows, columns
        view = memory[start : start + part.size].view(KINDS.get(name, np.int64))
        view = view.reshape(part.shape)
        view[...] = part
        views.append(view)
        start += part.size
    return memory, Air(*views)


@inlined
def _bounds(memory, number):
    """Where an array begins and ends in the memory, and its shape."""
    start, rows, columns = memory[3 * number], memory[3 * number + 1], memory[3 * number + 2]
    return start, start + rows * columns, (rows, columns)


@inlined
def _table(memory, number):
    """An array of rows, as a tuple of one: what counts no references may not return arrays."""
    start, end, shape = _bounds(memory, number)
    return (memory[start:end].reshape(shape),)


@inlined
def _reals(memory, number):
    """An array of real numbers."""
    start, end, shape = _bounds(memory, number)
    return (memory[start:end].view(np.float64).reshape(shape),)


@inlined
def _list(memory, number):
    """A plain array."""
    start, end, _ = _bounds(memory, number)
    return (memory[start:end],)


@inlined
def unpack(memory):
    """The arrays in a memory."""
    return Air(
        _table(memory, 0)[0],
        _reals(memory, 1)[0],
        _table(memory, 2)[0],
        _table(memory, 3)[0],
        _reals(memory, 4)[0],
        _table(memory, 5)[0],
        _table(memory, 6)[0],
        _list(memory, 7)[0],
        _list(memory, 8)[0],
        _list(memory, 9)[0].view(np.float64),
        _list(memory, 10)[0].view(np.uint64),
        _table(memory, 11)[0],
        _list(memory, 12)[0],
        _reals(memory, 13)[0],
        _list(memory, 14)[0],
        _reals(memory, 15)[0],
        _table(memory, 16)[0].view(np.uint64),
        _table(memory, 17)[0].view(np.uint64),
        _table(memory, 18)[0],
        _table(memory, 19)[0],
    )
