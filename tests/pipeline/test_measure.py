"""Measures against what the recorded rows say when counted by hand."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from shoal.experiments.frey_scenarios import EXPERIMENTS
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.measure import compute
from shoal.pipeline.measure.compute import every_measure, measure_all, to_rows
from shoal.pipeline.measure.registry import Aggregate, Frame, Question, find_measure
from shoal.pipeline.plan.experiment import Experiment, merge, plan, plan_frame
from shoal.pipeline.tables.dataframes import spark_schema
from shoal.record import SCHEMAS, TABLES
from shoal.simulation import RunConfig, parse_config, simulate
from shoal.simulation.result import run_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def chosen(*labels: str) -> dict[str, Mapping[str, Any]]:
    """Protocols by label."""
    return {label: EXPERIMENTS["default"].variants[label] for label in labels}


SMALL = Experiment(
    "small",
    "Small",
    merge(
        EXPERIMENTS["default"].base,
        {
            "nodes": 30,
            "duration": 5.0,
            "topology": {"window": [3.0, 4.0], "rate": 4.0},
            "workload": {"patterns": 20, "patterns_per_subscriber": 3, "publish_rate": 10.0},
            "record": ["traffic", "links", "repairs", "publications", "messages", "notes"],
        },
    ),
    chosen("SM", "TDU"),
    seeds=2,
)
FIGURE_5_4 = EXPERIMENTS["figure-5.4"]


class Ran:
    """Runs simulated here, their rows, and the same as DataFrames."""

    def __init__(self, spark: SparkSession, *experiments: Experiment) -> None:
        self.runs = plan(experiments)
        self.rows: dict[str, dict[str, list[dict[str, Any]]]] = {}
        parts: dict[str, list[pa.Table]] = {name: [SCHEMAS[name].empty_table()] for name in SCHEMAS}
        for run in self.runs:
            config = parse_config(json.loads(run.configuration))
            result = simulate(config)
            row = pa.Table.from_pylist([run_row(config, result, None)], schema=SCHEMAS["runs"])
            self.rows[run.run_id] = {n: t.to_pylist() for n, t in result.tables.items()}
            for name, table in {**result.tables, "runs": row}.items():
                parts[name].append(table)
        self.plan = plan_frame(spark, self.runs)
        self.tables: Mapping[str, DataFrame] = {
            name: spark.createDataFrame(pa.concat_tables(tables)) for name, tables in parts.items()
        }

    def values(self, name: str, **parameters: Any) -> dict[tuple[str, int], float | None]:
        """A measure, called as the pure function it is."""
        rows = find_measure(name)(self.plan, self.tables, **parameters).collect()
        return {(row["variant"], row["seed"]): row["value"] for row in rows}

    def each(self) -> list[tuple[tuple[str, int], dict[str, list[dict[str, Any]]]]]:
        return [((run.variant, run.seed), self.rows[run.run_id]) for run in self.runs]


@pytest.fixture(scope="module")
def ran(spark: SparkSession) -> Ran:
    return Ran(spark, SMALL)


def test_cost_counts_misrouted_events_and_control_since_the_first_change(ran: Ran) -> None:
    found = ran.values("cost_per_rec")
    for key, rows in ran.each():
        late = [t for t in rows["traffic"] if t["time"] >= 3.0 - 1e-6]
        control = sum(t["cost"] for t in late if t["kind"] != "event")
        wasted = sum(t["misrouted"] for t in late if t["kind"] == "event")
        assert found[key] == pytest.approx((control + wasted) / len(rows["repairs"]))
        assert found[key], "there is something to count"


def test_the_first_subscriptions_are_no_overhead(ran: Ran) -> None:
    for key, rows in ran.each():
        all_subscriptions = sum(t["count"] for t in rows["traffic"] if t["kind"] == "sub")
        later = ran.values("kind_count", kinds=["sub"])[key]
        assert later is not None
        assert 0 < later < all_subscriptions


class Noted(dict[str, "DataFrame"]):
    """Tables that remember which of them were asked for."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__((t, spark.createDataFrame([], spark_schema(t))) for t in TABLES)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> DataFrame:
        self.asked.add(name)
        return super().__getitem__(name)


