"""Memory of simulations: huge pages, and no cyclic garbage collection while they run."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.content.native import extension

MANY = 5_000
"""Nodes from which on huge pages pay off; the kernel takes time to provide them."""


def large_pages(nodes: int) -> None:
    """Put Python objects into huge pages from now on, in this process, if there are many nodes."""
    if nodes >= MANY:
        extension("simulation._pages")  # its import does all (pages.c)


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the cyclic garbage collector off.

    A simulation makes no cyclic garbage, and each collection visits all objects.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
