"""Experiments become runs, or a line that says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.paper import Figure, Panel, load_experiments, load_figures
from shoal.pipeline.plan.experiment import (
    Experiment,
    estimate,
    merge,
    plan,
    read_plan,
    unique,
    write_plan,
)
from shoal.pipeline.plan.experiment_file import load_experiment, read_toml
from shoal.pipeline.study import recording
from shoal.simulation.config import RunConfig, parse_config, run_id

STRAWMAN = {"reconfiguration": {"name": "strawman"}}
FORWARDING = {"routing": {"name": "event-forwarding"}}
EXAMPLE = Path(__file__).parents[2] / "examples" / "sweep.toml"


def experiment(**changes: Any) -> Experiment:
    given: dict[str, Any] = {
        "name": "size",
        "title": "Size",
        "base": {"duration": 2.0},
        "variants": {"SM": STRAWMAN, "EF": FORWARDING},
        "axis": "nodes",
        "values": (10, 20.0, 30),
        "quick_values": (10,),
        "seeds": 4,
        "quick_seeds": 2,
    }
    return Experiment(**{**given, **changes})


def test_a_plan_is_the_product_of_variants_values_and_seeds() -> None:
    runs = plan([experiment()])
    assert len(runs) == len({run.run_id for run in runs}) == 2 * 3 * 4
    assert [run.x for run in runs if run.variant == "EF" and run.seed == 3] == [10.0, 20.0, 30.0]
    one = next(run for run in runs if run.variant == "SM" and run.x == 20 and run.seed == 1)
    config = parse_config(json.loads(one.configuration))
    assert (config.nodes, config.seed, config.duration) == (20, 1, 2.0)
    assert one.run_id == run_id(config)
    assert json.loads(one.point) == {"nodes": 20}


def test_the_quick_tier_is_part_of_the_full_one() -> None:
    quick = {run.run_id for run in plan([experiment()], "quick")}
    assert len(quick) == 2 * 1 * 2
    assert quick < {run.run_id for run in plan([experiment()])}


def test_more_seeds_keep_the_runs_that_were_there() -> None:
    few = {run.run_id for run in plan([experiment()], seeds=3)}
    assert few < {run.run_id for run in plan([experiment()], seeds=5)}


def test_seeds_on_which_something_was_chosen_can_be_left_out() -> None:
    runs = plan([experiment(first_seed=10)])
    assert {run.seed for run in runs} == {10, 11, 12, 13}
    assert all(json.loads(run.configuration)["seed"] == run.seed for run in runs)
    assert not {run.run_id for run in runs} & {run.run_id for run in plan([experiment()])}


def test_further_keys_are_swept_in_full_product() -> None:
    also = {"topology.rate": (1.0, 2.0), "topology.repair_time": (0.1, 0.5, 0.9)}
    runs = plan([experiment(also=also)], "quick")
    assert len(runs) == 2 * 1 * 2 * 3 * 2
    topology = json.loads(runs[-1].configuration)["topology"]
    assert (topology["name"], topology["rate"], topology["repair_time"]) == (
        "abstract-tree",
        2,
        0.9,
    )


def test_runs_shared_by_experiments_are_simulated_once() -> None:
    runs = plan([experiment(), experiment(name="again", values=(30, 40))])
    assert len(runs) == 24 + 16
    assert len(unique(runs)) == 24 + 8


def test_another_protocol_does_not_inherit_parameters() -> None:
    base = {"routing": {"name": "a", "depth": 3}, "nodes": 5, "record": ["links"]}
    assert merge(base, {"routing": {"name": "b"}})["routing"] == {"name": "b"}
    assert merge(base, {"routing": {"width": 1}})["routing"] == {
        "name": "a",
        "depth": 3,
        "width": 1,
    }
    assert merge(base, {"routing": None, "record": ["runs"]}) == {"nodes": 5, "record": ["runs"]}
    assert base["routing"] == {"name": "a", "depth": 3}


def test_larger_runs_are_estimated_longer() -> None:
    runs = [run for run in plan([experiment()]) if run.variant == "EF" and run.seed == 0]
    assert 0 < runs[0].estimate < runs[1].estimate < runs[2].estimate


MESH = {"name": "full-mesh"}
SELDOM = {"publish_rate": 0.1}
SHOPPING = {"overlay": {"name": "shopparent"}, "routing": {"name": "hierarchical-forwarding"}}
DPS = {
    "nodes": 1000,
    "duration": 3700.0,
    "topology": {**MESH, "joining": 100.0, "crash_rate": 0.015},
    "routing": {"name": "dps", "interval": [10.0, 25.0]},
    "workload": {
        "content": {"name": "dps2", "event_every": 10.0},
        "publish_window": [500.0, 3500.0],
    },
}
RECOVERY = {
    "duration": 6.0,
    "recovery": {"name": "combined-pull"},
    "link": {"loss": 0.1},
    "workload": {"publish_rate": 50.0, "publish_window": [0.5, 2.5], "subscribers": 1.0},
}
RADIOS = {"nodes": 50, "topology": {"name": "air"}, "overlay": {"name": "witree"}}
TOOK: dict[str, tuple[float, dict[str, Any]]] = {
    "lstree": (1.0, {"nodes": 200, "overlay": {"name": "lstree"}, "topology": MESH}),
    "dhtree": (0.5, {"overlay": {"name": "dhtree"}, "topology": MESH, "workload": SELDOM}),
    "shopparent": (0.5, {**SHOPPING, "topology": MESH, "workload": SELDOM}),
    "dps": (4.2, DPS),
    "witree": (0.4, {**RADIOS, "duration": 100.0, "workload": {"publish_rate": 0.2}}),
    "recovery": (8.0, RECOVERY),
    "script": (0.1, {"workload": {"script": [{"at": 1.0, "node": 1, "do": "publish"}]}}),
}
"""Seconds that runs took on one core of the machine that estimates were fitted on, compiled."""


@pytest.mark.parametrize("name", TOOK)
def test_estimates_are_of_the_size_that_runs_took(name: str) -> None:
    took, raw = TOOK[name]
    found = estimate(parse_config({"nodes": 100, "duration": 60.0, **raw}))
    assert took / 4 < found < took * 4


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"variants": {}}, "experiment 'size' has no runs: no variants"),
        ({"values": ()}, "experiment 'size' has no runs: no values for 'nodes'"),
        ({"seeds": 0}, "experiment 'size' has no runs: 0 seeds"),
        ({"seeds": 10**20}, "experiment 'size' has 600,000,000,000,000,000,000 runs"),
        ({"values": (0,)}, "variant 'SM', nodes = 0: nodes"),
        ({"variants": {"X": {"routing": {"name": "floding"}}}}, "did you mean 'flooding'"),
        (
            {"variants": {"X": {"topology": {"name": "static-graph"}}}},
            "needs a layer that keeps the neighbourhood acyclic",
        ),
        (
            {"variants": {"X": {"overlay": {"name": "abstract-tree"}}}},
            "'abstract-tree' is a topology, not an overlay",
        ),
        ({"axis": "topology.speed"}, "has no parameter 'speed'"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_before_anything_runs(
    changes: dict[str, Any], cause: str
) -> None:
    with pytest.raises(PipelineError) as refused:
        plan([experiment(**changes)])
    assert cause in refused.value.cause
    assert refused.value.cure
    assert "\n" not in str(refused.value)


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    runs = plan([experiment(axis=None, values=())])
    write_plan(runs, tmp_path / "new")
    assert read_plan(tmp_path / "new") == runs
    assert runs[0].x is None


def test_the_example_is_an_experiment() -> None:
    read = load_experiment(EXAMPLE)
    assert (read.name, read.axis, read.values) == ("size", "nodes", (50, 100, 200))
    assert list(read.variants) == ["Strawman", "Event forwarding"]
    assert len(plan([read])) == 30


def test_dotted_keys_and_none_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        """
        [experiment]
        name = "mine"
        seeds = 1
        axis = "topology.rate"
        [base]
        nodes = 10
        reconfiguration = {name = "strawman"}
        [variants.SM]
        [variants.EF]
        routing = {name = "event-forwarding"}
        reconfiguration = "none"
        [sweep]
        topology.repair_time = [0.1]
        topology.rate = [1.0, 2.0]
        """
    )
    runs = plan([load_experiment(file)])
    assert [(run.variant, run.x) for run in runs] == [
        ("SM", 1.0),
        ("SM", 2.0),
        ("EF", 1.0),
        ("EF", 2.0),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[experiment\n", "not TOML"),
        ("[experiment]\n", "has no name"),
        ("[experiment]\nname = 3\n", "name = 3"),
        ("[experiment]\nname = 'x'\nsede = 4\n", "did you mean 'seeds'"),
        ("[experiment]\nname = 'x'\nseeds = 0\n", "no runs"),
        ("[experiments]\n", "did you mean 'experiment'"),
        ("[experiment]\nname = 'x'\n[sweep]\nnodes = 5\n", "[sweep] nodes = 5"),
        ("[experiment]\nname = 'x'\naxis = 'nodes'\n", "'nodes' is not swept"),
        ("[experiment]\nname = 'x'\n[base]\nnodez = 5\n", "did you mean 'nodes'"),
        ("variants = 3\n[experiment]\nname = 'x'\n", "'variants' is 3"),
        ("[experiment]\nname = 'x'\n[variants]\nSM = 3\n", "variant 'SM' is 3"),
        ("[experiment]\nname = '../x'\n", "name is '../x'"),
    ],
)
def test_a_broken_file_is_named_with_its_cause(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(text)
    with pytest.raises(PipelineError) as refused:
        load_experiment(file)
    assert str(file) in refused.value.cause
    assert says in refused.value.cause
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="No such file"):
        load_experiment(tmp_path / "nowhere.toml")


def test_experiments_of_a_paper_are_read_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "paper.experiments.yaml"
    path.write_text(
        """
