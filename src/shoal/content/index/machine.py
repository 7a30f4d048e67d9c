"""The few machine operations that numba has no spelling for: raw loads, and 64 lanes at a time.

Each is plain LLVM, so the same source becomes AVX-512, AVX2, SSE or NEON code as the host allows.
Addresses are 64-bit integers: one table of addresses describes a whole index, and a kernel called
with two or three integers costs a fraction of one called with thirty arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]  # it ships no types
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as _intrinsic

from shoal.content.compiled import compiler

LANES = 64
KERNELS = (
    "machine",
    "fields",
    "codes",
    "blocks",
    "kernels",
    "spreading",
    "tile_blocks",
    "tiles",
    "ordering",
    "unfolding",
)


kernel = compiler(Path(__file__).parent, KERNELS)

COMPRESS = bool(llvm.get_host_cpu_features().get("avx512f", False))
"""Whether packing the chosen lanes of a vector is one instruction here; else bit by bit."""

_I16, _I32, _I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)


def _operation(signature: Any) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: an operation of this signature, whose code a function writes.

    The function gets the builder and the operands, and gives the result, if there is one.
    """

    def decorate(write: Callable[..., Any]) -> Any:
        def define(typingctx: Any, *operands: Any) -> Any:
            def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
                found = write(builder, *args)
                return context.get_dummy_value() if found is None else found

            return signature, codegen

        # Numba counts the operands by it.
        define.__signature__ = inspect.signature(write)  # type: ignore[attr-defined]  # no such stub
        return _intrinsic(define)

    return decorate


def _load(builder: Any, address: Any, kind: ir.Type, align: int) -> Any:
    found = builder.load(builder.inttoptr(address, ir.PointerType(kind)), typ=kind)
    found.align = align
    return found


def _store(builder: Any, address: Any, value: Any, align: int) -> None:
    done = builder.store(value, builder.inttoptr(address, ir.PointerType(value.type)))
    done.align = align


def _loader(kind: ir.Type, result: Any, align: int) -> Any:
    @_operation(result(types.int64))
    def load(builder: Any, address: Any) -> Any:
        return _load(builder, address, kind, align)

    return load


load_u16 = _loader(_I16, types.uint16, 2)
load_u32 = _loader(_I32, types.uint32, 4)
load_i64 = _loader(_I64, types.int64, 8)
load_u64 = _loader(_I64, types.uint64, 8)
load_f64 = _loader(ir.DoubleType(), types.float64, 8)


def _storer(value: Any, align: int) -> Any:
    @_operation(types.void(types.int64, value))
    def store(builder: Any, address: Any, wanted: Any) -> None:
        _store(builder, address, wanted, align)

    return store


store_u16 = _storer(types.uint16, 2)
store_u32 = _storer(types.uint32, 4)
store_i64 = _storer(types.int64, 8)
store_u64 = _storer(types.uint64, 8)
store_f64 = _storer(types.float64, 8)


