"""Planning: an experiment becomes a list of runs, each wholly checked before any starts.

An experiment is a base configuration, variants of it to compare, one value swept along the x axis
(more if wanted) and a number of seeds. The plan is their product. A run is known by the hash of its
configuration, so two experiments that need the same run share it.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.pipeline.errors import PipelineError, writing
from shoal.record import table
from shoal.simulation.config import RunConfig, parse_config, seeded
from shoal.stack import StackError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Tier: TypeAlias = Literal["quick", "full"]

PLAN_SCHEMA = table(
    "experiment string, variant string, x double, point string, seed int64, configuration string, "
    "estimate double"
)


@dataclass(frozen=True)
class Experiment:
    """A question put to the simulator: variants compared along an axis, over seeds."""

    name: str
    title: str
    base: Mapping[str, Any]
    """A run's configuration as plain data, see :class:`shoal.simulation.RunConfig`."""
    variants: Mapping[str, Mapping[str, Any]]
    """Label -> what differs from the base (see :func:`merge`)."""
    axis: str | None = None
    """The key swept on the x axis, dotted: ``nodes``, ``topology.rate``."""
    values: tuple[float, ...] = ()
    quick_values: tuple[float, ...] | None = None
    """The values of the quick tier; None: the same."""
    axis_label: str = ""
    fixed: tuple[str, ...] = ()
    """Variants without the key on the x axis: references, the same run at every point."""
    also: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Further keys swept, in full product."""
    seeds: int = 30
    quick_seeds: int = 5
    first_seed: int = 0
    """Seeds count from here: above those on which what is judged was chosen."""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """What the quick tier changes in the base, such as a lower publish rate."""
    measures: tuple[str, ...] = ()
    """Names of the measures that sum it up, where it is a user's own; the usual ones if empty."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of an experiment: a row of the plan."""

    run_id: str
    experiment: str
    variant: str
    x: float | None
    point: str
    """All swept values, as JSON."""
    seed: int
    configuration: str
    """The run's configuration as canonical JSON."""
    estimate: float
    """Work it takes: roughly the seconds on one core."""


MOST_RUNS = 1_000_000
"""Runs of an experiment at most: planning them alone takes minutes and gigabytes."""


def plan(
    experiments: Iterable[Experiment], tier: Tier = "full", seeds: int | None = None
) -> list[PlannedRun]:
    """Every run of these experiments, checked; an experiment without runs is an error."""
    if tier not in ("quick", "full"):
        raise PipelineError(f"unknown tier '{tier}'", "use 'quick' or 'full'")
    return [run for experiment in experiments for run in _runs(experiment, tier, seeds)]


def _runs(experiment: Experiment, tier: Tier, seeds: int | None) -> list[PlannedRun]:
    quick = tier == "quick"
    count = seeds if seeds is not None else experiment.quick_seeds if quick else experiment.seeds
    values: Sequence[Any] = experiment.values
    if quick and experiment.quick_values is not None:
        values = experiment.quick_values
    swept: dict[str, Sequence[Any]] = {}
    if experiment.axis is not None:
        swept[experiment.axis] = values
    swept |= experiment.also
    name = f"experiment '{experiment.name}'"
    if count < 1:
        raise PipelineError(f"{name} has no runs: {count} seeds", "give it at least one seed")
    if not experiment.variants:
        raise PipelineError(f"{name} has no runs: no variants", "name at least one variant")
    for key, choices in swept.items():
        if not choices:
            raise PipelineError(f"{name} has no runs: no values for '{key}'", "list at least one")
    planned = count * math.prod(map(len, (experiment.variants, *swept.values())))
    if planned > MOST_RUNS:
        hint = f"at most {MOST_RUNS:,} fit; choose fewer seeds or values"
        raise PipelineError(f"{name} has {planned:,} runs", hint)
    default = RunConfig()  # so that `topology.rate` can be swept without naming the usual topology
    base = merge({"topology": default.topology, "routing": default.routing}, experiment.base)
    base = merge(base, experiment.quick if quick else {})
    runs = []
    for label, override in experiment.variants.items():
        variant = merge(base, override)
        for combination in itertools.product(*swept.values()):
            point = {k: _plain(v) for k, v in zip(swept, combination, strict=True)}
            raw = variant
            for key, value in point.items():
                if key != experiment.axis or label not in experiment.fixed:
                    raw = merge(raw, _nested(key, value))
            runs += _seeded(experiment, label, point, raw, count)
    return runs


def _seeded(
    experiment: Experiment, variant: str, point: Mapping[str, Any], raw: dict[str, Any], seeds: int
) -> list[PlannedRun]:
    """The runs of one variant at one point."""
    try:
        checked = parse_config(raw)
    except StackError as error:
        where = ", ".join([f"variant '{variant}'", *(f"{k} = {v}" for k, v in point.items())])
        raise PipelineError(
            f"experiment '{experiment.name}', {where}: {error}", "correct the configuration"
        ) from None
    work = estimate(checked)
    x = point.get(experiment.axis) if experiment.axis is not None else None
    at = float(x) if isinstance(x, int | float) else None
    told = json.dumps(point, sort_keys=True, ensure_ascii=False)
    drawn = range(experiment.first_seed, experiment.first_seed + seeds)
    return [
        PlannedRun(identity, experiment.name, variant, at, told, seed, configuration, work)
        for seed, (identity, configuration) in zip(drawn, seeded(checked, drawn), strict=True)
    ]


