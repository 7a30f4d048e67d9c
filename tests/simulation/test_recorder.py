"""What is recorded, against what can be counted from the messages themselves."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.content import Event, Pattern, Patterns
from shoal.overlay.graph_messages import Beat
from shoal.record import SCHEMAS, TABLES
from shoal.routing import Forward
from shoal.simulation import RunResult, Simulation, parse_config, simulate
from shoal.simulation.channels import Channel, Fan
from shoal.simulation.columns import to_tables
from shoal.simulation.kernel import Kernel
from shoal.simulation.oracle import Forest, Oracle
from shoal.simulation.recorder import Recorder
from shoal.simulation.result import run_row
from shoal.simulation.topology import adjacency, distances

EVERYTHING = [table for table in TABLES if table != "runs"]
Row = dict[str, Any]


def config(**changes: Any) -> dict[str, Any]:
    return {
        "nodes": 25,
        "seed": 6,
        "duration": 4.0,
        "topology": {"name": "abstract-tree", "rate": 8.0, "window": [1.5, 3.5]},
        "reconfiguration": {"name": "timed"},  # stale routes stay a while: events go astray
        "workload": {
            "patterns": 20,
            "patterns_per_subscriber": 3,
            "patterns_per_event": 3,
            "subscribers": 0.6,
            "core": 0.5,
            "churn_rate": 2.0,
            "churn_window": [1.0, 3.5],
            "publish_rate": 4.0,
        },
        "record": EVERYTHING,
        **changes,
    }


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    ran = Simulation(parse_config(config()))
    ran.run()
    return ran


@pytest.fixture(scope="module")
def tables(simulation: Simulation) -> dict[str, list[Row]]:
    made = to_tables(simulation.recorder, "r", EVERYTHING)
    return {name: table.to_pylist() for name, table in made.items()}


def test_every_table_has_its_schema(simulation: Simulation) -> None:
    for name, table in to_tables(simulation.recorder, "the run", EVERYTHING).items():
        assert table.schema == SCHEMAS[name]
        table.validate(full=True)
        if name not in ("routes", "air"):  # only graphs leave the one, a medium the other
            assert set(table["run_id"].to_pylist()) == {"the run"}


def test_an_empty_run_has_empty_tables_of_the_same_schema() -> None:
    raw = config(nodes=1, workload={"publish_rate": 0}, topology={"name": "abstract-tree"})
    result = simulate(parse_config(raw))
    for name, table in result.tables.items():
        assert table.schema == SCHEMAS[name]
        assert table.num_rows == 0


def test_traffic_is_the_messages_counted(tables: dict[str, list[Row]]) -> None:
    count: dict[tuple[str, int], int] = defaultdict(int)
    targets: dict[tuple[str, int], set[int]] = defaultdict(set)
    for message in tables["messages"]:
        key = message["kind"], int(round(message["time"] * 1e9) // 100_000_000)
        count[key] += 1
        targets[key].add(message["target"])
    recorded = {(row["kind"], round(row["time"] * 10)): row for row in tables["traffic"]}
    assert len(recorded) == len(tables["traffic"])
    assert {key: row["count"] for key, row in recorded.items()} == count
    for key, row in recorded.items():
        assert row["nodes"] == len(targets[key])
        assert row["cost"] == row["count"]
        assert row["bytes"] == 50 * row["count"]


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(0, 7), min_size=1), st.integers(-1, 7), st.sampled_from("fdb")
        )
    )
)
def test_nodes_that_are_sent_heartbeats_count_once_per_bin(
    sends: list[tuple[set[int], int, str]],
) -> None:
    """To all neighbours, to all but one, out of band, and to the same again."""
    recorder = Recorder(Kernel(), 8, 10**9, [])
    fans: dict[tuple[int, ...], Fan] = {}
    expected: list[int] = []
    reached: set[int] = set()
    for targets, skip, how in sends:
        to = tuple(sorted(targets))
        fan = fans.setdefault(to, Fan([Channel(8, node, None) for node in to]))
        if how == "f":
            at = skip if skip < len(to) else -1
            recorder.sent(fan, at, len(to) - (at >= 0), Beat(1))
            reached |= targets if at < 0 else targets - {to[at]}
        elif how == "d":
            recorder.sent_direct(8, to[0], Beat(1))
            reached.add(to[0])
        elif reached:
            recorder.close_bin()
            expected.append(len(reached))
            reached = set()
    recorder.close_bin()
    expected += [len(reached)] if reached else []
    assert [nodes for *_, nodes in recorder.traffic if nodes] == expected


def subscribers_at(simulation: Simulation, instant: int) -> set[tuple[int, int]]:
    """(node, pattern) of all subscriptions that stand at an instant, its own acts included."""
    held: set[tuple[int, int]] = set()
    for at, node, number, subscribe in simulation.workload.by_number():
        if at > instant:
            break
        (held.add if subscribe else held.discard)((node, number))
    return held


def links_at(tables: dict[str, list[Row]], instant: int) -> list[tuple[int, int]]:
    links: set[frozenset[int]] = set()
    for row in tables["links"]:
        if round(row["time"] * 1e9) > instant:
            break
        pair = frozenset((row["a"], row["b"]))
        (links.add if row["change"] == "up" else links.remove)(pair)
    return [tuple(sorted(pair)) for pair in links]  # type: ignore[misc]  # pairs


def test_misrouted_events_by_brute_force(
    simulation: Simulation, tables: dict[str, list[Row]]
) -> None:
    """An event is misrouted if nobody beyond the link wants it at the instant it is sent."""
    misrouted: dict[int, int] = defaultdict(int)
    for message in tables["messages"]:
        if message["kind"] != "event":
            continue
        instant = round(message["time"] * 1e9)
        found = re.search(r"numbers=\(([^)]*)\)", message["content"])
        assert found is not None
        numbers = {int(n) for n in found[1].split(",") if n.strip()}
        source, target = message["source"], message["target"]
        links = [e for e in links_at(tables, instant) if set(e) != {source, target}]
        beyond = set(distances(adjacency(25, links), target))
        held = subscribers_at(simulation, instant)
        if not any(node in beyond and number in numbers for node, number in held):
            misrouted[instant // 100_000_000] += 1
    recorded = {
        round(row["time"] * 10): row["misrouted"]
        for row in tables["traffic"]
        if row["kind"] == "event" and row["misrouted"]
    }
    assert recorded == misrouted
    assert sum(misrouted.values()) > 20
    assert all(row["misrouted"] == 0 for row in tables["traffic"] if row["kind"] != "event")


@pytest.mark.parametrize(
    ("to", "copies", "misrouted"),
    [((1, 2, 3), 3, 2), ((1, 2, 3), 1, 0), ((2, 3), 1, 1), ((2,), 1, 1), ((), 1, 0)],
)
def test_a_frame_for_several_is_misrouted_if_it_is_so_for_all(
    to: tuple[int, ...], copies: int, misrouted: int
) -> None:
    """Node 1 of a star wants the event; 2 and 3 do not."""
    recorder, forest = Recorder(Kernel(), 4, 10**9, []), Forest(4)
    for node in (1, 2, 3):
        forest.link(0, node, True)
    recorder.oracle, recorder.counts_misrouted = Oracle(forest), True
    recorder.oracle.subscribe(1, Pattern(7))
    event = Event(0, 1, Patterns((7,)))
    recorder.publish(event)
    fan = Fan([Channel(0, node, None) for node in to])
    fan.source = 0
    kind = recorder.sent(fan, -1, copies, Forward(event, 1))
    assert (kind.count, kind.misrouted) == (copies, misrouted)


def test_publications_say_who_was_owed_and_who_received(
    simulation: Simulation, tables: dict[str, list[Row]]
) -> None:
    reached: dict[tuple[int, int], set[int]] = defaultdict(set)
    for row in tables["deliveries"]:
        reached[row["publisher"], row["sequence"]].add(row["node"])
    core = simulation.workload.core
    for event, row in enumerate(tables["publications"]):
        numbers = simulation.workload.content(event)
        held = subscribers_at(simulation, round(row["time"] * 1e9))
        owed = {node for node, number in held if number in numbers}
        got = reached[row["publisher"], row["sequence"]]
        assert row["owed"] == len(owed)
        assert row["received"] == len(owed & got)
        assert row["owed_core"] == len(owed & core)
        assert row["received_core"] == len(owed & got & core)
        assert row["owed_others"] == len(owed - core)
        assert row["received_others"] == len((owed & got) - core)
    totals = [sum(row[c] for row in tables["publications"]) for c in ("owed", "received")]
    assert 0.8 * totals[0] < totals[1] < totals[0], "some are lost in reconfigurations, not many"


def test_deliveries_tell_the_way(simulation: Simulation, tables: dict[str, list[Row]]) -> None:
    published = {(r["publisher"], r["sequence"]): r for r in tables["publications"]}
    seen = set()
    for row in tables["deliveries"]:
        key = row["publisher"], row["sequence"], row["node"]
        assert key not in seen
        seen.add(key)
        delay = row["time"] - published[key[:2]]["time"]
        assert delay >= row["hops"] * 0.00104 - 1e-9
        assert (row["hops"] == 0) == (row["node"] == row["publisher"])
        assert not row["recovered"]
    wanted = sum(row["wanted"] for row in tables["deliveries"])
    assert wanted == sum(row["received"] for row in tables["publications"])


def test_repairs_tell_who_took_part(simulation: Simulation, tables: dict[str, list[Row]]) -> None:
    assert [row["repair"] for row in tables["repairs"]] == list(range(16))
    changes = [row for row in tables["links"] if row["repair"] is not None]
    assert len(changes) == 32
    for row, change in zip(tables["repairs"], simulation.topology.plan, strict=True):
        assert row["broken_at"] == pytest.approx(change.at)
        assert row["replaced_at"] == pytest.approx(change.at + 0.1)
        assert row["path_length"] == len(change.path)
        assert row["involved"] >= len({*change.old, *change.new})
        assert row["last_message_at"] >= row["broken_at"]


def test_repairs_count_the_nodes_that_repair_messages_reach() -> None:
    raw = config(
        topology={
            "name": "abstract-tree",
            "links": [[0, 1], [1, 2], [1, 3], [3, 4], [4, 5]],
            "schedule": [{"at": 1.0, "old": [1, 3], "new": [2, 4]}],
        },
        nodes=6,
        reconfiguration={"name": "strawman"},
        workload={"script": [{"at": 0, "node": 0, "do": "subscribe", "patterns": [1]}]},
    )
    result = simulate(parse_config(raw))
    (row,) = result.tables["repairs"].to_pylist()
    # 3 and 1 lose the link, 3 tells 4, 4 tells 5; 2 and 4 are linked, 4 tells 5 and 3.
    assert row["involved"] == 5
    assert row["last_message_at"] == pytest.approx(1.1 + 0.00104)


def test_notes_follow_the_tables(simulation: Simulation, tables: dict[str, list[Row]]) -> None:
    entries: set[tuple[int, int, str]] = set()
    for note in tables["notes"]:
        entry = note["node"], note["peer"], note["value"]
        if note["what"] == "entry added":
            assert entry not in entries
            entries.add(entry)
        elif note["what"] == "entry removed":
            entries.remove(entry)
    held = {
        (number, source, str(filter))
        for number, node in enumerate(simulation.network.nodes)
        for source, filter in node.routing.table.entries()  # type: ignore[union-attr]  # has one
    }
    assert entries == held


def test_what_is_not_asked_for_is_not_kept() -> None:
    result = simulate(parse_config(config(record=["traffic"])))
    assert list(result.tables) == ["traffic"]
    whole = simulate(parse_config(config()))
    assert whole.tables["traffic"].drop(["run_id"]) == result.tables["traffic"].drop(["run_id"])
    assert whole.fingerprint == result.fingerprint


def test_bins_are_as_wide_as_asked() -> None:
    for width in (0.05, 0.5, 100.0):
        table = simulate(parse_config(config(bin=width, record=["traffic"]))).tables["traffic"]
        times = table["time"].to_pylist()
        assert all(time / width == pytest.approx(round(time / width)) for time in times)
        assert sum(table["count"].to_pylist()) == simulate(parse_config(config())).messages


def test_the_row_of_a_run() -> None:
    done = parse_config(config())
    result: RunResult = simulate(done)
    row = run_row(done, result, None)
    assert row["status"] == "done"
    assert row["messages"] == sum(result.tables["traffic"]["count"].to_pylist())
    assert row["reconfigurations"] == 16
    assert row["canonical"] is True
    failed = run_row(done, None, "it broke")
    assert (failed["status"], failed["error"]) == ("error", "it broke")
    assert row["run_id"] == failed["run_id"] == result.run_id
    table = pa.Table.from_pylist([row, failed], SCHEMAS["runs"])
    assert table.num_rows == 2
    assert set(row) <= set(SCHEMAS["runs"].names)
