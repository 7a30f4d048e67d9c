"""What brokers record is what simulations record, and is measured alike."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from live_world import at_rest, run, until

from shoal.content import AttributeFilter, Attributes, Pattern, Patterns
from shoal.experiments.trees import CLAIMS
from shoal.live import Broker
from shoal.live.settings import Settings
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.measure.live import measured
from shoal.pipeline.report.side_by_side import judged
from shoal.pipeline.tables.live import gather
from shoal.record import SCHEMAS
from shoal.simulation import RunConfig
from shoal.simulation.run import Simulation
from shoal.simulation.workload import WorkloadParameters
from shoal.testing import QUICK, TREE, Network

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ds.dataset(folder / "tables" / table).to_table().to_pylist()
    return found


def test_recordings_of_all_brokers_make_one_run(tmp_path: Path) -> None:
    async def story() -> None:
        async with Network(5, shape="tree", record=tmp_path / "logs", rotate=0.2) as network:
            ends = [
                network.brokers[n].listen_to(AttributeFilter("x > 0"), lambda event: None)
                for n in (1, 3, 4)
            ]
            await network.settled()
            for n in range(10):
                network.brokers[n % 5].publish({"x": n})
                await asyncio.sleep(0.03)
            ends[0]()
            await network.settled()
            network.brokers[0].publish({"x": 5})
            await until(lambda: at_rest(network.brokers), "all that was sent has arrived")

    run(story())
    for table in ("publications", "deliveries", "traffic", "links", "notes"):
        files = sorted((tmp_path / "logs" / "tables" / table).glob("*.parquet"))
        assert len(files) >= 5
        assert pq.read_schema(files[0]).equals(SCHEMAS[table])
    (live,) = gather([tmp_path / "logs"], tmp_path / "out")
    assert live.run_id == "live"
    publications = rows(tmp_path / "out", "publications")
    assert [p["owed"] for p in publications] == [0, *[3] * 9, 2]
    assert [p["received"] for p in publications] == [0, *[3] * 9, 2]
    assert all(d["wanted"] for d in rows(tmp_path / "out", "deliveries"))
    links = rows(tmp_path / "out", "links")
    assert sorted((r["a"], r["b"]) for r in links if r["change"] == "up") == [
        (0, 1), (0, 2), (1, 3), (1, 4)
    ]  # fmt: skip
    (summary,) = rows(tmp_path / "out", "runs")
    assert summary["nodes"] == 5
    events = sum(r["count"] for r in rows(tmp_path / "out", "traffic") if r["kind"] == "event")
    assert summary["messages"] > events > 9


def test_claims_on_trees_are_judged_on_a_recording(tmp_path: Path, spark: SparkSession) -> None:
    """A broker with children leaves; the rest are one tree when all are stopped."""

    async def story() -> None:
        async with Network(
            8, record=tmp_path / "logs", rotate=0.2, overlay={"max_degree": 3}
        ) as network:
            first = network.brokers[0]
            await first.drain()
            network.brokers.remove(first)
            await network.settled()

    run(story())
    rows = measured(spark, [tmp_path / "logs"], tmp_path / "out", ["nodes_up"], CLAIMS[:3])
    verdicts = {found.claim.id: found.verdict for found in judged(rows, CLAIMS[:3])}
    assert rows[0].values["nodes_up"] in (7, 8)  # it left just now
    assert verdicts == {"T9-a": "reproduced", "T10.1-c": "reproduced", "T10.4-p": "reproduced"}


def test_a_full_disk_stops_the_recording_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full = True
    write = pq.write_table

    def writing(*arguments: Any, **options: Any) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(*arguments, **options)

    monkeypatch.setattr(pq, "write_table", writing)

    async def story() -> None:
        nonlocal full
        async with Network(2, record=tmp_path, rotate=0.1) as network:
            got: list[Any] = []
            network.brokers[1].listen_to(AttributeFilter("x > 0"), got.append)
            await network.settled()
            broker = network.brokers[0]
            await until(lambda: "failing" in broker.status().recording, "it is said in the status")
            broker.publish({"x": 1})
            await until(lambda: len(got) == 1, "routing goes on")
            full = False
            await until(lambda: broker.status().recording == "on", "and recording, when it can")

    run(story())
    assert caplog.text.count("No space left on device; rows are dropped") == 2
    assert "recording works again" in caplog.text
    assert not list(tmp_path.rglob("*.partial"))


def test_a_really_full_disk(tmp_path: Path) -> None:
    """/dev/full takes the place of a file."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")

    async def story() -> None:
        async with Broker(Settings(record=tmp_path, rotate=0.1)) as broker:
            assert broker.recording is not None
            folder = tmp_path / "tables" / "notes"
            folder.mkdir(parents=True)
            for number in range(1, 50):
                name = f".{broker.recording._stem}-{number:06}.parquet.partial"
                (folder / name).symlink_to("/dev/full")
            await until(lambda: "No space left" in broker.status().recording, "it is said")

    run(story())


