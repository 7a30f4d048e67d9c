"""The few machine operations that numba has no spelling for: raw loads, and 64 lanes at a time.

Each is plain LLVM, so the same source becomes AVX-512, AVX2, SSE or NEON code as the host allows.
Addresses are 64-bit integers: one table of addresses describes a whole index, and a kernel called
with two or three integers costs a fraction of one called with thirty arrays.
"""

from __future__ import annotations

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
intrinsic: Callable[..., Any] = _intrinsic  # kernels call with other arguments than it is defined
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


def _pointer(builder: Any, address: Any, kind: ir.Type) -> Any:
    return builder.inttoptr(address, ir.PointerType(kind))


def _loader(kind: ir.Type, result: Any, align: int) -> Any:
    def load(typingctx: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            found = builder.load(_pointer(builder, args[0], kind), typ=kind)
            found.align = align
            return found

        return result(types.int64), codegen

    return intrinsic(load)


load_u16 = _loader(_I16, types.uint16, 2)
load_u32 = _loader(_I32, types.uint32, 4)
load_i64 = _loader(_I64, types.int64, 8)
load_u64 = _loader(_I64, types.uint64, 8)
load_f64 = _loader(ir.DoubleType(), types.float64, 8)


def _storer(kind: ir.Type, value: Any, align: int) -> Any:
    def store(typingctx: Any, address: Any, wanted: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            done = builder.store(args[1], _pointer(builder, args[0], kind))
            done.align = align
            return context.get_dummy_value()

        return types.void(types.int64, value), codegen

    return intrinsic(store)


store_u16 = _storer(_I16, types.uint16, 2)
store_u32 = _storer(_I32, types.uint32, 4)
store_i64 = _storer(_I64, types.int64, 8)
store_u64 = _storer(_I64, types.uint64, 8)
store_f64 = _storer(ir.DoubleType(), types.float64, 8)


def _lanes(builder: Any, address: Any, kind: ir.VectorType) -> Any:
    found = builder.load(_pointer(builder, address, kind), typ=kind)
    found.align = 2
    return found


def _splat(builder: Any, value: Any, kind: ir.VectorType) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, kind.count), [0] * kind.count)
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), zeros)


def _within(lanes: int) -> Any:
    def within(typingctx: Any, low: Any, high: Any, code: Any) -> Any:
        kind = ir.VectorType(_I16, lanes)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            wanted = _splat(builder, args[2], kind)
            above = builder.icmp_unsigned("<=", _lanes(builder, args[0], kind), wanted)
            below = builder.icmp_unsigned(">=", _lanes(builder, args[1], kind), wanted)
            bits = builder.bitcast(builder.and_(above, below), ir.IntType(lanes))
            return bits if lanes == LANES else builder.zext(bits, _I64)

        return types.uint64(types.int64, types.int64, types.uint16), codegen

    return intrinsic(within)


within64 = _within(LANES)
"""Bit i: ``low[i] <= code <= high[i]``, of 64 lanes of 16 bits each."""
within8 = _within(8)
"""Comparison of 8 lanes."""


@intrinsic
def touching64(typingctx: Any, low: Any, high: Any, code: Any) -> Any:
    """Bit i: ``low[i] == code or code == high[i]``, of 64 lanes of 16 bits each."""
    kind = ir.VectorType(_I16, LANES)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wanted = _splat(builder, args[2], kind)
        left = builder.icmp_unsigned("==", _lanes(builder, args[0], kind), wanted)
        right = builder.icmp_unsigned("==", _lanes(builder, args[1], kind), wanted)
        return builder.bitcast(builder.or_(left, right), _I64)

    return types.uint64(types.int64, types.int64, types.uint16), codegen


