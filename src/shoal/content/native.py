"""The C extensions: matching single events, building the index, drawing chance, large pages.

They are built where a C compiler is at hand. Where they are not built, or with SHOAL_PURE set,
numba compiles the same kernels when they are first needed, and chance is drawn in Python.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def extension(name: str) -> Any:
    """An extension by its name below ``shoal``; None if it is not built or not to be used."""
    if os.environ.get("SHOAL_PURE"):
        return None
    try:
        return import_module(f"shoal.{name}")
    except ImportError:
        return None


def built() -> bool:
    """Whether the extensions are here and in use. Imports none of them."""
    return not os.environ.get("SHOAL_PURE") and find_spec("shoal.content._building") is not None
