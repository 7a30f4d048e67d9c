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
    # Spark, and whole programs run as a user runs them.
    "tests/pipeline/",
    "tests/claims/",
    "tests/docs/",
    "tests/cli/test_cli_commands.py",
    "tests/cli/test_cli_chaos.py",
    "tests/live/test_commands.py",
    "tests/live/test_faults.py",
    "tests/live/test_lstree_live.py",
    "tests/live/test_virtual.py::test_many",
    "tests/live/test_dps_faults.py",
    "tests/live/test_recording.py",
    "tests/live/test_operating.py",
    "tests/live/test_dhtree_live.py",
    # Histories by the thousand, and kernels compiled for every case.
    "tests/chaos/",
    "tests/simulation/dataplane/",
    "tests/simulation/test_importers.py",
    "tests/live/test_hostile.py::test_8000_mutated_frames_crash_nothing",
    "tests/content/index/",
    "tests/overlay/test_reference_tree.py::test_every_set",
    "tests/overlay/test_chord.py::test_whatever",
    "tests/overlay/test_dhtree.py::test_whatever",
)
"""The start of the names of all tests that take long; the rest needs less than two minutes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--quick``."""
    parser.addoption("--quick", action="store_true", help="leave out the tests that take long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long, if asked to; say which tests belong on the same core."""
    on_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    for item in items:
        together = "spark" if item.path in on_spark else str(item.path)
        item.add_marker(pytest.mark.xdist_group(together))
    if config.getoption("--quick"):
        long = [item for item in items if item.nodeid.startswith(LONG)]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.nodeid.startswith(LONG)]


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