def test_folders_without_recordings_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="nothing is recorded in"):
        gather([tmp_path], tmp_path / "out")


SCENARIO = RunConfig(
    nodes=30,
    seed=7,
    duration=3.0,
    topology={"name": "static-graph", "degree": 4},
    routing={"name": "semi-probabilistic", "horizon": 1, "threshold": 0.3},
    workload=WorkloadParameters(
        patterns=20, publish_rate=5.0, own_events=True, publish_window=(1.0, 3.0)
    ),
    record=("publications", "deliveries", "traffic", "routes", "links"),
)


@pytest.mark.spark
def test_one_scenario_in_two_worlds(tmp_path: Path, spark: SparkSession) -> None:
    """30 nodes, the same graph, subscriptions, events and seed: simulated, and on sockets."""
    _simulated(SCENARIO, tmp_path / "simulated")
    run(_live(tmp_path / "logs"))
    names = ["delivery", "messages_per_event", "receivers", "route_length"]
    folders = [tmp_path / "simulated", tmp_path / "logs"]
    first, second = measured(spark, folders, tmp_path / "out", names)
    assert second.run == "live"
    assert 0.3 < first.values["delivery"] < 0.99  # a scenario in which chance matters
    for name in names:
        assert second.values[name] == pytest.approx(first.values[name], rel=0.05), name


TREE_SCENARIO = RunConfig(
    nodes=8,
    duration=30.0,
    seed=2,
    topology={"name": "full-mesh", "joining": 1.0, "notice": 0.1, "crashes": [[15.0, 0]]},
    overlay={"name": "lstree"},
    routing={"name": "subscription-forwarding"},
    reconfiguration={"name": "timed", "unsubscription_timer": 1.5},
    workload=WorkloadParameters(
        subscribers=1.0, patterns=8, patterns_per_subscriber=2, publish_window=(5.0, 14.0)
    ),
    record=("publications", "deliveries", "traffic", "links", "notes"),
)
"""Eight nodes form a tree; the first one crashes, and its children find other parents."""


