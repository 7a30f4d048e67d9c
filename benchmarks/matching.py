"""Events matched per CPU-second: Shoal beside a naive loop, polars, duckdb and a Spark SQL join.

Four workloads (see shoal.simulation.contents): W1 stock quotes, W2 two numbers with wide ranges, W3
three numbers, W4 fifty attributes with every operator. All systems answer the same question, which
subscriptions match which events, and must find the same number of pairs. Shoal is measured from an
Arrow record batch to ids in memory, and for single events from a dict; the joins from tables in
memory to the joined ids, counted. W4 is beyond a join of ranges and is left to Shoal and the loop.

CPU time of one core; the best of a few repeats, since other work on the machine only ever adds.
The keys are ``WORKLOAD_SIZE_MEASURE``; docs/matching.md lists the measures.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.content.index import MatchIndex, single, warm_up
from shoal.content.normal import NormalForm, Number, Text
from shoal.simulation.contents import WORKLOADS, ContentWorkload

NAMES = ("W1", "W2", "W3", "W4")
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """All measurements."""
    warm_up()
    sizes = SIZES[:3] if quick else SIZES
    found: dict[str, float] = {}
    for figures in _measured(sizes, quick):
        found |= figures
        yield figures
    yield _ratios(found)


def _measured(sizes: Sequence[int], quick: bool) -> Iterator[dict[str, float]]:
    for name in NAMES:
        for size in sizes:
            index, figures = _shoal(name, size, quick)
            yield figures
            if size <= 100_000:
                yield _peers(name, size, index, quick)
            if name == "W1" and size == sizes[-1]:
                yield _updates(name, size, index, quick)
    if not quick:
        yield _on_spark()


def _ratios(found: dict[str, float]) -> dict[str, float]:
    """How many times as fast Shoal is as each peer."""
    ratios = {}
    for key, rate in found.items():
        name, size, peer, *_ = key.split("_", 3)
        own = found.get(f"{name}_{size}_events_per_cpu_second", 0.0)
        if peer in ("naive", "duckdb", "polars", "spark") and own and rate:
            peer = "spark_sql" if peer == "spark" else peer
            ratios[f"{name}_{size}_times_{peer}"] = own / rate
    return ratios


def _best(task: Callable[[], Any], repeats: int) -> float:
    """CPU seconds of the fastest repeat."""
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        begin = time.process_time()
        task()
        best = min(best, time.process_time() - begin)
    return best


def _label(name: str, size: int) -> str:
    return f"{name}_{size // 1000}k" if size < 1_000_000 else f"{name}_{size // 1_000_000}M"


def _built(workload: ContentWorkload, size: int) -> tuple[MatchIndex, float]:
    """An index and the CPU seconds it took, the drawing of filters not counted."""
    index, seconds = MatchIndex(), 0.0
    forms = workload.forms(size)

    def drawn() -> Iterator[NormalForm]:
        nonlocal seconds
        while True:
            begin = time.process_time()
            form = next(forms, None)
            seconds -= time.process_time() - begin
            if form is None:
                return
            yield form

    begin = time.process_time()
    index.insert_many(drawn())
    return index, seconds + time.process_time() - begin


def _shoal(name: str, size: int, quick: bool) -> tuple[MatchIndex, dict[str, float]]:
    workload, label = WORKLOADS[name], _label(name, size)
    index, seconds = _built(workload, size)
    sample = workload.events(500)
    expected = len(index.match_batch(sample).ids) / 500

    def sampled() -> None:
        for _ in index.stream(sample):
            pass

    events = int(500 / _best(sampled, 3) * (0.5 if quick else 1.5))
    batch = workload.events(max(500, min(events, 200_000)))
    events = batch.num_rows

    def batched() -> None:
        for _ in index.stream(batch):
            pass

    batched()
    repeats = 3 if quick else 5
    result = {
        f"{label}_events_per_cpu_second": events / _best(batched, repeats),
        f"{label}_matches_per_event": expected,
        f"{label}_bytes_per_subscription": index.nbytes / size,
        f"{label}_build_us_per_subscription": seconds / size * 1e6,
    }
    contents = workload.contents(min(events, 5_000))

    def one_by_one() -> None:
        for event in contents:
            index.match_ids(event)

    extension = single.match, single.quick
    for way in ("extension", "numba") if single.match is not None else ("numba",):
        single.match, single.quick = extension if way == "extension" else (None, None)
        one_by_one()
        result[f"{label}_single_events_per_cpu_second_{way}"] = len(contents) / _best(
            one_by_one, repeats
        )
    single.match, single.quick = extension
    return index, result


def _updates(name: str, base: int, index: MatchIndex, quick: bool) -> dict[str, float]:
    """Insertions into a full index and removals, one by one: mean and longest.

    The mean is of one half of them, the longest of the other: looking at the clock each time would
    take a good part of what a removal does.
    """
    more = 20_000 if quick else 200_000
    forms = list(replace(WORKLOADS[name], seed=2).forms(more))
    index.match_ids({"symbol": "S1"})
    gc.collect()
    gc.disable()
    insertion, slowest = _each(index.insert, forms)
    chosen = np.random.default_rng(1).permutation(base)[:more].tolist()
    removal, slowest_removal = _each(index.remove, chosen)
    gc.enable()
    label = _label(name, base)
    return {
        f"{label}_insert_us": insertion * 1e6,
        f"{label}_longest_insert_ms": slowest * 1e3,
        f"{label}_remove_us": removal * 1e6,
        f"{label}_longest_remove_ms": slowest_removal * 1e3,
    }


def _each(change: Callable[[Any], object], items: list[Any]) -> tuple[float, float]:
    """Mean CPU seconds of a change, and the longest that one took."""
    half = len(items) // 2
    begin = time.process_time()
    for item in items[:half]:
        change(item)
    mean = (time.process_time() - begin) / half
    longest = 0.0
    for item in items[half:]:
        start = time.perf_counter()
        change(item)
        longest = max(longest, time.perf_counter() - start)
    return mean, longest


# Peers


def _columns(workload: ContentWorkload, size: int) -> tuple[pa.Table, list[str], list[str]]:
    """Subscriptions as a table of bounds; names of the text and of the number attributes."""
    rows: dict[str, list[Any]] = {"subscription": list(range(size))}
    texts: list[str] = []
    numbers: list[str] = []
    for form in workload.forms(size):
        (conjunction,) = form.disjuncts
        for predicate in conjunction.predicates:
            name = predicate.attribute
            if isinstance(predicate, Number):
                if f"{name}_low" not in rows:
                    numbers.append(name)
                rows.setdefault(f"{name}_low", []).append(float(predicate.low))
                rows.setdefault(f"{name}_high", []).append(float(predicate.high))
            elif isinstance(predicate, Text) and predicate.among:
                if f"{name}_is" not in rows:
                    texts.append(name)
                rows.setdefault(f"{name}_is", []).append(predicate.among[0])
    return pa.table(rows), texts, numbers


def _peers(name: str, size: int, index: MatchIndex, quick: bool) -> dict[str, float]:
    workload, label = WORKLOADS[name], _label(name, size)
    forms = list(workload.forms(min(size, 10_000)))
    contents = workload.contents(10 if size >= 10_000 else 50)

    def loop() -> int:
        return sum(form.matches(event) for event in contents for form in forms)

    result = {
        f"{label}_naive_events_per_cpu_second": len(contents) / _best(loop, 1) * (len(forms) / size)
    }
    if name == "W4":
        return result
    subscriptions, texts, numbers = _columns(workload, size)
    share = len(index.match_batch(workload.events(200)).ids) / 200
    count = int(min(5_000, max(20, 4e6 / max(share, 1), 2e7 / size)))
    count = count // 4 or 1 if quick else count
    events = pa.Table.from_batches([workload.events(count)])
    expected = len(index.match_batch(events.to_batches()[0]).ids)
    peers: dict[str, Callable[..., int]] = {"duckdb": _duckdb, "polars": _polars}
    for peer, measure in peers.items():
        seconds, pairs = _timed(measure, events, subscriptions, texts, numbers)
        if pairs != expected:
            raise RuntimeError(f"{peer} finds {pairs} pairs on {label}, Shoal {expected}")
        result[f"{label}_{peer}_events_per_cpu_second"] = count / seconds
    return result


def _timed(measure: Callable[..., int], *arguments: Any) -> tuple[float, int]:
    begin = time.process_time()
    pairs = measure(*arguments)
    return time.process_time() - begin, pairs


def _condition(texts: list[str], numbers: list[str]) -> str:
    return " AND ".join(
        [f"e.{n} = s.{n}_is" for n in texts]
        + [f"e.{n} >= s.{n}_low AND e.{n} <= s.{n}_high" for n in numbers]
    )


def _duckdb(events: pa.Table, subscriptions: pa.Table, texts: list[str], numbers: list[str]) -> int:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as database:
        database.register("e", events)
        database.register("s", subscriptions)
        database.execute("CREATE TABLE events AS SELECT row_number() OVER () AS event, * FROM e")
        database.execute("CREATE TABLE subscriptions AS SELECT * FROM s")
        database.execute(
            "CREATE TABLE pairs AS SELECT e.event, s.subscription "
            f"FROM events e JOIN subscriptions s ON {_condition(texts, numbers)}"
        )
        row = database.execute("SELECT count(*) FROM pairs").fetchone()
        return int(row[0]) if row else 0


def _polars(events: pa.Table, subscriptions: pa.Table, texts: list[str], numbers: list[str]) -> int:
    import polars as pl

    left: Any = pl.from_arrow(events).lazy().with_row_index("event")  # type: ignore[union-attr]  # a frame
    right: Any = pl.from_arrow(subscriptions).lazy()  # type: ignore[union-attr]  # a frame
    left = left.with_columns(pl.col(n).cast(pl.Float64) for n in numbers)
    bounds = [
        test
        for n in numbers
        for test in (pl.col(n) >= pl.col(f"{n}_low"), pl.col(n) <= pl.col(f"{n}_high"))
    ]
    joined = (
        left.join(right, left_on=texts, right_on=[f"{n}_is" for n in texts]).filter(*bounds)
        if texts
        else left.join_where(right, *bounds)
    )
    return int(joined.select("event", "subscription").collect().height)


def _on_spark() -> dict[str, float]:
    """Spark SQL's join, and Shoal on Spark with files at both ends, on two cores."""
    import tempfile
    from pathlib import Path

    import pyarrow.parquet as pq

    from shoal.pipeline.match.files import match_files
    from shoal.pipeline.spark.session import spark_session

    result: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, spark_session("local[2]") as spark:
        folder = Path(name)
        for workload_name, count in (("W1", 2_000), ("W2", 200), ("W3", 1_000)):
            workload = WORKLOADS[workload_name]
            table, texts, numbers = _columns(workload, 100_000)
            pq.write_table(table, folder / "s.parquet")
            pq.write_table(pa.Table.from_batches([workload.events(count)]), folder / "e.parquet")
            left = spark.read.parquet(str(folder / "e.parquet")).alias("e")
            right = spark.read.parquet(str(folder / "s.parquet")).alias("s")
            from pyspark.sql import functions as F  # noqa: N812  # Spark's own name for it

            joined = left.join(right, F.expr(_condition(texts, numbers)))
            begin = time.perf_counter()
            joined.agg(F.sum("subscription")).collect()
            seconds = time.perf_counter() - begin
            cores = min(2, os.cpu_count() or 1)
            label = f"{_label(workload_name, 100_000)}_spark_sql_events_per_core_second"
            result[label] = count / seconds / cores
        workload, events = WORKLOADS["W1"], 16_000_000
        filters = pa.table({"id": range(100_000), "filter": list(workload.texts(100_000))})
        pq.write_table(filters, folder / "filters.parquet")
        batch = pa.Table.from_batches([workload.events(events)])
        pq.write_table(batch, folder / "events.parquet", row_group_size=250_000)
        from shoal.pipeline.match.dataframes import store

        subscriptions = spark.read.parquet(str(folder / "filters.parquet"))
        stored = store(subscriptions, folder / "index")
        # Speeds of a shared machine swing within a second: one core and Spark take turns, each for
        # about as long, since the best of short turns is better than that of long ones.
        index, _ = _built(workload, 100_000)
        some = batch.slice(0, events // 2).to_batches(max_chunksize=200_000)
        seconds = alone = float("inf")
        for attempt in range(4):  # the first warms the workers up
            begin = time.process_time()
            for part in some:
                for _ in index.stream(part):
                    pass
            alone = min(alone, time.process_time() - begin)
            out = folder / f"out{attempt}"
            begin = time.perf_counter()
            match_files(spark, folder / "events.parquet", stored, out, output="counts")
            seconds = min(seconds, time.perf_counter() - begin)
        rate, own = events / seconds, sum(part.num_rows for part in some) / alone
        result["W1_100k_on_spark_events_per_second"] = rate
        result["W1_100k_on_spark_times_one_core"] = rate / own
    return result
