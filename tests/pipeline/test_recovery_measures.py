"""Measures of recovery against what the recorded rows say when counted by hand."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

import pytest
from test_measure import Ran

from shoal.experiments.recovery import EXPERIMENTS
from shoal.pipeline.measure.recovery import DIGESTS, GOSSIP
from shoal.pipeline.plan.experiment import Experiment, merge

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOSS = EXPERIMENTS[0]
SMALL = Experiment(
    "small",
    "Small",
    merge(
        LOSS.base,
        {
            "nodes": 15,
            "duration": 6.0,
            "workload": {"publish_window": [1.0, 3.0]},
            "record": ["publications", "deliveries", "traffic", "links", "notes"],
        },
    ),
    {label: LOSS.variants[label] for label in ("none", "push", "combined")},
    seeds=1,
)


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Ran:
    return Ran(spark, SMALL)


def total(rows: list[dict[str, Any]], column: str, kinds: tuple[str, ...]) -> float:
    return float(sum(row[column] for row in rows if row["kind"] in kinds))


def test_what_was_recovered_and_how_late(ran: Ran) -> None:
    shares, delays = ran.values("recovered_share"), ran.values("recovery_delay", quantile=0.5)
    for key, tables in ran.each():
        published = {(p["publisher"], p["sequence"]): p["time"] for p in tables["publications"]}
        late = [
            row["time"] - published[row["publisher"], row["sequence"]]
            for row in tables["deliveries"]
            if row["recovered"]
        ]
        assert shares[key] == pytest.approx(len(late) / len(tables["deliveries"]))
        if key[0] == "none":
            assert not late
            assert key not in delays
        else:
            assert late
            assert delays[key] == pytest.approx(statistics.median(late))


def test_what_it_cost(ran: Ran) -> None:
    messages, size = ran.values("gossip_per_hop"), ran.values("gossip_bytes_per_hop")
    replies, rates = ran.values("replies_per_hop"), ran.values("gossip_rate", since=1.0, until=5.0)
    asked = ran.values("asked_for")
    for key, tables in ran.each():
        rows = tables["traffic"]
        hops = total(rows, "count", ("event",))
        assert messages[key] == pytest.approx(total(rows, "count", GOSSIP) / hops)
        assert size[key] == pytest.approx(total(rows, "bytes", DIGESTS) / hops)
        assert replies[key] == pytest.approx(total(rows, "cost", ("reply",)) / hops)
        assert asked[key] == total(rows, "count", ("missing", "request"))
        within = [row for row in rows if 1.0 - 1e-6 <= row["time"] < 5.0 - 1e-6]
        assert rates[key] == pytest.approx(total(within, "bytes", GOSSIP) / 15 / 4.0)
        assert (key[0] == "none") == (messages[key] == 0.0)


def test_who_served(ran: Ran) -> None:
    found = ran.values("served_by_publisher")
    for key, tables in ran.each():
        givers = [row["value"] for row in tables["notes"] if row["what"] == "recovered"]
        share = givers.count("publisher") / len(givers) if givers else None
        assert found.get(key) == (None if share is None else pytest.approx(share))