def test_measures_name_the_tables_that_must_be_recorded_for_them(ran: Ran) -> None:
    usual = {"runs", *RunConfig().record}
    frames = [m for m in every_measure() if isinstance(m, Frame) and not isinstance(m, Aggregate)]
    assert len(frames) > 20
    for found in frames:
        tables = Noted(ran.plan.sparkSession)
        found(ran.plan, tables, **{name: ["sub"] for name in found.needed})
        assert tables.asked - usual == set(found.tables) - usual, found.name


def test_variants_are_compared_at_the_same_point_of_the_axis(spark: SparkSession) -> None:
    strawman, timed = chosen("SM", "TDU").values()
    variants = {"A": strawman, "A static": timed}
    swept = replace(SMALL, variants=variants, axis="nodes", values=(10, 20))
    ran = Ran(spark, swept)
    got = {
        (row["variant"], row["x"], row["seed"]): row["value"]
        for row in find_measure("delivery")(ran.plan, ran.tables).collect()
    }
    gains = find_measure("gain")(ran.plan, ran.tables).collect()
    assert len(gains) == 4  # points x seeds
    for row in gains:
        static = got["A static", row["x"], row["seed"]]
        assert row["value"] == pytest.approx(got["A", row["x"], row["seed"]] - static)


def test_repairs_that_cause_no_message_have_no_time_to_settle(spark: SparkSession) -> None:
    forwarding = {"routing": {"name": "event-forwarding"}, "reconfiguration": None}
    small = replace(SMALL, variants={**chosen("SM"), "EF": forwarding}, seeds=1)
    found = Ran(spark, small).values("settle_time")
    assert found["SM", 0] is not None
    assert found["EF", 0] is None


def test_delivery_in_a_span_of_time(ran: Ran) -> None:
    found = ran.values("delivery", since=3.0, until=4.0)
    for key, rows in ran.each():
        events = [p for p in rows["publications"] if 3.0 <= p["time"] < 4.0]
        assert found[key] == pytest.approx(
            sum(p["received"] for p in events) / sum(p["owed"] for p in events)
        )
    assert all(v == 1.0 for v in ran.values("delivery", since=2.0, until=2.9).values())


def test_delivery_over_time_has_the_time_as_its_axis(ran: Ran) -> None:
    rows = find_measure("delivery_over_time")(ran.plan, ran.tables).collect()
    times = sorted({row["x"] for row in rows})
    assert times[0] == 0.0
    assert times[-1] == pytest.approx(4.9)
    for key, recorded in ran.each():
        owed: Counter[int] = Counter()
        received: Counter[int] = Counter()
        for event in recorded["publications"]:
            tenth = int(event["time"] * 10 + 1e-6)
            owed[tenth] += event["owed"]
            received[tenth] += event["received"]
        found = {
            round(row["x"] * 10): row["value"]
            for row in rows
            if (row["variant"], row["seed"]) == key and row["value"] is not None
        }
        assert found == pytest.approx({t: received[t] / owed[t] for t in owed if owed[t]})
        assert min(found.values()) < 1, "the repairs cost deliveries"


def test_overhead_to_goodput_is_over_the_whole_run(ran: Ran) -> None:
    found, spent = ran.values("overhead_to_goodput"), ran.values("overhead")
    for key, rows in ran.each():
        events = [t for t in rows["traffic"] if t["kind"] == "event"]
        useful = sum(t["count"] - t["misrouted"] for t in events)
        assert found[key] == pytest.approx((spent[key] or 0) / useful)


def test_involved_is_a_share_of_all_dispatchers(ran: Ran) -> None:
    found = ran.values("involved")
    for key, rows in ran.each():
        mean = sum(r["involved"] for r in rows["repairs"]) / len(rows["repairs"])
        assert found[key] == pytest.approx(mean / 30)


def test_restored_entries(ran: Ran) -> None:
    found = ran.values("restored_per_rec")
    for key, rows in ran.each():
        starts = sorted(r["broken_at"] for r in rows["repairs"])
        restored = 0
        gone: set[tuple[Any, ...]] = set()
        for note in sorted(rows["notes"], key=lambda n: n["time"]):
            during = sum(note["time"] >= at for at in starts)
            entry = (during, note["node"], note["peer"], note["value"])
            if during and note["what"] == "entry removed":
                gone.add(entry)
            elif during and note["what"] == "entry added" and entry in gone:
                restored += 1
        assert found[key] == pytest.approx(restored / len(starts))


