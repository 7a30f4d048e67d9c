"""What a program sees of Shoal when it says ``import shoal``."""

from __future__ import annotations

import subprocess
import sys

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
