"""Which protocol for this network? Runs the candidates on a user's own scenario and recommends one.

A scenario is a run's configuration (TOML) without a routing. Every stack that can be built on its
topology is simulated with the same seeds, and judged by what a deployment cares about: whether
tables come out right, how many of the owed deliveries are made, and what that costs in messages.
Where nodes can reach each other and make their links themselves, the candidates are :data:`STACKS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge.claims import read_yaml
from shoal.pipeline.judge.statistics import Estimate, jackknife
from shoal.pipeline.measure.runs import canonical, delivery, misrouted, overhead, traffic_rate
from shoal.pipeline.plan.experiment import Experiment, plan, plan_frame
from shoal.pipeline.plan.experiment_file import read_toml
from shoal.pipeline.progress import Progress
from shoal.pipeline.simulate.sweep import sweep
from shoal.pipeline.tables.dataframes import Tables
from shoal.simulation.config import parse_config
from shoal.stack import StackError, protocols
from shoal.stack.registry import find

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE = Path(__file__).with_name("advise.stacks.yaml")
STACKS: Mapping[str, Mapping[str, Any]] = read_yaml(_FILE)
"""Stacks for nodes that make their links themselves, by name."""
DELIVERY_TOLERANCE = 0.005
"""Half a percentage point of delivery is given up for fewer messages, no more."""


@dataclass(frozen=True)
class Candidate:
    """One stack on the scenario, over all seeds."""

    name: str
    delivery: Estimate | None
    """Share of the owed deliveries made; None if nothing was owed."""
    messages: Estimate
    """Messages of all kinds per second."""
    overhead: Estimate
    """Messages per second beyond useful event traffic, weighted as in Frey's Table 7.2."""
    misrouted: Estimate
    """Events per second sent where nobody wants them."""
    wrong_runs: int
    """Runs whose tables at rest were wrong, or that failed."""


@dataclass(frozen=True)
class Advice:
    """The candidates, best first; ``reason`` says why the first one is recommended."""

    candidates: tuple[Candidate, ...]
    reason: str
    seeds: int

    @property
    def recommended(self) -> Candidate | None:
        """The stack to use, unless none keeps its tables right."""
        first = self.candidates[0]
        return None if first.wrong_runs else first


def load_scenario(path: Path) -> dict[str, Any]:
    """A scenario file, checked as far as it goes without a routing."""
    raw = read_toml(path)
    for key in ("routing", "reconfiguration"):
        if key in raw:
            raise PipelineError(
                f"{path}: a scenario has no '{key}', that is what is asked for",
                "leave it out, or use `shoal sweep` to compare stacks of your choice",
            )
    return raw


