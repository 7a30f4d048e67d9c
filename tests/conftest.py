"""What tests share. Nothing here starts Spark until a test asks for it.

``pytest --quick`` (``make test-quick``) leaves out the tests named in ``LONG``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")  # an example may take as long as the machine needs

LONG = (
    "tests/claims/",
    "tests/docs/",
    "tests/chaos/",
    "tests/test_installing.py",
    "tests/content/index/",
    "tests/live/test_dps_faults.py",
    "tests/live/test_faults.py",
    "tests/live/test_chaos.py",
    "tests/simulation/dataplane/",
    "tests/pipeline/",
    "tests/live/test_rolling_restart.py",
    "tests/live/test_commands.py",
    "tests/live/test_recording.py",
    "tests/live/test_lstree_live.py",
    "tests/live/test_cycles.py",
    "tests/live/test_operating.py",
    "tests/live/test_dhtree_live.py",
    "tests/cli/test_cli_commands.py",
    "tests/cli/test_cli_on_spark.py",
    "tests/cli/test_cli_chaos.py",
    "tests/simulation/test_importers.py",
    "tests/live/test_virtual.py::test_many",
    "tests/live/test_hostile.py::test_8000_mutated_frames_crash_nothing",
    "tests/overlay/test_air_safety.py::test_whatever",
    "tests/recovery/test_numbers.py::test_a_publisher_does_not_run_out",
    "tests/overlay/test_reference_tree.py::test_every_set",
    "tests/overlay/test_chord.py::test_whatever",
    "tests/overlay/test_dhtree.py::test_whatever",
)
"""The start of the names of all tests that take long, the longest files first.

They are started in this order, so that no core waits for the other at the end.
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick``."""
    parser.addoption("--quick", action="store_true", help="leave out the tests that take long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long; leave it out, if asked to."""
    rank = {item: _rank(item.nodeid) for item in items}
    if config.getoption("--quick"):
        config.hook.pytest_deselected(items=[item for item in items if rank[item] < len(LONG)])
        items[:] = [item for item in items if rank[item] == len(LONG)]
    items.sort(key=rank.__getitem__)


def _rank(name: str) -> int:
    """The place in ``LONG`` of a test; behind all for one that is not named there."""
    return next((i for i, start in enumerate(LONG) if name.startswith(start)), len(LONG))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of all tests that do not need their own."""
    from shoal.pipeline.spark.session import start_session, stop_session

    session = start_session("local[2]", tmp_path_factory.mktemp("spark"))
    yield session
    stop_session(session)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """An output folder, with signs in its name that Spark would take for a pattern."""
    return tmp_path / "out [a b] {1,2}"
