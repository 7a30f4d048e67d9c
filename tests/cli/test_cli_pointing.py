"""Mistakes of a first hour: each message points to the command or line that is right."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.cli.main import run


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert run([str(argument) for argument in arguments]) == 2
    return capsys.readouterr().err


def test_a_run_given_to_sweep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text("nodes = 20\n")
    assert f"shoal simulate {file}" in refused(capsys, "sweep", file)


def test_an_experiment_given_to_simulate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text('[experiment]\nname = "x"\n')
    assert f"shoal sweep {file}" in refused(capsys, "simulate", file)


def test_part_of_a_papers_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert "frey-routing" in refused(capsys, "reproduce", "frey")
    assert "did you mean 'costa-picco'?" in refused(capsys, "reproduce", "costa")


def test_a_module_that_registers_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "empty_module.py"
    file.write_text("x = 1\n")
    line = refused(capsys, "simulate", "--module", file)
    assert "registers no protocol" in line
    assert "register(" in line


def test_a_measure_that_does_not_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text('[experiment]\nname = "x"\nmeasures = ["delivry"]\n[base]\nnodes = 5\n')
    assert "unknown measure 'delivry'; did you mean 'delivery'?" in refused(capsys, "sweep", file)
    assert "did you mean 'delivery'?" in refused(capsys, "measures", "delivry")


@pytest.mark.parametrize("name", ["kind_count", "path_errors"])
def test_a_measure_that_needs_parameters(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text(f'[experiment]\nname = "x"\nmeasures = ["{name}"]\n[base]\nnodes = 5\n')
    assert f"measure '{name}' needs " in refused(capsys, "sweep", file, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_misspelt_setting_of_a_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'rate'?" in refused(capsys, "broker", "--set", "limits.rte=5")


def test_a_file_given_to_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert "shoal broker --config b.toml" in refused(capsys, "broker", "b.toml")
