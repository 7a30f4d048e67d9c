"""Bad input: one line that names the cause and the cure, exit code 2, nothing lost."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.cli.main import run

EXPERIMENT = """\
[experiment]
name = "small"
seeds = 1
[base]
nodes = 10
duration = 1.0
[variants.one]
routing = {name = "event-forwarding"}
[sweep]
nodes = [5, 10]
"""


def refuse(capsys: pytest.CaptureFixture[str], *arguments: str | Path, expected: int = 2) -> str:
    """The one line with which a command is refused, beside those that show progress."""
    code = run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    assert code == expected, said.out + said.err
    assert said.out == ""
    (line,) = [line for line in said.err.splitlines(True) if not line.endswith(" …\n")]
    assert line.startswith("shoal: ")
    assert line.endswith("\n")
    return line


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    file = tmp_path / "small.toml"
    file.write_text(EXPERIMENT)
    return file


def test_unknown_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(capsys, "simulate", "--routing", "event-forwardin")
    assert "unknown routing 'event-forwardin'; did you mean 'event-forwarding'?" in line


def test_unknown_parameter(capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(
        capsys, "simulate", "--routing", "event-forwarding", "--set", "topology.shap=random"
    )
    assert "topology 'abstract-tree' has no parameter 'shap'; did you mean 'shape'?" in line


def test_unknown_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'nodes'?" in refuse(capsys, "simulate", "--set", "node=5")
    assert "did you mean 'subscribers'?" in refuse(
        capsys, "simulate", "--set", "workload.subscriber=1"
    )


@pytest.mark.parametrize(
    ("setting", "cause"),
    [
        ("topology.repair_time=-1", "repair_time: expected `float` >= 0"),
        ("nodes=0", "nodes: expected `int` >= 1"),
        ("nodes=many", "nodes: expected `int`"),
        ("workload.subscribers=1.5", "workload.subscribers: expected `float` <= 1.0"),
        ("topology.shape=round", "invalid enum value 'round'; give one of 'balanced', 'random'"),
        ("data_plane=fast", "give one of 'arrays', 'auto', 'objects'"),
        ("overlay.rate=5", "overlay 'given' has no parameter 'rate'; did you mean topology.rate?"),
        (
            "recovery=push",
            "recovery: expected `table`, got `str`; name a protocol by recovery.name",
        ),
        ("record=deliveries", "record: expected `list`, got `str`"),
        ('record=["trafic"]', "unknown table 'trafic'; did you mean 'traffic'?"),
        ("nodes", "no value; write it as KEY=VALUE"),
        ("nodes.more=1", "'nodes' has no keys of its own"),
    ],
)
def test_value_out_of_range(setting: str, cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(
        capsys, "simulate", "--nodes", "10", "--reconfiguration", "strawman", "--set", setting
    )
    assert cause in line


def test_stack_that_cannot_work(capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(capsys, "simulate", "--routing", "event-forwarding", "--topology", "static-graph")
    assert "needs a layer that keeps the neighbourhood acyclic" in line
    assert "topology 'abstract-tree'" in line


def test_a_topology_is_no_overlay(capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(capsys, "simulate", "--overlay", "abstract-tree")
    assert "'abstract-tree' is a topology, not an overlay" in line
    assert "topology = {name = 'abstract-tree'}" in line


def test_reconfiguration_of_a_routing_that_keeps_no_tables(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = refuse(
        *(capsys, "simulate", "--routing", "event-forwarding", "--reconfiguration", "strawman")
    )
    assert "'strawman' needs a layer that keeps subscription tables" in line
    assert "subscription-forwarding" in line


@pytest.mark.parametrize("command", ["simulate", "sweep", "advise"])
def test_broken_toml(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.toml"
    file.write_text("nodes = \n")
    line = refuse(capsys, command, file)
    assert "broken.toml is not TOML" in line
    assert "line 1" in line


def test_a_configuration_that_is_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.toml"
    file.write_bytes(b"\xff\xfe")
    assert "broken.toml is not TOML" in refuse(capsys, "broker", "--config", file)


@pytest.mark.parametrize("command", ["simulate", "sweep", "advise"])
def test_missing_file(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(capsys, command, tmp_path / "nowhere.toml")
    assert "No such file" in line
    assert "give the path of a TOML file" in line


@pytest.mark.parametrize(
    ("old", "new", "cause"),
    [
        ("nodes = [5, 10]", "nodes = []", "no values for 'nodes'"),
        ("seeds = 1", "seeds = 0", "0 seeds"),
    ],
)
def test_experiment_without_runs(
    old: str, new: str, cause: str, experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment.write_text(EXPERIMENT.replace(old, new))
    line = refuse(capsys, "sweep", experiment)
    assert f"experiment 'small' has no runs: {cause}" in line


def test_error_in_a_variant_names_it(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment.write_text(EXPERIMENT.replace("event-forwarding", "carrier-pigeon"))
    line = refuse(capsys, "sweep", experiment)
    assert "variant 'one'" in line
    assert "unknown routing 'carrier-pigeon'" in line


def test_unwritable_folder(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = tmp_path / "file" / "out"
    assert f"cannot write to {folder}" in refuse(capsys, "sweep", experiment, "--out", folder)
    line = refuse(
        capsys, "simulate", "--nodes", "5", "--routing", "event-forwarding", "--out", folder
    )
    assert f"cannot write to {folder}: Not a directory; choose another --out folder" in line
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_permission(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    line = refuse(capsys, "sweep", experiment, "--out", folder / "out")
    assert "Permission denied" in line


def test_master_that_cannot_be_reached(
    experiment: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:  # bound, not listening: nobody else gets this port
        taken.bind(("127.0.0.1", 0))
        master = f"spark://127.0.0.1:{taken.getsockname()[1]}"
        words = ("sweep", experiment, "--master", master, "--out", tmp_path / "out")
        line = refuse(capsys, *words, expected=3)
    assert f"no Spark master answers at {master}" in line
    assert "leave --master out to use this machine" in line


def test_no_master_at_all(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(capsys, "sweep", experiment, "--master", "lokal[2]")
    assert "'lokal[2]' is no Spark master; use local[*]" in line


def test_module_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(capsys, "simulate", "--module", "nowhere.py")
    assert "module 'nowhere.py': no such file" in line


def test_module_that_does_not_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "faulty.py"
    module.write_text("1 / 0\n")
    line = refuse(capsys, "simulate", "--module", module)
    assert "does not load: ZeroDivisionError: division by zero" in line


def test_replay_of_an_unknown_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = refuse(capsys, "simulate", "--replay", "abc", "--out", tmp_path)
    assert f"no run 'abc' in {tmp_path}" in line


def test_a_half_written_table_is_found_and_made_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", "--nodes", "5", "--routing", "event-forwarding", "--out", str(tmp_path)]
    assert run(command) == 0
    (row,) = (tmp_path / "tables" / "runs").glob("*.parquet")
    (table,) = (tmp_path / "tables" / "traffic").glob("*.parquet")
    whole = table.read_bytes()
    table.write_bytes(whole[: len(whole) // 2])
    capsys.readouterr()
    assert f"no run '{row.stem}'" in refuse(
        capsys, "simulate", "--replay", row.stem, "--out", tmp_path
    )
    assert run(command) == 0
    assert run(["simulate", "--replay", row.stem, "--out", str(tmp_path)]) == 0
    assert "same fingerprint" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["simulte"], "No such command 'simulte'"),
        (["simulate", "--nods", "5"], "No such option"),
        (["simulate", "--nodes", "five"], "Invalid value for '--nodes'"),
        (["sweep"], "Missing argument"),
        (["bench", "simulations"], "no benchmark 'simulations'; did you mean 'simulation'?"),
        (
            ["protocols", "routings"],
            "no protocol or kind of protocol is called 'routings'; did you mean 'routing'?",
        ),
        (["reproduce", "fray-routing"], "fray-routing"),
    ],
)
def test_wrong_use(arguments: list[str], cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cause in refuse(capsys, *arguments)


def test_json_that_cannot_be_written_is_told_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refuse(capsys, "bench", "simulation", "--json", tmp_path / "no" / "numbers.json")
    assert "No such file or directory" in line


def test_a_reader_that_leaves_early_is_no_error() -> None:
    shoal = f"{sys.executable} -m shoal protocols"
    done = subprocess.run(["sh", "-c", f"{shoal} | head -1"], capture_output=True, text=True)
    assert done.stdout.strip() == "topology"
    assert done.stderr == ""


def test_a_terminal_without_a_sign_gets_another() -> None:
    words = [sys.executable, "-m", "shoal", "filter", "explain", "room = 'grün'"]
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, env=ascii_only, capture_output=True, text=True, check=True)
    assert "room = 'gr?n'" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--root=a", "--root=b"], "a tree has one root: give --root once"),
        (["--root=a", '--set=overlay.heirs=["a"]'], "name each of root and heirs once"),
        (["--root=two words"], "the name 'two words' cannot be used"),
        (["--set=overlay.discovery=radio"], "brokers find each other by 'sampling'"),
        (["--set=overlay.error=3"], "error: expected `float` <= 1.0"),
        (["--set=overlay.receive=nan"], "receive: expected `float` >= 0.0"),
        (["--set=overlay.timeout=0.5"], "timeout must be longer than period"),
    ],
)
def test_brokers_that_would_make_no_shopparent_tree(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    stack = ["--overlay=shopparent", "--routing=hierarchical-forwarding"]
    assert said in refuse(capsys, "broker", "--listen=127.0.0.1:0", *stack, *options)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("overlay.root=99", "there is no node 99; nodes are 0 to 5"),
        ("overlay.heirs=[0]", "a tree has one root"),
        ("overlay.error=3", "error: expected `float` <= 1.0"),
        ("overlay.forward=nan", "forward: expected `float` >= 0.0"),
        ("topology.interests.given=[[5,1]]", "ends before it starts; give [1, 5]"),
        ("topology.places=[[0,0],[9,0],[0,9],[9,9],[5,5],[999,0]]", "the places are not connected"),
        ("topology.range=1", "or connected_at = 0"),
    ],
)
def test_radios_that_would_make_no_shopparent_tree(
    capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    stack = ["--topology=radio-range", "--overlay=shopparent", "--routing=hierarchical-forwarding"]
    radio = ["--set=overlay.discovery=radio", "--set=overlay.overlap=axis", "--nodes=6"]
    assert said in refuse(capsys, "simulate", *stack, *radio, f"--set={setting}")


def test_match_refuses_its_files_before_spark_has_started(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.pipeline.spark.session.spark_session", None)
    events, filters, none = tmp_path / "e.json", tmp_path / "s.csv", tmp_path / "none.csv"
    events.write_text('{"x": 1}\n')
    filters.write_text("id,filter\n1,x = 1\n")
    out = tmp_path / "out"
    assert "none.csv does not exist" in refuse(capsys, "match", none, filters, "--out", out)
    assert "none.csv does not exist" in refuse(capsys, "match", events, none, "--out", out)
    assert "is not empty" in refuse(capsys, "match", events, filters, "--out", tmp_path)


def test_report_refuses_folders_and_measures_before_spark_has_started(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.pipeline.spark.session.spark_session", None)
    assert "holds no tables" in refuse(capsys, "report", tmp_path)
    (tmp_path / "tables").mkdir()
    assert "unknown measure" in refuse(capsys, "report", tmp_path, "--measure", "delivry")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("nodes=" + "9" * 5000, "nodes: expected `int`"),
        ("nodes=" + "[" * 5000, "nodes: expected `int`"),
        ("topology.rate=\udcff", "this is no UTF-8"),
        ("link.bandwidth=5e-324", "link: bandwidth must be at least 1 bit/s"),
    ],
)
def test_values_that_python_cannot_read(
    setting: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refuse(capsys, "simulate", "--nodes", "3", "--set", setting)


@pytest.mark.parametrize("command", ["simulate", "sweep", "broker"])
@pytest.mark.parametrize("text", ["seed = " + "9" * 5000, "x = " + "[" * 5000])
def test_toml_that_python_cannot_read(
    command: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(text)
    words: list[str | Path] = [command, *(["--config"] if command == "broker" else []), file]
    assert "odd.toml is not TOML" in refuse(capsys, *words)


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ("modules = 5", ["simulate", "FILE"], "modules: expected `list`"),
        ("modules = 5", ["simulate", "FILE", "--module=x.py"], "modules: expected `list`"),
        ("modules = 5", ["broker", "--config", "FILE"], "modules: expected `list`"),
        ("overlay = 'x'", ["broker", "--config", "FILE", "--root=a"], "overlay: expected `table`"),
        ("topology = 5", ["simulate", "FILE", "--picture=x.svg"], "topology: expected `table`"),
        ("routing = 5\nnodes = 0", ["simulate", "FILE", "--routing=flooding"], "nodes: expected"),
    ],
)
def test_options_beside_a_file_with_wrong_types(
    text: str, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "odd.toml"
    file.write_text(text)
    assert said in refuse(capsys, *(str(file) if word == "FILE" else word for word in words))