def test_a_live_tree_stands_beside_a_simulated_one(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same Spark code measures both: no cycle, all delivered; one page shows both."""
    from shoal.pipeline.report.side_by_side import OVER_TIME, side_by_side

    # The root stops a second before the run is over, and is not to be taken for a part of that.
    monkeypatch.setattr("shoal.pipeline.tables.live.CLOSING", 0.0)

    _simulated(TREE_SCENARIO, tmp_path / "simulated")
    run(_live_tree(tmp_path / "logs"))
    names = ["delivery", "parent_cycles", "mean_repair_delay", "greatest_degree", *OVER_TIME]
    folders = [tmp_path / "simulated", tmp_path / "logs"]
    rows_ = measured(spark, folders, tmp_path / "out", names)
    for row in rows_:
        assert row.values["delivery"] == 1.0, row.run
        assert row.values["parent_cycles"] == 0, row.run
        assert 2 <= row.values["greatest_degree"] <= 5, row.run
        assert row.values["mean_repair_delay"] > 0, row.run
    page = side_by_side(rows_, names, tmp_path / "out", ["shoal", "report"]).read_text()
    for row, kind in zip(rows_, ("simulated", "live"), strict=True):
        assert row.planned.variant.startswith(f"{kind}: ")
        assert "lstree" in row.planned.variant
        assert row.planned.variant in page
    assert page.count("<svg") >= len(names)


async def _live_tree(logs: Path) -> None:
    silence = {"heartbeat": 20.0}  # nobody is suspected in vain
    async with Network(8, record=logs, rotate=0.2, overlay=silence, heartbeat=20.0) as network:
        for n, broker in enumerate(network.brokers):
            broker.listen_to(AttributeFilter(f"x = {n % 4}"), lambda event: None)
        await network.settled()
        for n in range(40):
            network.brokers[n % 8].publish({"x": n % 5})
        await until(lambda: at_rest(network.brokers), "all that was sent has arrived")
        await network.brokers.pop(0).stop()  # the root, and others' parent
        await network.settled()


def _simulated(scenario: RunConfig, folder: Path) -> None:
    """Simulate a scenario and keep its tables."""
    from shoal.pipeline.tables.store import Store
    from shoal.simulation.config import canonical_json
    from shoal.simulation.run import simulate

    simulated = simulate(scenario)
    store = Store(folder)
    store.prepare()
    store.write(
        simulated.run_id,
        simulated.tables,
        {
            "run_id": simulated.run_id,
            "seed": scenario.seed,
            "configuration": canonical_json(scenario),
            "status": "done",
            "nodes": simulated.nodes,
            "messages": simulated.messages,
        },
    )


async def _live(logs: Path) -> None:
    """The scenario's workload on brokers, linked as its graph is."""
    plan = Simulation(SCENARIO)
    brokers: list[Broker] = []
    for node in range(SCENARIO.nodes):
        links = tuple(
            brokers[min(edge)].address for edge in plan.topology.links if max(edge) == node
        )
        settings = Settings(
            name=str(node),
            overlay=TREE["overlay"],
            links=links,
            routing=SCENARIO.routing,
            seed=SCENARIO.seed,
            record=logs,
            **QUICK,
        )
        broker = Broker(settings)
        broker._sequence = 0  # chance is drawn from events' numbers: the same draws
        brokers.append(await broker.start())
    total = 2 * len(plan.topology.links)
    await until(lambda: sum(len(b.links) for b in brokers) == total, "linked")
    for _, node, pattern, subscribe in plan.workload.subscriptions:
        if subscribe:
            brokers[node].listen_to(pattern, lambda event: None)
    await until(lambda: at_rest(brokers), "subscriptions have arrived")
    for at in range(len(plan.workload.times)):
        publisher = brokers[int(plan.workload.publishers[at])]
        publisher.publish(Patterns(plan.workload.content(at)))
        if at % 5 == 4:
            await asyncio.sleep(0.01)
    await until(lambda: at_rest(brokers), "events have arrived")
    await asyncio.gather(*(broker.stop() for broker in brokers))


def test_contents_of_both_models_are_recorded(tmp_path: Path) -> None:
    async def story() -> None:
        async with Network(1, record=tmp_path / "logs", **TREE) as network:
            broker = network.brokers[0]
            broker.listen_to(Pattern(3), lambda event: None)
            broker.publish(Patterns((3, 4)))
            broker.publish(Patterns((4, 5)))
            broker.publish(Attributes({"x": 1}))

    run(story())
    gather([tmp_path / "logs"], tmp_path / "out")
    assert [p["owed"] for p in rows(tmp_path / "out", "publications")] == [1, 0, 0]
