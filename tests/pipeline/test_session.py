"""Spark starts quietly, on loopback, or says in one line why it cannot."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.spark.session import check_master, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_a_master_that_does_not_answer_is_said_before_java_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark itself would try for a minute, in silence."""
    url = f"spark://127.0.0.1:{free_port()}"
    monkeypatch.setattr("pyspark.core.context.launch_gateway", pytest.fail)
    with pytest.raises(PipelineError) as refused:
        start_session(url)
    assert f"no Spark master answers at {url}" in refused.value.cause
    assert "--master" in refused.value.cure


def test_one_of_several_masters_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        check_master(f"spark://127.0.0.1:{free_port()},127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("master", ["lokal", "local[x]", "spark://", "spark://host", "http://a:1"])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(PipelineError, match="is no Spark master"):
        check_master(master)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[2]", "local[2,4]", "yarn"])
def test_what_is_a_master_is_not(master: str) -> None:
    check_master(master)


@pytest.mark.spark
def test_the_session_keeps_to_itself(spark: SparkSession) -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.master == "local[2,4]"


@pytest.mark.spark
def test_a_long_session_has_room_for_its_code(spark: SparkSession) -> None:
    java = spark._jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]  # py4j
    pools = {pool.getName(): pool.getUsage().getMax() for pool in java.getMemoryPoolMXBeans()}
    assert sum(size for name, size in pools.items() if "Code" in name) >= 200 * 2**20, pools


@pytest.mark.spark
def test_a_second_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="already running"):
        start_session("local[1]")
    assert spark.range(3).count() == 3