def candidates(scenario: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Every stack that can be built on the scenario's topology, by name."""
    topology = scenario.get("topology", {})
    if isinstance(topology, Mapping) and "overlay" not in scenario and _reaches(topology):
        stacks = {name: dict(stack) for name, stack in STACKS.items()}
        for chosen in stacks.values():
            parse_config({**scenario, **chosen})
        return stacks
    found: dict[str, dict[str, Any]] = {}
    reasons: list[str] = []
    for routing in protocols("routing"):
        repairs: list[str | None] = [None]
        if "tables" in routing.provides:
            repairs = [repair.name for repair in protocols("reconfiguration")]
        for repair in repairs:
            stack: dict[str, Any] = {"routing": {"name": routing.name}}
            if repair is not None:
                stack["reconfiguration"] = {"name": repair, **_timers(repair, scenario)}
            try:
                parse_config({**scenario, **stack})
            except StackError as error:
                reasons.append(str(error))
                continue
            found[routing.name if repair is None else f"{routing.name} + {repair}"] = stack
    if not found:
        raise PipelineError(f"no stack can be built on this scenario: {reasons[0]}", "correct it")
    return found


def _reaches(topology: Mapping[str, Any]) -> bool:
    """Whether nodes of this topology open links themselves."""
    named = [p for p in protocols("topology") if p.name == topology.get("name")]
    return any("reach" in p.provides and "links" not in p.provides for p in named)


def _timers(repair: str, scenario: Mapping[str, Any]) -> dict[str, float]:
    """Timers that suit the topology: half as long again as a repair, as in Frey's Table 7.1."""
    topology = scenario.get("topology", {})
    repair_time = topology.get("repair_time") if isinstance(topology, Mapping) else None
    if not isinstance(repair_time, int | float):
        return {}
    known = find("reconfiguration", repair).parameters.__struct_fields__
    names = ("unsubscription_timer", "subscription_timer")
    return {name: 1.5 * repair_time for name in names if name in known}


def warnings(scenario: Mapping[str, Any], stacks: Iterable[Mapping[str, Any]]) -> list[str]:
    """What is allowed but unwise about the scenario with these stacks, each line once."""
    configurations = [parse_config({**scenario, **stack}) for stack in stacks]
    return list(dict.fromkeys(text for run in configurations for text in run.warnings()))


def advise(
    spark: SparkSession,
    scenario: Mapping[str, Any],
    out: Path,
    *,
    seeds: int = 10,
    progress: Progress | None = None,
) -> Advice:
    """Simulate the candidates and recommend one, with numbers and 95% intervals."""
    base = {**scenario, "record": ["traffic", "publications", "links"], "invariants": False}
    experiment = Experiment("advise", "Which protocol?", base, candidates(scenario), seeds=seeds)
    progress = progress or Progress()
    for text in warnings(base, experiment.variants.values()):
        progress.note(f"warning: {text}")
    runs = plan([experiment])
    sweep(spark, runs, out, progress=progress)
    duration = float(parse_config({**base, **next(iter(experiment.variants.values()))}).duration)
    frame, tables = plan_frame(spark, runs), Tables(spark, out)
    progress.stage("Measuring")
    values = {
        "delivery": _by_variant(delivery(frame, tables)),
        "messages": _by_variant(traffic_rate(frame, tables, since=0.0, until=duration)),
        "overhead": _by_variant(overhead(frame, tables)),
        "misrouted": _by_variant(misrouted(frame, tables)),
        "right": _by_variant(canonical(frame, tables)),
    }
    found = []
    for name in experiment.variants:
        if name not in values["messages"]:
            continue
        right, delivered = values["right"].get(name, {}), values["delivery"].get(name)
        found.append(
            Candidate(
                name,
                _mean(delivered) if delivered else None,
                _mean(values["messages"][name]),
                _mean(values["overhead"].get(name, {0: 0.0}), duration),
                _mean(values["misrouted"].get(name, {0: 0.0}), duration),
                sum(value == 0 for value in right.values()),
            )
        )
    if not found:
        raise PipelineError("every run failed", f"see the errors in {out}/tables/runs")
    return _rank(found, values, seeds)


def _rank(
    found: Sequence[Candidate], values: Mapping[str, Mapping[str, Mapping[int, float]]], seeds: int
) -> Advice:
    """Right tables first, then delivery within tolerance of the best, then the fewest messages."""
    right = [c for c in found if not c.wrong_runs]
    best = max((c.delivery.value for c in right if c.delivery), default=None)
    good = [
        c
        for c in right
        if best is None or (c.delivery and c.delivery.value >= best - DELIVERY_TOLERANCE)
    ]
    good.sort(key=lambda c: c.messages.value)
    rest = [c for c in right if c not in good]
    rest.sort(key=lambda c: -c.delivery.value if c.delivery else -1.0)
    wrong = sorted((c for c in found if c.wrong_runs), key=lambda c: c.messages.value)
    ranked = (*good, *rest, *wrong)
    if not good:
        return Advice(ranked, "no stack came out with right tables in every run", seeds)
    first = good[0]
    reason = f"{first.name}: fewest messages"
    if best is not None:
        reason += f" among the {len(good)} that deliver within {DELIVERY_TOLERANCE:.1%} of the best"
    if len(good) > 1:
        second = good[1]
        gap = _paired(values["messages"][second.name], values["messages"][first.name])
        saving = gap.value / second.messages.value if second.messages.value else 0.0
        certain = "" if gap.above(0.0) else ", a difference that these seeds do not make certain"
        reason += f"; {saving:.1%} fewer than {second.name}{certain}"
    return Advice(ranked, reason, seeds)


def _by_variant(frame: DataFrame) -> dict[str, dict[int, float]]:
    """A measure's rows as variant -> seed -> value."""
    found: dict[str, dict[int, float]] = {}
    for row in frame.collect():
        if row["value"] is not None:
            found.setdefault(row["variant"], {})[row["seed"]] = float(row["value"])
    return found


def _mean(by_seed: Mapping[int, float], scale: float = 1.0) -> Estimate:
    values = np.array([by_seed[seed] for seed in sorted(by_seed)]) / scale
    return jackknife(lambda kept: float(values[kept].mean()), len(values))


def _paired(a: Mapping[int, float], b: Mapping[int, float]) -> Estimate:
    """The mean difference over the seeds that both have."""
    return _mean({seed: a[seed] - b[seed] for seed in a if seed in b})
