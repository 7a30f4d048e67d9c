"""The exchanges of links that make a regular graph a random one.

One function, in Python for small graphs and compiled by numba for large ones, where it takes most
of the time in which a network is set up.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; lists or arrays may be given.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

COMPILED_FROM: Final = 500_000
"""Exchanges from which on it pays to load the compiler."""


def exchange(first, second, near, degree, pairs, swapped):
    """Two links at a time, a-b and c-d, become a-d and c-b, unless one of those is there already.

    ``first`` and ``second`` are the ends of each link, ``near`` the neighbours of one node after
    the other.
    """
    for n in range(len(swapped)):
        i, j = pairs[2 * n], pairs[2 * n + 1]
        a, b = first[i], second[i]
        c, d = first[j], second[j]
        if swapped[n]:
            c, d = d, c
        if (
            i == j
            or a == d
            or b == c
            or d in near[a * degree : (a + 1) * degree]
            or b in near[c * degree : (c + 1) * degree]
        ):
            continue
        for node, old, new in ((a, b, d), (b, a, c), (c, d, b), (d, c, a)):
            place = node * degree
            while near[place] != old:
                place += 1
            near[place] = new
        second[i] = d
        first[j], second[j] = c, b


def compiled() -> Callable[..., Any]:
    """:func:`exchange` for arrays, compiled."""
    from shoal.content.compiled import compiler

    make: Callable[..., Any] = compiler(Path(__file__).parent, ("exchanges",))(exchange)
    return make
