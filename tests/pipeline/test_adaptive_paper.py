"""The scenarios of adaptive routing: recorded ones only where there are data."""

from __future__ import annotations

import importlib

import pytest

from shoal.experiments import adaptive
from shoal.pipeline.paper import runnable
from shoal.pipeline.plan import plan


def scenarios() -> list[str]:
    paper = importlib.reload(adaptive).PAPER
    assert {name for claim in paper.claims for name in claim.experiments()} == {
        experiment.name for experiment in paper.experiments
    }
    return [experiment.name for experiment in paper.experiments]


def test_without_data_the_recorded_scenarios_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(adaptive.POSITIONS, raising=False)
    monkeypatch.delenv(adaptive.MESH, raising=False)
    assert scenarios() == ["still", "fast", "radios"]


def test_files_are_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(adaptive.POSITIONS, "flights.csv")
    monkeypatch.setenv(adaptive.MESH, "mesh.json")
    assert scenarios() == ["still", "fast", "radios", "aircraft", "mesh"]
    flights = adaptive.EXPERIMENTS[-2]
    assert flights.base["overlay"]["path"] == "flights.csv"


def test_every_setting_of_the_grid_can_be_run() -> None:
    able, missing = runnable(adaptive.EXPERIMENTS[:1], "quick")
    assert not missing
    assert len(plan(able, "quick")) == 13
