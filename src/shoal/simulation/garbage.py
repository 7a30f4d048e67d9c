"""The memory of simulations: large pages, and no search for cycles among objects that stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.content.native import extension

MANY = 5_000
"""Nodes from which on large pages pay: to be given them takes time, too."""


def large_pages(nodes: int) -> None:
    """From now on Python's objects lie in pages of 2 MB, if a network has many nodes."""
    if nodes >= MANY:
        extension("simulation._pages")  # its import does all (pages.c)


@contextmanager
def uncollected() -> Iterator[None]:
    """No search for cycles meanwhile.

    A simulation makes none, and each search looks at everything there is: a network of a few
    hundred nodes takes as long as a million messages.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