@intrinsic
def all_within64(typingctx: Any, codes: Any, low: Any, high: Any) -> Any:
    """Bit i: ``low <= codes[i] <= high``, of 64 codes of 16 bits each."""
    kind = ir.VectorType(_I16, LANES)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = _lanes(builder, args[0], kind)
        above = builder.icmp_unsigned("<=", _splat(builder, args[1], kind), found)
        below = builder.icmp_unsigned(">=", _splat(builder, args[2], kind), found)
        return builder.bitcast(builder.and_(above, below), _I64)

    return types.uint64(types.int64, types.uint16, types.uint16), codegen


@intrinsic
def all_around64(typingctx: Any, codes: Any, low: Any, width: Any) -> Any:
    """Bit i: ``codes[i]`` is at most ``width`` above ``low``, modulo 2**16, of 64 codes."""
    kind = ir.VectorType(_I16, LANES)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        above = builder.sub(_lanes(builder, args[0], kind), _splat(builder, args[1], kind))
        near = builder.icmp_unsigned("<=", above, _splat(builder, args[2], kind))
        return builder.bitcast(near, _I64)

    return types.uint64(types.int64, types.uint16, types.uint16), codegen


@intrinsic
def copy64(typingctx: Any, target: Any, source: Any) -> Any:
    """Copy 64 ids of 32 bits each."""
    kind = ir.VectorType(_I32, LANES)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_pointer(builder, args[1], kind), typ=kind)
        found.align = 4
        done = builder.store(found, _pointer(builder, args[0], kind))
        done.align = 4
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def pack16(typingctx: Any, target: Any, source: Any, chosen: Any) -> Any:
    """Store those of 16 ids whose bit is set, side by side (and rubbish behind them)."""
    kind, bits = ir.VectorType(_I32, 16), ir.VectorType(ir.IntType(1), 16)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_pointer(builder, args[1], kind), typ=kind)
        found.align = 4
        compress = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]  # as above
            builder.module,
            ir.FunctionType(kind, [kind, bits, kind]),
            "llvm.experimental.vector.compress.v16i32",
        )
        packed = builder.call(
            compress, [found, builder.bitcast(args[2], bits), ir.Constant(kind, ir.Undefined)]
        )
        done = builder.store(packed, _pointer(builder, args[0], kind))
        done.align = 4
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.uint16), codegen


@intrinsic
def above16(typingctx: Any, source: Any, limit: Any) -> Any:
    """Bit i: ``source[i] > limit``, of 16 ids."""
    kind = ir.VectorType(_I32, 16)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.load(_pointer(builder, args[0], kind), typ=kind)
        found.align = 4
        above = builder.icmp_unsigned(">", found, _splat(builder, args[1], kind))
        return builder.bitcast(above, _I16)

    return types.uint16(types.int64, types.uint32), codegen


@intrinsic
def transpose64(typingctx: Any, address: Any) -> Any:
    """Bit j of word i changes places with bit i of word j, of 64 words of 64 bits each."""
    kind = ir.VectorType(_I64, LANES)
    rows = range(LANES)

    def constant(word: int) -> Any:
        return ir.Constant(kind, [word] * LANES)

    def order(numbers: Any) -> Any:
        return ir.Constant(ir.VectorType(_I32, LANES), list(numbers))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words = builder.load(_pointer(builder, args[0], kind), typ=kind)
        words.align = 8
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
        done = builder.store(words, _pointer(builder, args[0], kind))
        done.align = 8
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def fetch(typingctx: Any, address: Any) -> Any:
    """Bring a cache line near that will be read soon."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        fetch = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]  # as above
            builder.module,
            ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32]),
            "llvm.prefetch.p0",
        )
        hints = [ir.Constant(_I32, hint) for hint in (0, 2, 1)]  # to read, second level, data
        builder.call(fetch, [builder.inttoptr(args[0], byte), *hints])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


def _unary(name: str) -> Any:
    def operate(typingctx: Any, word: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return (
                builder.ctpop(args[0])
                if name == "ctpop"
                else builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))
            )

        return types.int64(types.uint64), codegen

    return intrinsic(operate)


count_bits = _unary("ctpop")
first_bit = _unary("cttz")
