"""Churn: models have the figures they promise, recordings are read right, and nodes follow them."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean, median
from typing import Any

import msgspec
import pytest

from shared_data import shared
from shoal.simulation import Simulation, parse_config
from shoal.simulation.churn import Change, Churn, changes
from shoal.simulation.churn_files import read_events, read_sessions
from shoal.simulation.kernel import to_ns
from shoal.simulation.latency import Delays, Latency, Matrix, read_matrix
from shoal.stack import StackError

HOUR = 3600.0


def churn(**keys: Any) -> Churn:
    return msgspec.convert(keys, Churn)  # type: ignore[no-any-return]


def played(model: Churn, nodes: int, seed: int = 1) -> list[Change]:
    """All changes, checked: in order of time, and every node up and down in turn."""
    made = list(changes(model, nodes, seed, 10.0))
    assert [c.at for c in made] == sorted(c.at for c in made)
    up: set[int] = set()
    for change in made:
        assert 0 <= change.node < nodes
        assert (change.what == "start") == (change.node not in up)
        up ^= {change.node}
    return made


def lengths(made: list[Change]) -> list[float]:
    """Of the sessions that started after the beginning, each with its end."""
    since: dict[int, float] = {}
    found = []
    for change in made:
        if change.what == "start":
            since[change.node] = change.at
        elif since[change.node] > 20:
            found.append(change.at - since[change.node])
    return found


def population(made: list[Change], start: float, end: float) -> list[int]:
    """How many nodes are up after each change within an interval."""
    up, found = 0, []
    for change in made:
        up += 1 if change.what == "start" else -1
        if start < change.at < end:
            found.append(up)
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_gnutella_has_its_published_figures(seed: int) -> None:
    made = played(churn(model="gnutella", until=60 * HOUR), 17_125, seed)
    up = population(made, 2 * HOUR, 60 * HOUR)
    assert 1200 < min(up) < 1500
    assert 2500 < max(up) < 2900
    early = [change for change in made if change.at < 40 * HOUR]  # longer ones are cut at 60 h
    started = {change.node for change in early if change.what == "start"}
    assert len(started) > 14_000
    found = lengths(made)
    assert 1.9 < mean(found) / HOUR < 2.4
    assert 0.9 < median(found) / HOUR < 1.05


def test_models_have_their_means_and_shares() -> None:
    made = played(churn(model="exponential", up=0.4, mean=100, until=5000, leaving=0.3), 1000)
    up = population(made, 100, 5000)
    assert 350 < min(up) <= max(up) < 450
    assert 90 < mean(lengths(made)) < 104
    ends = [change.what for change in made if change.what != "start"]
    assert 0.27 < ends.count("leave") / len(ends) < 0.33
    made = played(churn(model="lognormal", up=0.4, mean=100, median=40, until=9000), 1000)
    found = lengths(made)
    assert 85 < mean(found) < 104
    assert 37 < median(found) < 43


def test_a_churn_is_a_function_of_its_seed() -> None:
    model = churn(model="gnutella", until=HOUR)
    assert played(model, 2000, 1) == played(model, 2000, 1) != played(model, 2000, 2)


def test_a_model_may_ask_for_everybody_or_nobody() -> None:
    assert played(churn(model="exponential", up=0.0, until=1000), 10) == []
    made = played(churn(model="exponential", up=1.0, mean=10, until=100), 10)
    assert max(population(made, 0, 100)) == 10


def write(folder: Path, text: str) -> Path:
    path = folder / "churn"
    path.write_text(text)
    return path


def test_recorded_sessions(tmp_path: Path) -> None:
    path = write(tmp_path, "node,start,end\n7,0,50\n3,10,20\n7,60,-1\n3,20,\n")
    assert read_sessions(path) == [(7, 0, 50), (3, 10, 20), (7, 60, math.inf), (3, 20, math.inf)]
    made = played(churn(model="recorded", file=str(path), start=15), 2)
    assert [(c.at, c.node, c.what) for c in made if c.at >= 5 and c.what != "start"] == [
        (5, 1, "crash"),
        (35, 0, "crash"),
    ]
    assert [c.node for c in made if c.what == "start"] == [0, 1, 1, 0]


def event(node: int, type: int, start: float, stop: float) -> str:
    return f"1\t1\t{node}\t1\thost{node}\t{type}\t{start}\t{stop}\tNULL"


def test_events_of_the_failure_trace_archive(tmp_path: Path) -> None:
    lines = [
        "# event_id\tcomponent_id\t…",
        event(4, 1, 1000.0, 1010.0),
        event(4, 0, 1010.0, 1020.0),
        event(4, 1, 1020.0, 1030.0),
        event(4, 1, 1030.0, 1035.0),
        event(9, 1, 1005.0, 1006.0),
    ]
    path = write(tmp_path, "\n".join(lines))
    assert read_events(path) == [(4, 0, 10), (4, 20, 35), (9, 5, 6)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("node,start,end\n1,10,20\n1,5,8\n", "line 3: expected the sessions of node 1 in order"),
        ("node,start,end\n1,10,20\n1,15,30\n", "line 3: expected a session of node 1 after its"),
        ("node,start,end\n1,10,10\n", "line 2: expected a session that ends after it starts"),
        ("node,start,end\n1,x,10\n", "line 2: expected a node and times"),
        ("node,start,end\n1,nan,10\n", "line 2: expected a session that ends after it starts"),
        ("node,end\n1,10\n", "line 1: expected columns node, t_up or start, and end"),
        ("node,start,end\n", "no sessions in it"),
    ],
)
def test_a_broken_file_of_sessions_is_refused_by_its_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(StackError, match=complaint):
        read_sessions(write(tmp_path, text))


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([event(1, 1, 9, 12), event(1, 1, 3, 4)], "line 2: expected the sessions of node 1 in"),
        ([event(1, 1, 9, 12), event(1, 1, 11, 14)], "line 2: expected a session of node 1 after"),
        ([event(1, 2, 9, 12)], "line 1: expected 9 tab-separated fields"),
        (["1\t2\t3"], "line 1: expected 9 tab-separated fields"),
    ],
)
def test_a_broken_event_table_is_refused_by_its_line(
    tmp_path: Path, lines: list[str], complaint: str
) -> None:
    with pytest.raises(StackError, match=complaint):
        read_events(write(tmp_path, "\n".join(lines)))


NETWORK: dict[str, Any] = {
    "nodes": 12,
    "duration": 20.0,
    "overlay": {"name": "graph", "degree": 3},
    "routing": {"name": "flooding"},
    "workload": {"publish_rate": 0},
}


def network(**topology: Any) -> Simulation:
    return Simulation(parse_config({**NETWORK, "topology": {"name": "full-mesh", **topology}}))


@pytest.mark.parametrize(
    ("topology", "complaint"),
    [
        ({"churn": {"model": "given", "sessions": [[1, 5, 3]]}}, "ends at 3 s, but starts at 5 s"),
        ({"churn": {"model": "given", "sessions": [[1, 0, 5], [1, 4, 6]]}}, "starts before its"),
        ({"churn": {"model": "given", "sessions": [[12, 0, 5]]}}, "there is no node 12"),
        ({"churn": {"model": "recorded", "file": "/nowhere"}}, "give a file that can be read"),
        ({"churn": {"model": "lognormal", "mean": 5, "median": 6}}, "give a smaller median"),
        ({"churn": {"model": "gnutella"}, "crash_rate": 0.1}, "leave crash_rate out"),
        ({"churn": {"model": "weibull"}}, "invalid value 'weibull'"),
        ({"notice_most": 0.1}, "give both, notice the smaller"),
        ({"latency": {"model": "uniform", "low": 2.0, "high": 1.0}}, "exchange them"),
        ({"leaves": [[1.0, 12]]}, "there is no node 12"),
    ],
)
def test_a_network_that_cannot_be_is_refused(topology: dict[str, Any], complaint: str) -> None:
    with pytest.raises(StackError, match=complaint):
        network(**topology)


def test_a_recording_of_too_many_nodes_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "node,start,end\n" + "".join(f"{n},0,9\n" for n in range(13)))
    with pytest.raises(StackError, match="give nodes = 13"):
        network(churn={"model": "recorded", "file": str(path)})


def test_nodes_follow_their_sessions_and_live_again() -> None:
    sessions = [[node, 0.5, None] for node in range(2, 12)] + [[0, 1, 6], [0, 9, None], [1, 2, 7]]
    run = network(churn={"model": "given", "sessions": sessions})
    run.begin()
    seen = []
    for at in (1.5, 5, 8, 10):
        run.kernel.run(to_ns(at))
        seen.append([run.network.nodes[node] is not None for node in (0, 1)])
    assert seen == [[True, False], [True, True], [False, False], [True, False]]
    assert [run.network.hosts[node].epoch for node in (0, 1)] == [1, 0]


def test_who_leaves_says_goodbye_and_who_crashes_does_not() -> None:
    for what, noticed in (("leaves", True), ("crashes", False)):
        run = network(**{what: [[5.0, 3]]})
        run.begin()
        run.kernel.run(to_ns(4.99))
        friends = run.network.neighbours(3)
        assert friends
        run.kernel.run(to_ns(6.5))
        assert all((not run.network.linked(node, 3)) == noticed for node in friends)


def test_a_catastrophe_strikes_a_share_at_once() -> None:
    run = network(catastrophes=[{"at": 5.0, "share": 0.25}], notice=0.1, notice_most=0.2)
    run.begin()
    run.kernel.run(to_ns(4.9))
    assert sum(node is not None for node in run.network.nodes) == 12
    run.kernel.run(to_ns(5.0))
    assert sum(node is not None for node in run.network.nodes) == 9
    assert run.kernel.unnoticed
    run.kernel.run(to_ns(5.21))
    assert not run.kernel.unnoticed


def test_a_false_suspicion_ends_a_connection_at_one_end_first() -> None:
    run = network(notice=0.5)
    run.begin()
    run.kernel.run(to_ns(5))
    peer = run.network.neighbours(0)[0]
    run.topology.connections.suspect(0, peer)
    assert not run.network.linked(0, peer)
    assert run.network.linked(peer, 0)
    run.kernel.run(to_ns(5.6))
    assert not run.kernel.unnoticed


def test_a_run_with_churn_comes_to_rest_when_it_is_over() -> None:
    model = {"model": "exponential", "up": 0.7, "mean": 5, "leaving": 0.5}
    run = network(churn=model, notice=0.1, suspicions=1.0, latency={"model": "uniform"})
    run.run()
    assert run.kernel.now < to_ns(80)


@pytest.mark.parametrize(
    "latency",
    [
        {"model": "uniform", "low": 0.01, "high": 0.03},
        {"model": "lognormal", "median": 0.02, "sigma": 0.3},
    ],
)
def test_every_pair_has_a_delay_of_its_own(latency: dict[str, Any]) -> None:
    delays = Delays(msgspec.convert(latency, Latency), 1)
    found = [delays.between(a, b) / 1e9 for a in range(30) for b in range(a)]
    assert [delays.between(b, a) / 1e9 for a in range(30) for b in range(a)] == found
    assert 0.018 < median(found) < 0.022
    assert len(set(found)) == len(found)


def test_delays_from_a_matrix(tmp_path: Path) -> None:
    path = write(tmp_path, "0 10 30\n20 0 0\n30 nan 0\n")
    delays = read_matrix(Matrix(str(path)))
    assert delays[0, 1] == delays[1, 0] == pytest.approx(0.0075)  # half of 15 ms
    assert delays[1, 2] == pytest.approx(0.001 * (10 + 30 + 20 + 30) / 4 / 2)
    for text, complaint in (("0 1\n1\n", "row 2"), ("0 x\n1 0\n", "'x'"), ("0 0\n0 0\n", "none")):
        with pytest.raises(StackError, match=complaint):
            read_matrix(Matrix(str(write(tmp_path, text))))


def test_the_sessions_of_ethereums_peers() -> None:
    name = "data/ethereum-churn/sessions_2020-02-07_2020-03-27_bridged1.csv.gz"
    path = shared(name)
    if path is None:
        pytest.skip(f"no {name} beside the project")
    made = played(churn(model="recorded", file=str(path), until=100 * HOUR), 6654)
    assert min(population(made, 20, 100 * HOUR)) > 2250
    assert max(population(made, 20, 100 * HOUR)) < 2600


def test_the_round_trips_of_planetlab() -> None:
    path = shared("data/planetlab-rtt/PlanetLabData_1.gz")
    if path is None:
        pytest.skip("no data/planetlab-rtt beside the project")
    delays = read_matrix(Matrix(str(path)))
    assert delays.shape == (490, 490)
    assert 0.07 < delays.mean() < 0.08  # half of 146.5 ms
