"""Import shoal's Python sources even where compiled modules lie beside them (``SHOAL_PURE=1``)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType


class _SourceOnly:
    """A finder that sees ``.py`` files only."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of shoal by its source."""
        if not name.startswith("shoal."):
            return None
        for folder in path or ():
            finder = FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))
            spec = finder.find_spec(name)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def install() -> None:
    """Put the finder first."""
    sys.meta_path.insert(0, _SourceOnly())


def compiled() -> bool:
    """Whether the compiled modules are in use; they are built and imported all or none."""
    from shoal.content import tables

    return not str(tables.__file__).endswith(".py")
