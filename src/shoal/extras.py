"""The optional parts of an installation: what each consists of, and the line that installs it.

``pip install shoal`` brings what a client needs. The extras of ``pyproject.toml`` bring the rest;
:data:`MODULES` names, per extra, the modules without which its commands cannot do their work.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

_BROKER: Final = ("numpy", "prometheus_client")
_SIMULATE: Final = ("numba", "numpy", "pyarrow")
_SPARK: Final = (*_SIMULATE, "jinja2", "matplotlib", "pandas", "pyspark", "scipy", "yaml")
MODULES: Final = {
    "broker": _BROKER,
    "simulate": _SIMULATE,
    "spark": _SPARK,
    "bench": (*_SPARK, "prometheus_client", "duckdb", "polars", "simpy"),
}
"""Modules that each extra brings and its commands cannot do without."""


class MissingExtraError(ModuleNotFoundError):
    """Something optional is not installed. The message ends with the line that installs it."""


def missing(extra: str) -> list[str]:
    """The modules of an extra that are not installed; for a broker also numba, if it needs it."""
    names = MODULES[extra]
    if extra == "broker":
        from shoal.content import native

        names = names if native.built() else (*names, "numba")
    return [name for name in names if find_spec(name) is None]


def require(extra: str, purpose: str, *modules: str) -> None:
    """Raise :class:`MissingExtraError` unless an extra (or only these modules of it) is here."""
    lacking = missing(extra)
    lacking = [name for name in modules if name in lacking] if modules else lacking
    if lacking:
        raise MissingExtraError(
            f"{purpose} needs {' and '.join(_few(lacking))}, not installed here; install with: "
            f"{install_line(extra)}"
        )


def install_line(extra: str) -> str:
    """The command that adds an extra to this installation; ``simulate`` brings a broker's numba."""
    wanted = f"{extra},simulate" if extra == "broker" and "numba" in missing(extra) else extra
    return f"{_pip()} install '{_source()}[{wanted}]'"


def build_line() -> str:
    """The command that builds this installation again."""
    return f"{_pip()} install --force-reinstall --no-deps '{_source()}'"


def _few(names: list[str]) -> list[str]:
    return names if len(names) <= 2 else [names[0], f"{len(names) - 1} more packages"]


def _pip() -> str:
    found = shutil.which("pip")
    here = Path(sys.executable).parent
    return "pip" if found and Path(found).parent == here else f"{sys.executable} -m pip"


def _source() -> str:
    """Origin of this installation, as pip takes it: a checkout, a wheel or the name."""
    checkout = Path(__file__).parents[2]
    if (checkout / "pyproject.toml").is_file():
        return str(checkout)
    try:
        origin = distribution("shoal").read_text("direct_url.json")
    except PackageNotFoundError:
        return "shoal"
    if origin is None:
        return "shoal"
    address = urlsplit(json.loads(origin)["url"])
    if address.scheme != "file":
        return f"shoal @ {address.geturl()}"
    path = Path(url2pathname(address.path))
    return str(path) if path.exists() else "PATH/TO/A/CHECKOUT/OF/SHOAL"