bases:
  default: {nodes: 50, topology: {name: abstract-tree, rate: 3.0}}
  fast: {like: default, topology: {rate: 30.0}}
variants: {SM: {reconfiguration: {name: strawman}}, EF: {routing: {name: event-forwarding}}}
experiments:
- name: size
  title: Size
  base: {like: fast, duration: 2.0}
  variants: [EF]
  along: {axis: nodes, values: [10, 20], quick_values: [], axis_label: N}
  seeds: 2
- {name: own, title: Own, base: {duration: 2.0}, variants: {SM: {}}, seeds: 10, quick_seeds: 3}
"""
    )
    found = load_experiments(path)
    assert found == {
        "size": Experiment(
            "size",
            "Size",
            {"nodes": 50, "topology": {"name": "abstract-tree", "rate": 30.0}, "duration": 2.0},
            {"EF": FORWARDING},
            axis="nodes",
            values=(10, 20),
            quick_values=(),
            axis_label="N",
            seeds=2,
            quick_seeds=2,
        ),
        "own": Experiment("own", "Own", {"duration": 2.0}, {"SM": {}}, seeds=10, quick_seeds=3),
    }
    path.write_text("experiments: [{name: a, title: A, base: {}, variants: {}, sedes: 2}]")
    with pytest.raises(TypeError, match="sedes"):
        load_experiments(path)


def test_figures_of_a_paper_are_read_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "paper.figures.yaml"
    path.write_text(
        "[{name: '7.3', title: Scale, says: It grows., claims: [T7.3-a], panels: "
        "[{experiment: scale, measure: overhead, y_label: cost, relative_to: SM, as: ratio}]}]"
    )
    panel = Panel("scale", "overhead", "cost", relative_to="SM", as_="ratio")
    assert load_figures(path) == (Figure("7.3", "Scale", (panel,), "It grows.", ("T7.3-a",)),)
    path.write_text("[{name: '7.3', title: Scale, panels: [], say: It grows.}]")
    with pytest.raises(msgspec.ValidationError, match="say"):
        load_figures(path)


def test_the_tables_that_measures_read_are_recorded() -> None:
    variants: dict[str, dict[str, Any]] = {"a": {}, "b": {"record": ["publications", "links"]}}
    experiment = Experiment("own", "Own", {}, variants)
    found = recording(experiment, ["delivery", "recovery_delay", "nodes_up"])
    assert found.base["record"] == [*RunConfig().record, "deliveries", "notes"]
    assert found.variants["a"] == {}
    assert found.variants["b"]["record"] == ["publications", "links", "deliveries", "notes"]
    assert recording(experiment, ["delivery"]) == experiment


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_text("nodes = 10", "utf-8-sig")
    assert read_toml(file) == {"nodes": 10}
