"""What tests share. Nothing here starts Spark until a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
