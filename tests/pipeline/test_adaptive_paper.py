"""The scenarios of adaptive routing: recorded ones only where there are data."""

from __future__ import annotations

import importlib
import os

import pytest

from shoal.experiments import adaptive
from shoal.pipeline.paper import runnable
from shoal.pipeline.plan.experiment import plan
from shoal.simulation.config import parse_config, run_id


def scenarios() -> list[str]:
    paper = importlib.reload(adaptive).PAPER
    assert {name for claim in paper.claims for name in claim.experiments()} == {
        experiment.name for experiment in paper.experiments
    }
    return [experiment.name for experiment in paper.experiments]


def test_without_data_the_recorded_scenarios_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOAL_POSITIONS", raising=False)
    monkeypatch.delenv("SHOAL_MESH", raising=False)
    assert not {"aircraft", "aircraft-later", "mesh", "mesh-elsewhere"} & set(scenarios())
    assert {"still", "fast", "radios", "hasty", "cars"} <= set(scenarios())


def test_files_are_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_POSITIONS", "flights.csv")
    monkeypatch.setenv("SHOAL_MESH", os.pathsep.join(["mesh.json", "other.json"]))
    assert {"aircraft", "aircraft-later", "mesh", "mesh-elsewhere"} <= set(scenarios())
    paths = {e.name: e.base["topology"].get("path") for e in adaptive.EXPERIMENTS}
    assert paths["aircraft"] == paths["aircraft-later"] == "flights.csv"
    assert (paths["mesh"], paths["mesh-elsewhere"]) == ("mesh.json", "other.json")


def test_what_was_tuned_on_is_apart_from_what_was_not() -> None:
    known: set[str] = set()
    unseen: set[str] = set()
    for e in adaptive.EXPERIMENTS:
        (unseen if e.name in adaptive.UNSEEN else known).add(run_id(parse_config(dict(e.base))))
    assert known
    assert unseen
    assert not known & unseen


def test_radios_broadcast_as_well() -> None:
    broadcasting = {e.name for e in adaptive.EXPERIMENTS if "broadcast τ=1" in e.variants}
    assert {"radios", "walkers", "cars", "vehicles"} <= broadcasting
    assert "still" not in broadcasting


def test_every_setting_of_the_grid_can_be_run() -> None:
    able, missing = runnable(adaptive.EXPERIMENTS[:1], "quick")
    assert not missing
    assert len(plan(able, "quick")) == 13
