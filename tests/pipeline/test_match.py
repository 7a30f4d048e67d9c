"""Matching on Spark gives exactly the pairs that the reference gives."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException

from shared_data import shared
from shoal.content import AttributeFilter, Attributes
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.match.dataframes import match, match_stream, store
from shoal.pipeline.match.files import match_files
from shoal.simulation.contents import WORKLOADS
from shoal.spark import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Event = dict[str, Any]


def expected(events: list[Event], texts: list[str]) -> set[tuple[int, int]]:
    filters = [AttributeFilter(text) for text in texts]
    return {
        (row, number)
        for row, event in enumerate(events)
        for number, one in enumerate(filters)
        if one.matches(Attributes(event))
    }


def pairs(out: Path) -> set[tuple[Any, int]]:
    table = pq.read_table(out)
    found = list(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))
    assert len(found) == len(set(found))
    return set(found)


def write_subscriptions(path: Path, texts: list[str]) -> Path:
    pq.write_table(pa.table({"id": range(len(texts)), "filter": texts}), path)
    return path


@pytest.mark.parametrize("name", ["W1", "W3", "W4", "dps1"])
def test_a_workload_in_parquet(spark: SparkSession, tmp_path: Path, name: str) -> None:
    workload = WORKLOADS[name]
    texts = list(workload.texts(150 if name == "W4" else 400))
    table = pa.Table.from_batches([workload.events(300)])
    pq.write_table(table, tmp_path / "events.parquet", row_group_size=70)
    found = match_files(
        spark,
        tmp_path / "events.parquet",
        write_subscriptions(tmp_path / "subscriptions.parquet", texts),
        tmp_path / "out",
    )
    reference = expected(table.to_pylist(), texts)
    assert pairs(tmp_path / "out") == reference
    assert (found.events, found.subscriptions, found.matches) == (300, len(texts), len(reference))


def test_frames_with_text_ids_in_several_shards(spark: SparkSession, tmp_path: Path) -> None:
    workload = WORKLOADS["W1"]
    texts = list(workload.texts(300))
    rows = workload.contents(200)
    events = spark.createDataFrame(
        [(f"e{n}", r["symbol"], r["price"], r["volume"]) for n, r in enumerate(rows)],
        "id string, symbol string, price double, volume long",
    )
    subscriptions = spark.createDataFrame(
        [(f"s{n}", text) for n, text in enumerate(texts)], "id string, filter string"
    )
    stored = store(subscriptions, tmp_path / "index", shard=100)
    assert stored.shards == 3
    reference = {(f"e{e}", f"s{s}") for e, s in expected(rows, texts)}
    assert {tuple(r) for r in match(events, stored).collect()} == reference
    counts = {r["event"]: r["matches"] for r in match(events, stored, output="counts").collect()}
    assert len(counts) == 200
    assert sum(counts.values()) == len(reference)


def test_json_and_csv(spark: SparkSession, tmp_path: Path) -> None:
    rows: list[Event] = [
        {"id": n, "kind": "ab" if n % 2 else "5", "size": None if n == 3 else n * 1.5, "ok": n > 4}
        for n in range(20)
    ]
    (tmp_path / "events.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    header = "id,kind,size,ok\n"
    lines = (
        f"{r['id']},{r['kind']},{'' if r['size'] is None else r['size']},{str(r['ok']).lower()}\n"
        for r in rows
    )
    (tmp_path / "events.csv").write_text(header + "".join(lines))
    texts = ["kind = 5", "kind LIKE 'a%' AND size > 9", "NOT EXISTS size", "ok", "size + id > 20"]
    subscriptions = tmp_path / "subscriptions.json"
    subscriptions.write_text(
        "".join(json.dumps({"id": n, "filter": t}) + "\n" for n, t in enumerate(texts))
    )
    for kind in ("json", "csv"):
        match_files(
            spark, tmp_path / f"events.{kind}", subscriptions, tmp_path / kind, event_id="id"
        )
        assert pairs(tmp_path / kind) == expected(rows, texts)


def test_wikipedia_edits(spark: SparkSession, tmp_path: Path) -> None:
    source = shared("data/wikipedia-edits/edits.json.gz")
    if source is None:
        pytest.skip("the edits are not here")
    with gzip.open(source, "rt") as file:
        rows = [json.loads(next(file)) for _ in range(1_000)]
    channels = sorted({row["channel"] for row in rows})
    pages = sorted({row["page"] for row in rows})
    texts = [f"channel = '{channel}' AND delta > {n * 7}" for n, channel in enumerate(channels)]
    texts += [
        f"page LIKE '{page[0]}%' AND added >= 50" for page in pages[::50] if page[0].isalpha()
    ]
    texts += ["isRobot AND NOT isMinor", "isNew OR delta < -500", "EXISTS countryName"]
    texts += ["namespace IN ('Talk', 'User') AND page LIKE '%a%'", "added - deleted != delta"]
    plain = tmp_path / "edits.json"
    plain.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with plain.open("rb") as file, gzip.open(tmp_path / "edits.json.gz", "wb") as target:
        shutil.copyfileobj(file, target)
    subscriptions = write_subscriptions(tmp_path / "subscriptions.parquet", texts)
    match_files(spark, tmp_path / "edits.json.gz", subscriptions, tmp_path / "out")
    assert pairs(tmp_path / "out") == expected(rows, texts)


def test_flights(spark: SparkSession, tmp_path: Path) -> None:
    source = shared("data/adsb-flights/switzerland.csv.gz")
    if source is None:
        pytest.skip("the flights are not here")
    with gzip.open(source, "rt") as file:
        lines = [next(file) for _ in range(1_500)]
    (tmp_path / "flights.csv").write_text("".join(lines))
    frame = spark.read.csv(str(tmp_path / "flights.csv"), header=True, inferSchema=True)
    flights = frame.selectExpr("monotonically_increasing_id() AS id", "* EXCEPT (timestamp)")
    rows = [row.asDict() for row in flights.orderBy("id").collect()]
    texts = [
        f"WITHIN(latitude, longitude, {46 + n % 5 * 0.4}, {6 + n % 7 * 0.6}, {20_000 + 5_000 * n})"
        for n in range(20)
    ]
    texts += [f"altitude BETWEEN {30_000 + 400 * n} AND {31_000 + 400 * n}" for n in range(20)]
    texts += [f"callsign LIKE '{prefix}%'" for prefix in ("SWR", "EZY", "BAW", "TOM", "DLH")]
    texts += ["groundspeed > 450 AND track < 180", "vertical_rate != 0"]
    subscriptions = spark.createDataFrame(list(enumerate(texts)), "id long, filter string")
    found = {tuple(row) for row in match(flights, subscriptions, folder=tmp_path / "i").collect()}
    assert found == {(rows[row]["id"], number) for row, number in expected(rows, texts)}


def test_a_stream_with_changing_subscriptions(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "events"
    source.mkdir()
    current: list[tuple[int, str]] = [(1, "a > 2")]
    found: list[tuple[int, int]] = []

    def subscriptions() -> DataFrame:
        return spark.createDataFrame(current, "id long, filter string")

    def sink(matches: DataFrame, number: int) -> None:
        found.extend((row["event"], row["subscription"]) for row in matches.collect())

    events = spark.readStream.schema("id long, a long").json(str(source))
    writer = match_stream(events, subscriptions, sink, tmp_path / "indexes")

    def publish(number: int, *values: int) -> Iterator[None]:
        (source / f"{number}.json").write_text(
            "".join(json.dumps({"id": number * 10 + v, "a": v}) + "\n" for v in values)
        )
        query = (
            writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(60)
        yield

    list(publish(1, 1, 2, 3))
    assert found == [(13, 1)]
    current.append((2, "a = 1"))
    list(publish(2, 1, 3))
    assert sorted(found[1:]) == [(21, 2), (23, 1)]
    del current[0]
    list(publish(3, 1, 3))
    assert found[3:] == [(31, 2)]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, "a > 2"), (2, "a >")], "subscription 2: filter, character"),
        ([(1, "a > 2"), (1, "b > 2")], "subscription 1 is there 2 times"),
        ([(1, "a > 2"), (2, None)], "subscription 2 has no filter"),
        ([(None, "a > 2")], "a subscription has no id"),
        ([(1, "nosuch(a) = 2")], "subscription 1: "),
    ],
)
def test_bad_subscriptions_are_named(
    spark: SparkSession, tmp_path: Path, rows: list[Any], message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        store(spark.createDataFrame(rows, "id long, filter string"), tmp_path)


def test_bad_events_are_named(spark: SparkSession, tmp_path: Path) -> None:
    subscriptions = spark.createDataFrame([(1, "a > 2")], "id long, filter string")
    stored = store(subscriptions, tmp_path / "index")
    with pytest.raises(PipelineError, match="no column 'id'"):
        match(spark.createDataFrame([(1,)], "a long"), stored)
    with pytest.raises(PipelineError, match="column 'a' of the events holds array"):
        match(spark.sql("SELECT 1 AS id, array(1) AS a"), stored)
    with pytest.raises(PipelineError, match="unknown output 'both'; give 'pairs' or 'counts'"):
        match(subscriptions, stored, output="both")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(TypeError, match="must be a DataFrame"):
        match(subscriptions, "index")  # type: ignore[arg-type]  # on purpose
    ids = tmp_path / "index" / "00000" / "ids.npy"
    with pytest.raises(PipelineError, match="holds no data or several formats"):
        match_files(spark, tmp_path, ids, tmp_path / "o")
    with pytest.raises(PipelineError, match="no known format"):
        match_files(spark, ids, ids, tmp_path / "o")
    with pytest.raises(PipelineError, match="does not exist"):
        match_files(spark, tmp_path / "none.json", tmp_path / "none.json", tmp_path / "p")


def test_files_that_disagree_on_a_columns_type(spark: SparkSession, tmp_path: Path) -> None:
    """Each file is read by its own types, as the reference reads its values."""
    events = tmp_path / "events"
    events.mkdir()
    parts: list[dict[str, list[Any]]] = [
        {"a": [1, 5, None], "id": [0, 1, 2]},
        {"a": ["5", "x", "05"], "id": [3, 4, 5]},
        {"a": [5.0, float("nan"), 0.5], "id": [6, 7, 8]},
        {"b": [True, False, None], "id": [9, 10, 11]},
    ]
    rows: list[Event] = []
    for number, part in enumerate(parts):
        pq.write_table(pa.table(part), events / f"{number}.parquet")
        rows += pa.table(part).to_pylist()
    texts = [
        "a = 5",
        "a = '5'",
        "a > 0.4",
        "a LIKE '%5'",
        "NOT EXISTS a",
        "b",
        "EXISTS b AND NOT b",
    ]
    subscriptions = write_subscriptions(tmp_path / "subscriptions.parquet", texts)
    match_files(spark, events, subscriptions, tmp_path / "out", event_id="id")
    assert pairs(tmp_path / "out") == expected(rows, texts)


def test_a_type_in_a_later_file_is_named_by_its_row(spark: SparkSession, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    pq.write_table(pa.table({"a": [1, 2], "id": [0, 1]}), events / "0.parquet")
    pq.write_table(pa.table({"a": [[1], [2]], "id": [2, 3]}), events / "1.parquet")
    subscriptions = write_subscriptions(tmp_path / "subscriptions.parquet", ["a > 1"])
    with pytest.raises(PipelineError, match=r"column 'a' of the events holds list.* from row 2 on"):
        match_files(spark, events, subscriptions, tmp_path / "out")
    pq.write_table(pa.table({"a": [1, 2], "id": ["x", "y"]}), events / "1.parquet")
    with pytest.raises(PipelineError, match=r"'id' .* int64 in 0.parquet and string from row 2 on"):
        match_files(spark, events, subscriptions, tmp_path / "out2", event_id="id")


def test_one_large_row_group_is_split(spark: SparkSession, tmp_path: Path) -> None:
    """Skew: a file of one row group keeps all cores busy, and rows keep their numbers."""
    count = 300_000
    values = [number % 1_000 for number in range(count)]
    pq.write_table(pa.table({"a": values}), tmp_path / "events.parquet", row_group_size=count)
    subscriptions = write_subscriptions(tmp_path / "s.parquet", ["a = 17", "a BETWEEN 500 AND 501"])
    found = match_files(spark, tmp_path / "events.parquet", subscriptions, tmp_path / "out")
    assert found.events == count
    assert len(list((tmp_path / "out").glob("*.parquet"))) > 1
    assert pairs(tmp_path / "out") == {
        (row, int(value != 17)) for row, value in enumerate(values) if value in (17, 500, 501)
    }


def test_csv_as_the_rest_of_the_world_writes_it(spark: SparkSession, tmp_path: Path) -> None:
    events = tmp_path / "events.csv"
    events.write_text(
        "room,note,when,big\r\n"
        'lab1,"says ""hot"", twice",2026-11-17T08:30:00Z,36893488147419103232\r\n'
        'lab2,"two\nlines, one value",2026-11-18T00:00:00Z,1\r\n'
        "lab3,too,many,values,here\r\n"
    )
    texts = [
        "note = 'says \"hot\", twice'",
        "note LIKE 'two%'",
        "`when` LIKE '2026-11-17%'",
        "big > 2.0e19",
    ]
    subscriptions = write_subscriptions(tmp_path / "subscriptions.parquet", texts)
    found = match_files(spark, events, subscriptions, tmp_path / "out", event_id="room")
    assert pairs(tmp_path / "out") == {("lab1", 0), ("lab2", 1), ("lab1", 2), ("lab1", 3)}
    assert (found.events, found.malformed) == (2, 1)


def test_json_with_dots_broken_lines_and_other_cases(spark: SparkSession, tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    lines = [{"id": 1, "user.name": "ann", "Speed": 5}, {"id": 2, "user.name": "bob", "Speed": 9}]
    events.write_text("\n".join([*map(json.dumps, lines), '{"id": 3, "user.na', ""]))
    texts = ["`user.name` = 'ann'", "speed > 7", "`Speed` > 7", "colour = 'red'"]
    subscriptions = write_subscriptions(tmp_path / "subscriptions.parquet", texts)
    found = match_files(spark, events, subscriptions, tmp_path / "out", event_id="id")
    assert pairs(tmp_path / "out") == {(1, 0), (2, 2)}
    assert found.malformed == 1
    asked = "\n".join(found.hints)
    assert "'colour'" in asked
    assert "there is 'Speed', but filters read names in lower case" in asked


@pytest.mark.parametrize(
    ("name", "text", "events", "malformed"),
    [
        ("empty.csv", "", 0, 0),
        ("head.csv", "room,note\n", 0, 0),
        ("other.csv", "room,note\nlab,dry\nlab\n", 1, 1),
        ("empty.json", "", 0, 0),
        ("broken.json", "no JSON\n", 0, 1),
    ],
)
def test_files_without_rows_or_without_what_filters_ask_for(
    spark: SparkSession, tmp_path: Path, name: str, text: str, events: int, malformed: int
) -> None:
    (tmp_path / name).write_text(text)
    subscriptions = write_subscriptions(tmp_path / "subscriptions.parquet", ["speed > 7"])
    found = match_files(spark, tmp_path / name, subscriptions, tmp_path / "out")
    assert (found.events, found.matches, found.malformed) == (events, 0, malformed)
    assert pairs(tmp_path / "out") == set()


def test_no_match_at_all_leaves_a_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    subscriptions = write_subscriptions(tmp_path / "subscriptions.parquet", ["speed > 7"])
    slow, none = tmp_path / "slow.parquet", tmp_path / "none.parquet"
    rows = pa.table({"name": ["a"], "speed": [1]})
    pq.write_table(rows, slow)
    pq.write_table(rows.slice(1), none)
    match_files(spark, slow, subscriptions, tmp_path / "pairs", event_id="name")
    read = spark.read.parquet(str(tmp_path / "pairs"))
    assert read.dtypes == [("event", "string"), ("subscription", "bigint")]
    assert read.count() == 0
    match_files(spark, none, subscriptions, tmp_path / "counts", output="counts")
    assert pq.read_table(tmp_path / "counts").schema.names == ["event", "matches"]


def test_subscriptions_without_a_row_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("speed\n8\n")
    (tmp_path / "none.csv").write_text("")
    with pytest.raises(PipelineError, match="no column 'id'; the file is empty or has no rows"):
        match_files(spark, tmp_path / "events.csv", tmp_path / "none.csv", tmp_path / "out")
    with pytest.raises(PipelineError, match=r"no column 'it'; there are: speed$"):
        match_files(
            spark,
            tmp_path / "events.csv",
            write_subscriptions(tmp_path / "subscriptions.parquet", ["speed > 7"]),
            tmp_path / "out",
            event_id="it",
        )


def test_times_and_dates_in_parquet(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime.datetime(2026, 11, 17, 8, 30, 0, 250_000, datetime.UTC)
    table = pa.table(
        {
            "at": pa.array([at], pa.timestamp("us", "UTC")),
            "day": pa.array([at.date()]),
            "price": pa.array([decimal.Decimal("2.50")]),
        }
    )
    pq.write_table(table, tmp_path / "events.parquet")
    texts = ["at = '2026-11-17T08:30:00.25Z'", "day = '2026-11-17'", "price = 2.5", "price > 3"]
    subscriptions = write_subscriptions(tmp_path / "subscriptions.parquet", texts)
    match_files(spark, tmp_path / "events.parquet", subscriptions, tmp_path / "out")
    assert pairs(tmp_path / "out") == {(0, 0), (0, 1), (0, 2)}


def test_what_fails_leaves_no_folder(spark: SparkSession, tmp_path: Path) -> None:
    bad = write_subscriptions(tmp_path / "subscriptions.parquet", ["x >"])
    pq.write_table(pa.table({"x": [1]}), tmp_path / "events.parquet")
    with pytest.raises(PipelineError):
        match_files(spark, tmp_path / "events.parquet", bad, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_function_of_sql(spark: SparkSession) -> None:
    register(spark)
    rows = spark.sql(
        "SELECT shoal_matches(f, struct(x, room)) AS ok FROM VALUES "
        "('x > 1', 2, 'lab'), ('room LIKE ''k%''', 2, 'lab'), (NULL, 2, 'lab') AS t(f, x, room)"
    ).collect()
    assert [row["ok"] for row in rows] == [True, False, None]


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        ("shoal_matches('x >', struct(x))", "shoal.content.language.limits.FilterError: "),
        ("shoal_matches('x > 1', x)", "TypeError: shoal_matches takes a filter as text and an"),
        ("shoal_matches(x, struct(x))", "TypeError: shoal_matches takes a filter as text and an"),
    ],
)
def test_a_mistake_in_the_function_of_sql_is_an_error_without_traceback(
    spark: SparkSession, call: str, cause: str
) -> None:
    register(spark)
    with pytest.raises(PythonException) as raised:
        spark.sql(f"SELECT {call} FROM VALUES (2) AS t(x)").collect()
    assert cause in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_the_function_of_sql_reads_times_dates_and_decimals_as_matching_does(
    spark: SparkSession,
) -> None:
    register(spark)
    at = "timestamp'2026-11-17 08:30:00.25+00:00'"
    row = f"struct({at} AS at, date'2026-11-17' AS day, 2.50 AS price)"
    for text in ("at = '2026-11-17T08:30:00.25Z'", "day = '2026-11-17'", "price = 2.5"):
        quoted = text.replace("'", "''")
        assert spark.sql(f"SELECT shoal_matches('{quoted}', {row}) AS ok").collect()[0]["ok"], text
