"""What a program sees of Shoal when it says ``import shoal``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import shoal


def test_every_public_name_is_there_and_listed() -> None:
    for name in shoal.__all__:
        assert getattr(shoal, name) is not None
        assert name in dir(shoal)
    assert set(shoal._HOME) | {"__version__"} == set(shoal.__all__)


def test_importing_shoal_loads_nothing_heavy() -> None:
    heavy = "{'numpy', 'numba', 'pyarrow', 'pyspark', 'asyncio', 'msgspec', 'typer'}"
    code = f"import sys, shoal; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = shoal.conect


def test_filter_reads_the_language() -> None:
    assert shoal.Filter("temperature > 30").matches({"temperature": 31})


def test_a_result_sums_itself_up() -> None:
    result = shoal.simulate(shoal.RunConfig(nodes=20, duration=2.0))
    summary = result.summary()
    assert summary.owed
    assert summary.delivery == (summary.received or 0) / summary.owed
    assert summary.messages == result.messages == sum(row.messages for row in summary.traffic)
    assert "deliveries made of those owed" in str(summary)
    assert repr(result).startswith(f"<RunResult {result.run_id}: 20 nodes, ")
    assert len(repr(result)) < 120
    assert "<table>" in result._repr_html_()


USER_PROGRAM = """
import asyncio
from typing import assert_type

import shoal
from shoal import Filter, MatchIndex, RunConfig, RunResult

config = RunConfig(
    nodes=100,
    topology={"name": "abstract-tree", "rate": 10.0},
    reconfiguration={"name": "strawman"},
    link={"delay": 0.1},
    workload={"subscribers": 0.5},
)
assert_type(config.link.delay, float)
assert_type(shoal.simulate(config), RunResult)
assert_type(shoal.simulate(RunConfig()).messages, int)

hot = Filter("temperature > 30")
assert_type(hot.matches({"temperature": 31}), bool)
assert_type(hot.covers((shoal.F.temperature > 40) & (shoal.F.room == "lab")), bool)
index = MatchIndex()
handle = index.insert(hot)
assert_type(handle, int)
assert_type(index.match({"temperature": 31}), list[int])


async def main() -> None:
    async with shoal.connect("127.0.0.1:7464") as bus:
        assert_type(bus, shoal.Bus)
        async with bus.subscribe("temperature > 30") as events:
            await bus.publish(room="lab1", temperature=31.5)
            async for event in events:
                print(event["room"])


shoal.publish("127.0.0.1:7464", {"room": "lab1"})
asyncio.run(main())
"""


def test_a_users_program_passes_a_strict_type_checker(tmp_path: Path) -> None:
    wrong = USER_PROGRAM.replace('link={"delay": 0.1}', "link=0.1").replace("nodes=", "nods=")
    right, bad = tmp_path / "right.py", tmp_path / "bad.py"
    right.write_text(USER_PROGRAM)
    bad.write_text(wrong)
    sources = Path(shoal.__file__).parent.parent
    installed = sources.name == "site-packages"  # where the checker finds it by itself
    options = ["--strict", "--config-file=", "--follow-imports=silent"]
    options += ["--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(right), str(bad)],
        capture_output=True,
        text=True,
        env={"MYPYPATH": "" if installed else str(sources), "PATH": ""},
        cwd=tmp_path,
    )
    complaints = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert not [line for line in complaints if line.startswith("right.py")], done.stdout
    assert 'Unexpected keyword argument "nods"' in done.stdout, done.stdout + done.stderr
    assert 'Argument "link"' in done.stdout


def test_a_configuration_takes_tables_and_checks_them() -> None:
    config = shoal.RunConfig(link={"delay": 0.1}, workload={"subscribers": 0.5})
    assert (config.link.delay, config.workload.subscribers) == (0.1, 0.5)
    assert config.link == shoal.parse_config({"link": {"delay": 0.1}}).link
    with pytest.raises(shoal.StackError, match=r"'link.dely'; did you mean 'delay'"):
        shoal.RunConfig(link={"dely": 0.1})
    with pytest.raises(shoal.StackError, match=r"link.delay: expected `float` >= 0"):
        shoal.RunConfig(link={"delay": -1})
