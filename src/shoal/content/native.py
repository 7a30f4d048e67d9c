"""The C extensions: matching single events, building the index, drawing chance, large pages.

They are built where a C compiler is at hand. Where they were not, or with SHOAL_PURE set, the same
kernels are compiled by numba when they are first needed, and chance is drawn in Python.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def extension(name: str) -> Any:
    """An extension by its name below ``shoal``; None where something else has to do."""
    if os.environ.get("SHOAL_PURE"):
        return None
    try:
        return import_module(f"shoal.{name}")
    except ImportError:
        return None


def built() -> bool:
    """Whether the extensions are here and in use. Imports none of them."""
    return not os.environ.get("SHOAL_PURE") and find_spec("shoal.content._building") is not None
