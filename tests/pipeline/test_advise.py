"""Which protocol? Right tables come first, then delivery, then messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from shoal.pipeline.advise import (
    STACKS,
    Candidate,
    _rank,
    advise,
    candidates,
    load_scenario,
    warnings,
)
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge.statistics import Estimate
from shoal.pipeline.progress import Progress
from shoal.stack import StackError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO = {
    "nodes": 20,
    "duration": 3.0,
    "topology": {"name": "abstract-tree", "rate": 3.0, "window": [1.0, 2.5], "repair_time": 0.1},
    "workload": {"subscribers": 0.3},
}


def sure(value: float) -> Estimate:
    return Estimate(value, value, value)


def candidate(name: str, delivery: float, messages: float, wrong: int = 0) -> Candidate:
    return Candidate(name, sure(delivery), sure(messages), sure(0), sure(0), wrong)


def ranked(*found: Candidate) -> list[str]:
    values = {"messages": {c.name: {0: c.messages.value, 1: c.messages.value} for c in found}}
    return [c.name for c in _rank(found, values, 2).candidates]


def test_wrong_tables_come_last_however_cheap() -> None:
    assert ranked(candidate("wrong", 1.0, 1, wrong=1), candidate("right", 0.9, 50)) == [
        "right",
        "wrong",
    ]


def test_delivery_is_not_sold_for_messages() -> None:
    assert ranked(candidate("cheap", 0.90, 1), candidate("good", 0.99, 50))[0] == "good"


def test_among_those_that_deliver_alike_the_fewest_messages_win() -> None:
    assert ranked(candidate("dear", 0.991, 50), candidate("cheap", 0.989, 10))[0] == "cheap"


def test_every_stack_that_can_be_built_is_a_candidate() -> None:
    found = candidates(SCENARIO)
    assert "event-forwarding" in found
    assert "subscription-forwarding + path" in found
    assert "hierarchical-forwarding + path" not in found
    timed = found["subscription-forwarding + timed"]["reconfiguration"]
    assert timed["unsubscription_timer"] == pytest.approx(0.15)


def test_stacks_for_nodes_that_make_their_links_themselves() -> None:
    scenario = load_scenario(Path(__file__).parents[2] / "examples" / "network.toml")
    assert candidates(scenario).keys() == STACKS.keys()
    chosen = {stack["overlay"]["name"] for stack in STACKS.values() if stack.get("overlay")}
    assert chosen >= {"lstree", "dhtree", "graph"}
    assert sum(stack.get("routing", {}).get("name") == "dps" for stack in STACKS.values()) == 4
    on_tree = candidates({**scenario, "overlay": {"name": "lstree"}})
    assert "subscription-forwarding + strawman" in on_tree
    with pytest.raises(StackError, match="joinin"):
        candidates({**scenario, "topology": {"name": "full-mesh", "joinin": 3}})


def test_a_scenario_names_no_routing(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text('routing = {name = "flooding"}')
    with pytest.raises(PipelineError, match="that is what is asked for"):
        load_scenario(path)


def test_a_scenario_whose_repairs_come_after_its_events_is_warned_of_once() -> None:
    late = {**SCENARIO, "topology": {"name": "abstract-tree", "rate": 3.0, "window": [3.0, 7.0]}}
    [text] = warnings(late, candidates(late).values())
    assert "none meets a repair" in text
    assert not warnings(SCENARIO, candidates(SCENARIO).values())


@pytest.mark.spark
def test_advice_on_a_small_network(spark: SparkSession, out: Path) -> None:
    advice = advise(spark, SCENARIO, out, seeds=2, progress=Progress())
    assert advice.recommended is not None
    assert advice.recommended.wrong_runs == 0
    # Protocols of other tests' own are unknown to Spark's workers.
    assert {c.name for c in advice.candidates} <= set(candidates(SCENARIO))
    assert "subscription-forwarding + path" in {c.name for c in advice.candidates}
    by_name = {c.name: c for c in advice.candidates}
    flood, tree = by_name["event-forwarding"], by_name["subscription-forwarding + informed"]
    assert flood.misrouted.value > tree.misrouted.value
    assert flood.delivery is not None
    assert tree.delivery is not None
    assert 0.5 < tree.delivery.value <= 1
