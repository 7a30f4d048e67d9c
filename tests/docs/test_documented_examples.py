"""What the README and the documentation show is executed, and what they print is what comes out."""

from __future__ import annotations

import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import shoal
from shoal.simulation import parse_config
from shoal.testing import Network

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file it shows, named by a comment in its first line."""
        named = re.match(r"# (\S+\.(?:py|toml))\n", self.text)
        return named[1] if named else None


def blocks(document: Path) -> list[Block]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(language, text) for language, text in fenced]


def commands(block: Block) -> Iterator[tuple[list[str], str]]:
    """The commands of a ``console`` block, each with the output shown below it."""
    for part in block.text.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        yield shlex.split(command), output.strip()


def execute(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    assert arguments[0] == "shoal"
    return subprocess.run(
        [sys.executable, "-m", "shoal", *arguments[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


def check(arguments: list[str], shown: str, folder: Path) -> None:
    """Run a documented command; what is shown below it must be what it says, up to an ellipsis."""
    done = execute(arguments, folder)
    if shown.startswith("shoal: "):
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stderr.startswith(shown.partition("…")[0])
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        assert shown in done.stdout


def test_the_first_program_runs_and_is_ten_lines(tmp_path: Path) -> None:
    program = next(b for b in blocks(ROOT / "README.md") if b.language == "python")
    assert len([line for line in program.text.splitlines() if line.strip()]) <= 10
    done = subprocess.run(
        [sys.executable, "-c", program.text], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"\d+\.\d% of the deliveries owed were made\n[\d,]+ messages, fingerprint [0-9a-f]{32}\n",
        done.stdout,
    )
    assert (ROOT / "examples" / "first.py").read_text().endswith(program.text)


def test_the_live_program_runs_against_a_broker_and_is_ten_lines() -> None:
    _, program = [b for b in blocks(ROOT / "README.md") if b.language == "python"]
    assert len([line for line in program.text.splitlines() if line.strip()]) <= 10
    with Network(1) as network:
        text = program.text.replace("127.0.0.1:7464", network.brokers[0].address)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "lab1 31.5\n"


def test_the_programs_of_the_page_on_the_live_network_run() -> None:
    programs = [b for b in blocks(ROOT / "docs" / "live.md") if b.language == "python"]
    printed = ["lab1 31.5 b'anything'\n", "1 root of 20 brokers\n"]
    for program, shown in zip(programs, printed, strict=True):
        done = subprocess.run([sys.executable, "-c", program.text], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout == shown


def test_the_thermostat_runs() -> None:
    path = str(ROOT / "examples" / "thermostat.py")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "lab2 is the warmest lab" in done.stdout


@pytest.mark.parametrize("page", ["churn", "dhtree", "radio", "semi-probabilistic"])
def test_configurations_of_runs_are_valid(page: str) -> None:
    shown = [b for b in blocks(ROOT / "docs" / f"{page}.md") if b.language == "toml"]
    for block in shown:
        assert parse_config(tomllib.loads(block.text)).duration > 0
    assert shown


@pytest.mark.parametrize(
    "document", ["README.md", "docs/concepts.md", "docs/command-line.md", "docs/recovery.md"]
)
def test_commands_do_what_is_shown(document: str, tmp_path: Path) -> None:
    shown = [c for b in blocks(ROOT / document) if b.language == "console" for c in commands(b)]
    assert shown
    for arguments, output in shown:
        check(arguments, output, tmp_path)


def _run_live(folder: Path) -> None:
    """The documented overlay links two brokers, one of which has it from a configuration file."""
    (folder / "broker.toml").write_text('modules = ["my_overlay.py"]\n')
    command = [sys.executable, "-m", "shoal", "broker", "--listen", "127.0.0.1:0", "--overlay"]
    running: list[subprocess.Popen[str]] = []

    def listening(*options: str) -> str:
        whole = [*command, "elder", *options]
        broker = subprocess.Popen(whole, stdout=subprocess.PIPE, text=True, cwd=folder.parent)
        running.append(broker)
        assert broker.stdout is not None
        return broker.stdout.readline().split()[-1]

    try:
        first = listening("--module", str(folder / "my_overlay.py"), "--name", "aaa")
        config = str(folder / "broker.toml")
        second = listening("--config", config, "--join", first, "--name", "bbb")
        with (
            shoal.connect_sync(second) as bus,
            bus.subscribe("x > 1") as warm,
            shoal.connect_sync(first) as publisher,
        ):
            bus.settled()
            publisher.publish({"x": 5})
            assert next(warm)["x"] == 5
    finally:
        for broker in running:
            broker.terminate()
            broker.wait()


def test_adding_a_protocol_step_by_step(tmp_path: Path) -> None:
    ran = []
    for block in blocks(ROOT / "docs" / "adding-a-protocol.md"):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        if block.file and block.file.startswith("test_"):
            pytest_run = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                block.file,
            ]
            done = subprocess.run(pytest_run, cwd=tmp_path, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout
            assert "2 passed" in done.stdout
        if block.language == "console":
            for arguments, output in commands(block):
                check(arguments, output, tmp_path)
                ran.append(arguments[1])
    _run_live(tmp_path)
    first = [*["protocols"] * 2, *["simulate"] * 3, "sweep"]
    assert ran == [*first, "simulate", "chaos", *["simulate"] * 2]
    runs = list((tmp_path / "results" / "tables" / "runs").glob("*.parquet"))
    assert runs
    assert not [run for run in runs if "failed" in run.name]


def test_the_sweep_of_the_page_on_protocols_reuses_what_is_there(tmp_path: Path) -> None:
    for block in blocks(ROOT / "docs" / "adding-a-protocol.md"):
        if block.file in ("my_protocol.py", "gossip.toml"):
            (tmp_path / block.file).write_text(block.text)
    sweep = ["shoal", "sweep", "gossip.toml", "--out", "results", "--seeds"]
    first = execute([*sweep, "1"], tmp_path)
    assert "6 simulated, 0 there already" in first.stdout, first.stderr
    more = execute([*sweep, "2"], tmp_path)
    assert "6 simulated, 6 there already" in more.stdout, more.stderr
    changed = (tmp_path / "my_protocol.py").read_text().replace("= 0.7", "= 0.6")
    (tmp_path / "my_protocol.py").write_text(changed)
    again = execute([*sweep, "2"], tmp_path)
    assert "12 simulated, 0 there already" in again.stdout, again.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", document.read_text()):
        page = document.parent / target if target else document
        assert page.exists(), f"{document.name} links to {target}"
        assert not anchor or anchor in anchors(page), f"{document.name} links to {target}#{anchor}"


def anchors(page: Path) -> list[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads]


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.name != "index.md":
            assert f"({page.name})" in index, f"docs/index.md does not mention {page.name}"


def test_every_command_is_documented() -> None:
    from shoal.cli.main import app

    page = (ROOT / "docs" / "command-line.md").read_text()
    for command in app.registered_commands:
        assert command.callback is not None
        assert f"`shoal {command.callback.__name__}" in page


@pytest.mark.parametrize("name", ["dps_workloads", "picture", "systems", "tree_shapes"])
def test_programs_behind_documented_figures_load(name: str) -> None:
    """They take minutes and more to run; what they import must be there."""
    program = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="loaded")
    assert callable(program["main"])


def test_the_table_of_tree_shapes_can_be_computed() -> None:
    program = runpy.run_path(str(ROOT / "examples" / "tree_shapes.py"), run_name="loaded")
    costs = [program["measured"]("the literal rules", name, 0)[0] for name in ("SM", "RP")]
    assert costs[0] > costs[1] > 0


@pytest.mark.parametrize(
    "example", sorted((ROOT / "examples").glob("*.toml")), ids=lambda p: p.name
)
def test_examples_are_valid(example: Path, tmp_path: Path) -> None:
    """Each says in its first lines how it is run."""
    named = re.search(
        r"shoal (simulate|sweep|advise) examples/" + example.name, example.read_text()
    )
    assert named is not None
    if named[1] == "simulate":
        check(["shoal", "simulate", str(example)], "", tmp_path)
    elif named[1] == "sweep":
        from shoal.pipeline.plan.experiment_file import load_experiment

        assert load_experiment(example).variants
    else:
        from shoal.pipeline.advise import candidates, load_scenario

        assert candidates(load_scenario(example))