def _splat(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


_CODES = ir.VectorType(_I16, LANES)
_IDS = ir.VectorType(_I32, 16)
_WITH_CODE = types.uint64(types.int64, types.int64, types.uint16)
_WITH_BOUNDS = types.uint64(types.int64, types.uint16, types.uint16)


def _within(lanes: int) -> Any:
    kind = ir.VectorType(_I16, lanes)

    @_operation(_WITH_CODE)
    def within(builder: Any, low: Any, high: Any, code: Any) -> Any:
        wanted = _splat(builder, code, kind)
        above = builder.icmp_unsigned("<=", _load(builder, low, kind, 2), wanted)
        below = builder.icmp_unsigned(">=", _load(builder, high, kind, 2), wanted)
        bits = builder.bitcast(builder.and_(above, below), ir.IntType(lanes))
        return bits if lanes == LANES else builder.zext(bits, _I64)

    return within


within64 = _within(LANES)
"""Bit i: ``low[i] <= code <= high[i]``, of 64 lanes of 16 bits each."""
within8 = _within(8)
"""Comparison of 8 lanes."""


@_operation(_WITH_CODE)
def touching64(builder: Any, low: Any, high: Any, code: Any) -> Any:
    """Bit i: ``low[i] == code or code == high[i]``, of 64 lanes of 16 bits each."""
    wanted = _splat(builder, code, _CODES)
    left = builder.icmp_unsigned("==", _load(builder, low, _CODES, 2), wanted)
    right = builder.icmp_unsigned("==", _load(builder, high, _CODES, 2), wanted)
    return builder.bitcast(builder.or_(left, right), _I64)


@_operation(_WITH_BOUNDS)
def all_within64(builder: Any, codes: Any, low: Any, high: Any) -> Any:
    """Bit i: ``low <= codes[i] <= high``, of 64 codes of 16 bits each."""
    found = _load(builder, codes, _CODES, 2)
    above = builder.icmp_unsigned("<=", _splat(builder, low, _CODES), found)
    below = builder.icmp_unsigned(">=", _splat(builder, high, _CODES), found)
    return builder.bitcast(builder.and_(above, below), _I64)


@_operation(_WITH_BOUNDS)
def all_around64(builder: Any, codes: Any, low: Any, width: Any) -> Any:
    """Bit i: ``codes[i]`` is at most ``width`` above ``low``, modulo 2**16, of 64 codes."""
    above = builder.sub(_load(builder, codes, _CODES, 2), _splat(builder, low, _CODES))
    near = builder.icmp_unsigned("<=", above, _splat(builder, width, _CODES))
    return builder.bitcast(near, _I64)


@_operation(types.void(types.int64, types.int64))
def copy64(builder: Any, target: Any, source: Any) -> None:
    """Copy 64 ids of 32 bits each."""
    _store(builder, target, _load(builder, source, ir.VectorType(_I32, LANES), 4), 4)


@_operation(types.void(types.int64, types.int64, types.uint16))
def pack16(builder: Any, target: Any, source: Any, chosen: Any) -> None:
    """Store those of 16 ids whose bit is set, side by side (and rubbish behind them)."""
    bits = ir.VectorType(ir.IntType(1), 16)
    compress = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]  # as above
        builder.module,
        ir.FunctionType(_IDS, [_IDS, bits, _IDS]),
        "llvm.experimental.vector.compress.v16i32",
    )
    found, chosen = _load(builder, source, _IDS, 4), builder.bitcast(chosen, bits)
    packed = builder.call(compress, [found, chosen, ir.Constant(_IDS, ir.Undefined)])
    _store(builder, target, packed, 4)


@_operation(types.uint16(types.int64, types.uint32))
def above16(builder: Any, source: Any, limit: Any) -> Any:
    """Bit i: ``source[i] > limit``, of 16 ids."""
    found = _load(builder, source, _IDS, 4)
    above = builder.icmp_unsigned(">", found, _splat(builder, limit, _IDS))
    return builder.bitcast(above, _I16)


@_operation(types.void(types.int64))
def transpose64(builder: Any, address: Any) -> None:
    """Bit j of word i changes places with bit i of word j, of 64 words of 64 bits each."""
    kind = ir.VectorType(_I64, LANES)
    rows = range(LANES)

    def constant(word: int) -> Any:
        return ir.Constant(kind, [word] * LANES)

    def order(numbers: Any) -> Any:
        return ir.Constant(ir.VectorType(_I32, LANES), list(numbers))

    words = _load(builder, address, kind, 8)
    for step in (32, 16, 8, 4, 2, 1):  # one bit of a row's number for one of the column's
        low = sum(1 << bit for bit in rows if not bit & step)
        high = low << step
        other = builder.shuffle_vector(words, words, order(row ^ step for row in rows))
        upper = builder.or_(
            builder.and_(words, constant(low)),
            builder.and_(builder.shl(other, constant(step)), constant(high)),
        )
        lower = builder.or_(
            builder.and_(words, constant(high)),
            builder.and_(builder.lshr(other, constant(step)), constant(low)),
        )
        words = builder.shuffle_vector(
            upper, lower, order(row + LANES if row & step else row for row in rows)
        )
    _store(builder, address, words, 8)


@_operation(types.void(types.int64))
def fetch(builder: Any, address: Any) -> None:
    """Bring a cache line near that will be read soon."""
    byte = ir.IntType(8).as_pointer()
    prefetch = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]  # as above
        builder.module, ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32]), "llvm.prefetch.p0"
    )
    hints = [ir.Constant(_I32, hint) for hint in (0, 2, 1)]  # to read, second level, data
    builder.call(prefetch, [builder.inttoptr(address, byte), *hints])


@_operation(types.int64(types.uint64))
def count_bits(builder: Any, word: Any) -> Any:
    """How many bits of a word are set."""
    return builder.ctpop(word)


@_operation(types.int64(types.uint64))
def first_bit(builder: Any, word: Any) -> Any:
    """The number of the lowest bit that is set."""
    return builder.cttz(word, ir.Constant(ir.IntType(1), 1))