def test_a_run_without_a_row_counts_as_zero_and_a_failed_one_not_at_all(
    spark: SparkSession, ran: Ran
) -> None:
    assert set(ran.values("kind_count", kinds=["nothing"]).values()) == {0.0}
    broken = ran.runs[0]
    runs = ran.tables["runs"]
    from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

    failing = F.when(F.col("run_id") == broken.run_id, "error").otherwise(F.col("status"))
    tables = {**ran.tables, "runs": runs.withColumn("status", failing)}
    seen = find_measure("cost_per_rec")(ran.plan, tables).collect()
    assert len(seen) == len(ran.runs) - 1
    right = find_measure("canonical")(ran.plan, tables).collect()
    assert sorted(row["value"] for row in right) == [0.0, 1.0, 1.0, 1.0]


def test_worked_example_5_4_message_by_message(spark: SparkSession) -> None:
    ran = Ran(spark, replace(FIGURE_5_4, variants=chosen("SM", "ILA")))
    subs, unsubs = (ran.values("kind_count", kinds=[kind]) for kind in ("sub", "unsub"))
    assert (subs["SM", 0], unsubs["SM", 0]) == (2, 1)
    assert ran.values("sent", kind="sub", source=3, target=2)["ILA", 0] == 0
    told = ran.values("sent", kind="activate", source=1, target=3, like="%number=0%")
    assert told == {("SM", 0): 0, ("ILA", 0): 1}


def test_everything_in_one_go_is_everything_one_by_one(ran: Ran) -> None:
    names = ["cost_per_rec", "involved", "canonical", "diameter", "delivery", "misrouted_per_rec"]
    asked = [Question(name, {}, frozenset({"small"})) for name in names]
    asked.append(Question("changes_off_path", {}, frozenset({"small"})))
    rows = list(to_rows(measure_all(ran.plan, ran.tables, asked)))
    assert len(rows) == len(asked) * len(ran.runs)
    for name in names:
        together = {(v, s): value for m, _, v, _, s, value in rows if m == name}
        assert together == ran.values(name)


def test_a_run_of_many_batches_is_measured_as_a_whole(ran: Ran, spark: SparkSession) -> None:
    asked = [Question("changes_off_path", {}, frozenset({"small"}))]
    at_once = measure_all(ran.plan, ran.tables, asked).sort_by("seed").to_pylist()
    most = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(most)
    spark.conf.set(most, "7")
    try:
        parts = measure_all(ran.plan, ran.tables, asked).sort_by("seed").to_pylist()
    finally:
        spark.conf.set(most, before or "")
    assert len(parts) == len(ran.runs)
    assert sorted(map(str, parts)) == sorted(map(str, at_once))


def test_only_the_experiments_asked_for(spark: SparkSession) -> None:
    ran = Ran(spark, replace(FIGURE_5_4, variants=chosen("SM")))
    asked = [Question("cost_per_rec", {}, frozenset({"another"}))]
    assert len(measure_all(ran.plan, ran.tables, asked)) == 0


def test_a_measure_that_fails_is_named_with_the_variant(spark: SparkSession) -> None:
    ran = Ran(spark, replace(FIGURE_5_4, variants=chosen("SM")))
    asked = [Question("settled", {}, frozenset({FIGURE_5_4.name}))]
    with pytest.raises(PipelineError, match=r"failed: 'settled' of variant 'SM': KeyError"):
        measure_all(ran.plan, ran.tables, asked)


def test_mistakes_are_named() -> None:
    with pytest.raises(PipelineError, match="unknown measure 'cost_per_rek'; did you mean"):
        find_measure("cost_per_rek")
    with pytest.raises(PipelineError, match="no parameter 'excluded'"):
        find_measure("cost_per_rec").check({"excluded": []})


def test_every_measure_says_what_it_tells() -> None:
    found = every_measure()
    assert len(found) > 60
    assert len({measure.name for measure in found}) == len(found)
    for measure in found:
        assert measure.summary.endswith((".", ")")), measure
        assert measure.unit, measure


def test_the_end_of_spark_is_told_in_a_line() -> None:
    from py4j.protocol import Py4JError

    def part() -> DataFrame:
        raise Py4JError

    with pytest.raises(PipelineError, match="Spark ended while it measured"):
        compute._answer(part)
