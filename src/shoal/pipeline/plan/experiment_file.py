"""A user's own experiment, read from a TOML file.

.. code-block:: toml

    [experiment]
    name = "size"              # required; letters, digits, - and _
    title = "Delivery and the number of nodes"
    seeds = 10                 # default 30
    quick_seeds = 3            # default 5, or seeds if fewer
    axis = "nodes"             # which swept key is the x axis; default: the first
    axis_label = "N"
    measures = ["delivery"]    # as ``shoal measures`` lists them; default: the usual ones

    [base]                     # what all runs have in common: a run's configuration
    duration = 8.0
    topology = {name = "abstract-tree", rate = 10.0}

    [variants.Strawman]        # what is compared: what differs from the base
    reconfiguration = {name = "strawman"}

    [variants."Event forwarding"]
    routing = {name = "event-forwarding"}

    [sweep]                    # keys of the configuration and their values, in full product
    nodes = [50, 100, 200]
    topology.repair_time = [0.1, 0.5]

A protocol section of the base is taken out of a variant with ``"none"``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.modules import beside
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.plan.experiment import Experiment, plan
from shoal.simulation.config import RunConfig
from shoal.stack.registry import suggestion

SETTINGS: dict[str, type] = {
    "name": str,
    "title": str,
    "seeds": int,
    "quick_seeds": int,
    "axis": str,
    "axis_label": str,
    "measures": list,
}
"""Keys of ``[experiment]``, and the type of each."""
_WORDS = {str: "a text in quotes", int: "a whole number", list: "a list of names in quotes"}
_PROTOCOLS = ("topology", "overlay", "routing", "reconfiguration", "recovery")


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file holds."""
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise PipelineError(
            f"cannot read {path}: {error.strerror or error}", "give the path of a TOML file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise PipelineError(f"{path} is not TOML: {error}", "correct that line") from None


def load_experiment(path: Path) -> Experiment:
    """The experiment in a TOML file, wholly checked; errors name the file, the key and the cure."""
    data = read_toml(path)
    if "experiment" not in data and set(data) & set(RunConfig.__struct_fields__):
        raise PipelineError(
            f"{path} is the configuration of one run, not an experiment",
            f"run it with `shoal simulate {path}`, or add an [experiment] (examples/sweep.toml)",
        )
    try:
        base = beside(_table(data, "base"), path.parent)
        experiment = _experiment({**data, "base": base})
        plan([experiment], "full")
    except PipelineError as error:
        raise PipelineError(f"{path}: {error.cause}", error.cure) from None
    return experiment


def _experiment(data: dict[str, Any]) -> Experiment:
    _known(data, ["experiment", "base", "variants", "sweep"], "section")
    settings = _table(data, "experiment")
    _known(settings, list(SETTINGS), "key in [experiment]")
    for key, kind in SETTINGS.items():
        if key in settings and (type(settings[key]) is not kind):
            raise PipelineError(
                f"[experiment] {key} = {settings[key]!r}", f"make it {_WORDS[kind]}"
            )
    name = settings.get("name", "")
    if not re.fullmatch(r"[\w-]+", name):
        raise PipelineError(
            f"[experiment] name is {name!r}" if name else "[experiment] has no name",
            "give one of letters, digits, - and _, e.g. name = 'size'",
        )
    variants = {label: _variant(v, label) for label, v in _table(data, "variants").items()}
    swept = _flatten(_table(data, "sweep"))
    axis = settings.get("axis", next(iter(swept), None))
    if axis is not None and axis not in swept:
        raise PipelineError(
            f"[experiment] axis = '{axis}' is not swept", f"add {axis} = [...] to [sweep]"
        )
    values = swept.pop(axis) if axis is not None else ()
    seeds = settings.get("seeds", 30)
    return Experiment(
        name=name,
        title=settings.get("title", name),
        base=_table(data, "base"),
        variants=variants or {name: {}},
        axis=axis,
        values=values,
        axis_label=settings.get("axis_label", axis or ""),
        also=swept,
        measures=tuple(map(str, settings.get("measures", ()))),
        seeds=seeds,
        quick_seeds=settings.get("quick_seeds", min(5, seeds)),
    )


def _variant(value: Any, label: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise PipelineError(
            f"variant '{label}' is {value!r}", f"make it a table: [variants.{label}]"
        )
    return {k: None if k in _PROTOCOLS and v == "none" else v for k, v in value.items()}


def _flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, tuple[Any, ...]]:
    """Swept keys, dotted: TOML reads ``topology.rate = [1, 2]`` as a table in a table."""
    swept: dict[str, tuple[Any, ...]] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            swept |= _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            swept[f"{prefix}{key}"] = tuple(value)
        else:
            raise PipelineError(
                f"[sweep] {prefix}{key} = {value!r}", f"list its values: {key} = [{value!r}]"
            )
    return swept


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    table = data.get(key, {})
    if not isinstance(table, dict):
        raise PipelineError(f"'{key}' is {table!r}", f"make it a table: [{key}]")
    return table


def _known(table: Mapping[str, Any], known: list[str], what: str) -> None:
    for key in table:
        if key not in known:
            raise PipelineError(f"unknown {what}: '{key}'{suggestion(key, known)}", "rename it")
