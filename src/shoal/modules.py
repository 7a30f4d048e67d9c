"""Protocols of your own: Python files or modules that register them, named in a configuration.

Every process that simulates a run loads them, Spark's workers too; so does a broker. A module is
loaded once per process. The hash of its file, not of what it imports, is part of a run's identity.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.stack import StackError, protocols

_loaded: dict[str, str] = {}
"""Hash of the source at the time of loading, per module name as given."""


def beside(raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A configuration whose relative module paths are resolved against ``folder``."""
    modules = raw.get("modules")
    if not isinstance(modules, list):
        return dict(raw)
    paths = [
        str((folder / m).absolute()) if isinstance(m, str) and m.endswith(".py") else m
        for m in modules
    ]
    return {**raw, "modules": paths}


def load_module(name: str) -> str:
    """Load a module by name or as a ``.py`` file, unless it is loaded; return its source hash."""
    if name in _loaded:
        return _loaded[name]
    before = len(protocols())
    try:
        source = _find(name)
        digest = hashlib.blake2b(source.read_bytes(), digest_size=8).hexdigest()
        if name.endswith(".py"):
            _load_file(source)
        else:
            importlib.import_module(name)
    except StackError:
        raise
    except Exception as error:  # whatever a user's code may raise
        raise StackError(
            f"module '{name}' does not load: {type(error).__name__}: {error}; correct it there"
        ) from error
    if len(protocols()) == before and "register(" not in source.read_text("utf-8"):
        raise StackError(
            f"module '{name}' registers no protocol; end it with register(…), as in "
            'register("routing", "gossip", Gossip, GossipParameters, needs={"links"})'
        )
    _loaded[name] = digest
    return digest


def files() -> set[str]:
    """The files that were loaded, by the paths that tracebacks name."""
    return {str(Path(name).resolve()) for name in _loaded}


def _find(name: str) -> Path:
    """The source of a module."""
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise StackError(f"module '{name}': no such file; give the path of a Python file")
        return path.resolve()
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise StackError(
            f"module '{name}' is not installed; install it, or give the path of its file: {name}.py"
        )
    return Path(spec.origin)


def _load_file(path: Path) -> None:
    """Run a file as a module; underscores are added to a name that another module has."""
    name = path.stem
    while name in sys.modules or _another(name, path):
        name += "_"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise StackError(f"module '{path}' is no Python file; name it with the ending .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _another(name: str, path: Path) -> bool:
    """Whether a file's name is that of another module, which somebody may import later."""
    spec = importlib.util.find_spec(name)
    return spec is not None and (spec.origin is None or Path(spec.origin).resolve() != path)