def merge(base: Mapping[str, Any], *overrides: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with overrides, one after the other: tables merge key by key, all else is replaced.

    A section that names another protocol replaces the whole section, since the parameters of the
    one mean nothing to the other. None removes a key.
    """
    merged = dict(base)
    for key, value in itertools.chain.from_iterable(o.items() for o in overrides):
        old = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(old, Mapping):
            other = "name" in value and value["name"] != old.get("name")
            merged[key] = dict(value) if other else merge(old, value)
        else:
            merged[key] = dict(value) if isinstance(value, Mapping) else value
    return merged


def _nested(key: str, value: Any) -> dict[str, Any]:
    """``{"topology": {"rate": 5}}`` of ``topology.rate`` and 5."""
    for part in reversed(key.split(".")):
        value = {part: value}
    result: dict[str, Any] = value
    return result


def _plain(value: Any) -> Any:
    """100.0 as 100: a swept value is the same run however it was written."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


MANY_REPAIRS = 500
"""More replaced links cost no more time: the tree is in pieces, in which little travels."""
PERIODS = ("heartbeat", "period", "hello", "interval")
"""Parameters that say how often, in seconds, a node acts though nothing happens."""


def estimate(config: RunConfig) -> float:
    """Roughly the seconds that a run takes on one core, compiled; fitted to runs of the papers.

    Only sizes tasks and the time left; a sweep corrects it by what earlier runs took.
    """
    nodes, duration, topology = config.nodes, config.duration, config.topology
    routing, overlay, workload = config.routing, config.overlay or {}, config.workload
    on_air = str(topology["name"]).startswith("air")
    # Where routing keeps tables, events reach those who want them and the nodes on the way.
    reach = 1.0 if config.reconfiguration is None else 0.25 + 0.5 * workload.subscribers
    repairs = 0.0 if on_air else min(duration * _number(topology.get("rate")), MANY_REPAIRS)
    control = nodes * (5e-4 + 1e-5 * repairs)
    # Subscriptions that travel some hops of a graph: a message each for the nodes within them.
    horizon, degree = _number(routing.get("horizon")), _number(topology.get("degree"), 5)
    if 0 < horizon < 8:
        control += 5e-6 * nodes * workload.patterns_per_subscriber * min(nodes, degree**horizon)
    if topology.get("compare"):  # with the optimum, for which the solver has some seconds
        control += 0.02 * _number(topology.get("seconds"), 60.0)
    up = float(nodes)
    if builds_itself := overlay.get("name") != "given" and not on_air:
        churn: Any = topology.get("churn") or {"mean": float("inf")}
        up *= _number(churn.get("up"), 0.12 if churn.get("model") == "gnutella" else 1.0)
        control += 2e-3 * up * (1 + duration / _number(churn.get("mean"), 2.3 * 3600))  # sessions
    for period in (part[key] for part in (overlay, routing) for key in PERIODS if key in part):
        mean = sum(period) / len(period) if isinstance(period, list | tuple) else _number(period)
        control += 5e-5 * up * duration / mean if mean else 0.0
    hop = 1.2e-7  # seconds for an event to reach one more node, on arrays
    if builds_itself or routing["name"] == "air-flooding":
        hop = 6e-7
    elif on_air or config.modules or routing["name"] == "broadcast":
        hop = 3e-6
    if config.recovery is not None:
        hop = 8e-6
    return control + events(config) * (hop * nodes * reach + 2e-7 * repairs)


def events(config: RunConfig) -> float:
    """Events that a run publishes."""
    workload = config.workload
    if workload.script:
        return float(sum(act.do == "publish" for act in workload.script))
    start, end = workload.publish_window or (0.0, config.duration)
    span = max(min(end, config.duration) - start, 0.0)
    if workload.content is not None:
        return span / workload.content.event_every
    return config.nodes * span * workload.rate(config.nodes)


def _number(value: object, otherwise: float = 0.0) -> float:
    return float(value) if isinstance(value, int | float) else otherwise


def unique(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """Each run once, though several experiments may share it."""
    return list({run.run_id: run for run in runs}.values())


def write_plan(runs: Sequence[PlannedRun], out: Path) -> Path:
    """Keep the plan beside its tables, as ``plan.parquet``."""
    path = out / "plan.parquet"
    draft = out / ".plan.parquet"
    with writing(f"to {out}"):
        out.mkdir(parents=True, exist_ok=True)
        pq.write_table(plan_table(runs), draft, compression="zstd")
        draft.replace(path)
    return path


def read_plan(out: Path) -> list[PlannedRun]:
    """The plan last written to a folder."""
    path = out / "plan.parquet"
    try:
        rows = pq.read_table(path, schema=PLAN_SCHEMA).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise PipelineError(f"no plan in {out}: {error}", "run a sweep there first") from None
    return [PlannedRun(**row) for row in rows]


def plan_table(runs: Sequence[PlannedRun]) -> pa.Table:
    """The plan as an Arrow table with exactly the columns of :class:`PlannedRun`."""
    return pa.Table.from_pylist([asdict(run) for run in runs], schema=PLAN_SCHEMA)


def plan_frame(spark: SparkSession, runs: Sequence[PlannedRun]) -> DataFrame:
    """The plan as a DataFrame."""
    return spark.createDataFrame(plan_table(runs))
