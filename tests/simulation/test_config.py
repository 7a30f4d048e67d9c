"""A configuration is refused with the cause and the cure, and identifies its run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.simulation import RunConfig, Simulation, parse_config, run_id, simulate
from shoal.simulation.config import canonical_json, code_version
from shoal.stack import StackError

STRAWMAN: dict[str, Any] = {"reconfiguration": {"name": "strawman"}}


def refusal(**raw: Any) -> str:
    with pytest.raises(StackError) as refused:
        parse_config({**STRAWMAN, **raw})
    text = str(refused.value)
    assert "\n" not in text
    return text


def act(**changes: Any) -> dict[str, Any]:
    return {
        "script": [{"at": 0.0, "node": 0, "do": "subscribe", "patterns": [1], **changes}],
    }


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"nodez": 3}, ["unknown key 'nodez'", "did you mean 'nodes'?"]),
        ({"nodes": 0}, ["nodes: expected `int` >= 1"]),
        ({"nodes": "many"}, ["nodes: expected `int`, got `str`"]),
        ({"seed": 2**64}, ["seed: expected `int` <= 9223372036854775807"]),
        ({"duration": 0}, ["duration: expected `float` > 0"]),
        ({"duration": float("nan")}, ["duration: expected `float`"]),
        ({"bin": 1e-12}, ["bin: expected `float` >= 1e-06"]),
        ({"record": ["trafic"]}, ["unknown table 'trafic'", "did you mean 'traffic'?"]),
        ({"link": {"bandwith": 1}}, ["'link.bandwith'", "did you mean 'bandwidth'?"]),
        ({"link": {"bandwidth": float("inf")}}, ["link.bandwidth: expected `float` <= "]),
        ({"workload": {"publishrate": 1}}, ["'workload.publishrate'", "'publish_rate'?"]),
        ({"workload": {"subscribers": 1.5}}, ["workload.subscribers: expected `float` <= 1.0"]),
        ({"workload": {"publish_rate": float("inf")}}, ["workload.publish_rate: expected"]),
        (
            {"workload": {"patterns": 5}},
            ["workload: 7 patterns per subscriber", "among 5", "raise patterns"],
        ),
        (
            {"workload": {"churn_window": [4, 2]}},
            ["workload: churn_window ends before it starts", "give [2, 4]"],
        ),
        ({"workload": act(node=100)}, ["no node 100", "0 to 99"]),
        ({"workload": act(at=9.0)}, ["9 s comes after the end of the run, 8 s", "raise duration"]),
        ({"workload": act(patterns=[-1])}, ["script[0].patterns[0]: expected `int` >= 0"]),
        ({"workload": act(do="listen")}, ["invalid enum value 'listen'"]),
        ({"topology": {"shape": "random"}}, ["section 'topology' needs a name"]),
        ({"topology": {"name": "abstract-tree", "rates": 1}}, ["no parameter 'rates'", "'rate'?"]),
        ({"topology": {"name": "abstract-tree", "max_degree": 1}}, ["max_degree: expected"]),
    ],
)
def test_refused(raw: dict[str, Any], words: list[str]) -> None:
    text = refusal(**raw)
    for word in words:
        assert word in text


def test_a_configuration_made_in_python_is_checked_too() -> None:
    with pytest.raises(StackError, match="nodes: expected `int` >= 1"):
        simulate(RunConfig(nodes=0, **STRAWMAN))
    with pytest.raises(StackError, match="unknown table 'trafic'"):
        Simulation(RunConfig(record=("trafic",), **STRAWMAN))


def test_equal_runs_have_equal_text_however_they_are_written() -> None:
    short = parse_config({"topology": {"name": "abstract-tree", "rate": 3}, **STRAWMAN})
    written_out = parse_config(
        {
            "nodes": 100,
            "duration": 8,
            "topology": {"rate": 3.0, "name": "abstract-tree", "repair_time": 0.1},
            "routing": {"name": "subscription-forwarding", "announced": True},
            "workload": {"publish_rate": 1},
            **STRAWMAN,
        }
    )
    in_python = RunConfig(duration=8, topology={"name": "abstract-tree", "rate": 3}, **STRAWMAN)
    left_out = parse_config({"topology": {"name": "abstract-tree", "rate": 3}})
    texts = {canonical_json(run) for run in (short, written_out, in_python, left_out)}
    assert len(texts) == 1
    assert len({run_id(run) for run in (short, written_out, in_python, left_out)}) == 1


def test_the_text_reads_back_to_the_same_run() -> None:
    config = parse_config(
        {
            "nodes": 5,
            "topology": {
                "name": "abstract-tree",
                "links": [[0, 1], [1, 2]],
                "schedule": [{"at": 1, "old": [0, 1], "new": [0, 2]}],
            },
            "workload": act(),
            **STRAWMAN,
        }
    )
    again = parse_config(json.loads(canonical_json(config)))
    assert canonical_json(again) == canonical_json(config)
    assert run_id(again) == run_id(config)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"nodes": 99},
        {"bin": 0.2},
        {"record": ["traffic"]},
        {"topology": {"name": "abstract-tree", "rate": 1}},
        {"workload": {"publish_rate": 2}},
        {"routing": {"name": "event-forwarding"}, "reconfiguration": None},
    ],
)
def test_any_difference_makes_another_run(change: dict[str, Any]) -> None:
    assert run_id(parse_config({**STRAWMAN, **change})) != run_id(parse_config(STRAWMAN))


def test_a_run_is_tied_to_the_code_it_ran() -> None:
    assert len(code_version()) == 16
    assert int(code_version(), 16) >= 0


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        ({}, "more than one closes a cycle; set topology.contacts = 1"),
        ({"contacts": 1, "crash_rate": 0.1, "back_after": 1.0}, "leave back_after and churn out"),
    ],
)
def test_configured_links_that_close_a_cycle_are_refused(
    topology: dict[str, object], words: str
) -> None:
    raw = {
        "nodes": 20,
        "duration": 0.5,
        "topology": {"name": "full-mesh", "joining": 0.2, **topology},
        "overlay": {"name": "links"},
        "routing": {"name": "subscription-forwarding"},
    }
    with pytest.raises(StackError, match=words):
        simulate(parse_config(raw))
    alone = {**raw, "topology": {"name": "full-mesh", "joining": 0.2, "contacts": 1}}
    assert simulate(parse_config(alone)).canonical
