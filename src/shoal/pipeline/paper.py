"""A paper as the pipeline knows it: its experiments, its figures and what it claims."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import structs

from shoal.pipeline.judge.claims import Claim, Comparison, read_yaml
from shoal.pipeline.plan.experiment import Experiment, Tier, merge
from shoal.simulation.config import parse_config
from shoal.stack import StackError


class Panel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"as_": "as"}):
    """One set of axes: a measure of an experiment's variants along its axis."""

    experiment: str
    measure: str
    y_label: str
    variants: tuple[str, ...] = ()
    """Variants in the order of the legend; all of the experiment's if not given."""
    parameters: dict[str, Any] = {}
    relative_to: str | None = None
    as_: Comparison = "improvement"
    x_label: str = ""
    """Label of the x axis; that of the experiment if not given."""
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    y_from_zero: bool = True
    y_range: tuple[float, float] | None = None
    """Range of possible values; intervals are cut off there."""
    title: str = ""
    shade: tuple[float, float] | None = None
    """A span of the x axis to set off."""


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure of the paper: its panels, and in our words what the paper shows there."""

    name: str
    """Number of the figure in the paper: ``7.3``."""
    title: str
    panels: tuple[Panel, ...]
    says: str = ""
    claims: tuple[str, ...] = ()

    def only(self, experiments: Collection[str]) -> Figure:
        """This figure with only the panels that show one of these experiments."""
        shown = tuple(panel for panel in self.panels if panel.experiment in experiments)
        return structs.replace(self, panels=shown)


def load_figures(path: Path) -> tuple[Figure, ...]:
    """Figures from a YAML file."""
    return msgspec.convert(read_yaml(path), tuple[Figure, ...])


def load_labels(path: Path) -> dict[str, str]:
    """The meaning of each variant's label, in a YAML file of experiments."""
    labels: dict[str, str] = read_yaml(path)["labels"]
    return labels


def load_experiments(path: Path, **bases: Mapping[str, Any]) -> dict[str, Experiment]:
    """Experiments from a YAML file, by name: the fields of :class:`Experiment`, written shorter.

    A base with ``like`` changes one of the file's ``bases`` (or of those given), a list of variants
    takes those of the file's by label, and ``along`` holds the fields of the axis. Few seeds are
    the quick tier's too. A topology's ``path`` may be a recording (:func:`_recording`).
    """
    file = read_yaml(path)

    def base(changes: Mapping[str, Any]) -> dict[str, Any]:
        if "like" not in changes:
            return dict(changes)
        named: Mapping[str, Any] = {**bases, **file.get("bases", {})}[changes["like"]]
        return merge(base(named), {**changes, "like": None})

    def experiment(along: Mapping[str, Any] | None = None, **entry: Any) -> Experiment:
        entry["base"] = base(entry["base"])
        if isinstance(entry["variants"], list):
            entry["variants"] = {label: file["variants"][label] for label in entry["variants"]}
        entry.setdefault("quick_seeds", min(5, entry.get("seeds", 5)))
        entry |= along or {}
        fields: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in entry.items()}
        return Experiment(**fields)

    found = [_recording(experiment(**entry)) for entry in file["experiments"]]
    return {experiment.name: experiment for experiment in found if experiment is not None}


def _recording(experiment: Experiment) -> Experiment | None:
    """An experiment on the file that its topology names; None if it names none that is there.

    ``$VARIABLE`` is the first of the files that an environment variable lists, ``$VARIABLE.1`` the
    second.
    """
    path = experiment.base.get("topology", {}).get("path", "")
    if not path.startswith("$"):
        return experiment
    variable, _, place = path[1:].partition(".")
    files = [file for file in os.environ.get(variable, "").split(os.pathsep) if file]
    for file in files[int(place or 0) :][:1]:
        return replace(experiment, base=merge(experiment.base, {"topology": {"path": file}}))
    return None


@dataclass(frozen=True)
class Paper:
    """A work whose results can be reproduced."""

    name: str
    """Name on the command line: ``frey-routing``."""
    title: str
    citation: str
    experiments: tuple[Experiment, ...]
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...] = ()
    variants: Mapping[str, str] = field(default_factory=dict)
    """Meaning of each variant's label."""
    speaker: str = "The paper"
    """Author of the words beside a figure."""

    def only(self, ids: Iterable[str]) -> Paper:
        """This paper with only some claims, and the experiments and figures that these need."""
        wanted = list(ids)
        claims = tuple(claim for claim in self.claims if claim.id in wanted)
        needed = {name for claim in claims for name in claim.experiments()}
        return replace(
            self,
            claims=claims,
            experiments=tuple(e for e in self.experiments if e.name in needed),
            figures=tuple(f.only(needed) for f in self.figures if set(f.claims) & set(wanted)),
        )


def runnable(
    experiments: Iterable[Experiment], tier: Tier
) -> tuple[list[Experiment], dict[tuple[str, str], str]]:
    """The experiments with the variants that can be run, and why the others cannot.

    A variant cannot run where a protocol or parameter that it names does not exist (yet); an
    experiment that has no values in the quick tier is left to the full one.
    """
    able: list[Experiment] = []
    missing: dict[tuple[str, str], str] = {}
    for experiment in experiments:
        variants = {}
        for label, override in experiment.variants.items():
            reason = _obstacle(experiment, override, tier)
            if reason is None:
                variants[label] = override
            else:
                missing[experiment.name, label] = reason
        if variants:
            fixed = tuple(label for label in experiment.fixed if label in variants)
            able.append(replace(experiment, variants=variants, fixed=fixed))
    return able, missing


def _obstacle(experiment: Experiment, override: Mapping[str, Any], tier: Tier) -> str | None:
    if tier == "quick" and experiment.quick_values == ():
        return f"experiment '{experiment.name}' runs in the full tier only"
    try:
        parse_config(merge(experiment.base, override))
    except StackError as error:
        return str(error)
    return None
