"""Compiles kernels with numba and caches their machine code on disk.

Numba drops the cached code of a function when that function's own file changes. A kernel also
depends on the kernels that it calls and the constants that it uses, which are in other files. So
here the cached code of a kernel is dropped when any source of its family changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit


@cache
def _source(path: str) -> bytes:
    return Path(path).read_bytes()


def compiler(folder: Path, names: Iterable[str], *constants: object) -> Callable[..., Any]:
    """A decorator for the kernels of one family.

    The family's modules are ``names`` in a folder; ``constants`` come from elsewhere. The decorator
    takes numba's options, if any, and ``also``: what else a kernel's machine code depends on. A
    kernel may stand in a file of its own outside the family.
    """
    digest = hashlib.blake2b(repr(constants).encode(), digest_size=16)
    for name in names:
        digest.update((folder / f"{name}.py").read_bytes())

    def kernel(
        function: Callable[..., Any] | None = None, *, also: tuple[object, ...] = (), **options: Any
    ) -> Any:
        if function is None:
            return lambda function: kernel(function, also=also, **options)
        compiled: Any = njit(cache=True, nogil=True, boundscheck=False, **options)(function)
        own = digest.copy()
        own.update(_source(function.__code__.co_filename))
        own.update(repr(also).encode())
        compiled._cache._cache_file._source_stamp = own.hexdigest()
        return compiled

    return kernel
