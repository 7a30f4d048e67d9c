"""Messages per CPU-second: Shoal's simulator, beside SimPy.

Shoal forwards events in two ways that agree message by message: on objects, each node a routing of
its own (pure Python, and the same sources compiled), and on arrays (its data plane), which takes
over where a run is large.

Every implementation floods the same random graph by the same rule (pass an event on when it comes
for the first time, to all neighbours but its sender) and must count the same messages. Each
measurement is a process of its own; implementations take turns, and the medians are shown. Only
the flooding is timed, after one event that warms everything up: no imports, no set-up, no graph.

An overlay at work is timed as well: every node of the overlay ``graph`` beats once a second and
exchanges samples; 1% of the nodes crash per minute and come back half a minute later. So is the
set-up of a large random graph, from the configuration to the first event.

SimPy is used in two ways. Its documentation models a link with delay as a process per message that
waits and then puts the message into the receiver's store ("Event Latency"). The callback idiom
leaves processes out: one timeout per message, with the receiver's handler as its callback.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.simulation import Simulation

NODES = 300
DEGREE = 5
DELAY = 0.001
SPACING = 0.01
"""Seconds between two publications: more than a flood takes."""
SCALES = (100, 1_000, 20_000)
"""Sizes between which the cost of a message should not change."""

SETTLING = 15.0
"""Simulated seconds until the nodes of an overlay have found their links."""

SHOAL = ("pure", "compiled", "arrays")
SCALED = (*SHOAL, "simpy_callback")
"""How large a network is shows in anybody's cost: objects must come from memory."""
IMPLEMENTATIONS = (*SHOAL, "simpy_callback", "simpy_documented")


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """All measurements and the ratios that matter."""
    rounds, scale_rounds, events, scale_messages = (
        (3, 1, 40, 200_000) if quick else (7, 3, 120, 800_000)
    )
    names = [name for name in IMPLEMENTATIONS if name != "compiled" or _is_compiled()]
    rates: dict[str, list[float]] = {name: [] for name in names}
    costs: dict[tuple[str, int], list[float]] = {}
    for number in range(rounds):
        counts: dict[str, int] = {}
        for name in names:
            # The documented idiom is several times slower than the others; it gets less to do.
            share = 4 if name == "simpy_documented" else 1
            counted, seconds = _measure(name, NODES, events // share)
            rates[name].append(counted / seconds)
            counts[name] = counted * share
        if len(set(counts.values())) > 1:
            raise RuntimeError(f"the implementations disagree on the messages sent: {counts}")
        for name in names:
            for nodes in SCALES if name in SCALED and number < scale_rounds else ():
                counted, seconds = _measure(name, nodes, scale_messages // (nodes * DEGREE))
                costs.setdefault((name, nodes), []).append(seconds / counted * 1e6)
    result = {f"{name}_messages_per_cpu_second": median(rates[name]) for name in names}
    callback = result["simpy_callback_messages_per_cpu_second"]
    for name in names:
        if name != "simpy_callback":
            result[f"{name}_over_simpy_callback"] = (
                result[f"{name}_messages_per_cpu_second"] / callback
            )
    for (name, nodes), found in costs.items():
        result[f"{name}_microseconds_per_message_at_{nodes}"] = median(found)
    for name in SCALED:
        if name in names:
            flat = [median(costs[name, nodes]) for nodes in SCALES]
            result[f"{name}_cost_ratio_{SCALES[0]}_to_{SCALES[-1]}"] = max(flat) / min(flat)
    yield result
    nodes, timed = (1_000, 20) if quick else (10_000, 60)
    simulated, seconds = _measure("overlay", nodes, timed)
    yield {f"graph_of_{nodes}_simulated_seconds_per_cpu_second": simulated / seconds}
    nodes, seconds = _measure("set_up", 10_000 if quick else 100_000, 1)
    yield {f"set_up_of_{nodes}_seconds": seconds}
    # Whole runs on arrays: other routings, changing links, what recording costs.
    plane = os.path.join(os.path.dirname(__file__), "_dataplane.py")
    whole: dict[str, float] = json.loads(_python([plane, "quick" if quick else "all"], pure=False))
    yield whole
    flooding = whole["plane_flooding_messages_per_cpu_second"]
    yield {"plane_flooding_over_simpy_callback": flooding / callback}


def _is_compiled() -> bool:
    """Whether compiled modules are installed."""
    code = "import shoal.simulation.kernel as kernel; print(kernel.__file__)"
    return not _python(["-c", code], pure=False).strip().endswith(".py")


def _measure(name: str, nodes: int, events: int) -> tuple[int, float]:
    """One measurement in a fresh process: messages sent, CPU-seconds."""
    kind = "objects" if name in ("pure", "compiled") else name
    text = _python([__file__, kind, str(nodes), str(events)], pure=name == "pure")
    counted, seconds = json.loads(text)
    return counted, seconds


def _python(arguments: list[str], pure: bool) -> str:
    environment = dict(os.environ)
    environment.pop("SHOAL_PURE", None)
    if pure:
        environment["SHOAL_PURE"] = "1"
    return subprocess.run(
        [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


# What the processes do. Each flood returns (messages, CPU-seconds) of all events but the first.


def _publisher(event: int, nodes: int) -> int:
    return event * 7 % nodes


def _network(nodes: int, events: int, data_plane: str) -> Simulation:
    """A simulated network in which so many events will be published."""
    from shoal.simulation import Simulation, parse_config

    script = [
        {"at": i * SPACING, "node": _publisher(i, nodes), "do": "publish", "patterns": [1, 2, 3]}
        for i in range(events)
    ]
    config = parse_config(
        {
            "nodes": nodes,
            "duration": events * SPACING,
            "topology": {"name": "static-graph", "degree": DEGREE},
            "routing": {"name": "flooding"},
            "link": {"delay": DELAY, "bandwidth": 0},
            "workload": {"script": script},
            "record": ["traffic"],
            "data_plane": data_plane,
        }
    )
    simulation = Simulation(config)
    simulation.begin()
    return simulation


def flood_objects(nodes: int, events: int) -> tuple[int, float]:
    """Shoal's routing objects, traffic recorded."""
    from shoal.simulation.player import Player

    simulation = _network(nodes, events, "objects")
    Player(simulation.kernel, simulation.workload, simulation).start()
    return _time_shoal(simulation, simulation.kernel.run)


def flood_arrays(nodes: int, events: int) -> tuple[int, float]:
    """Shoal's data plane, traffic recorded."""
    simulation = _network(nodes, events, "arrays")
    assert simulation.plane is not None
    simulation.plane.start()
    return _time_shoal(simulation, simulation.plane.run)


def graph_overlay(nodes: int, seconds: int) -> tuple[int, float]:
    """The overlay ``graph`` with crashes: simulated seconds, CPU-seconds."""
    from shoal.simulation import Simulation, parse_config
    from shoal.simulation.garbage import uncollected
    from shoal.simulation.kernel import to_ns

    config = parse_config(
        {
            "nodes": nodes,
            "duration": SETTLING + seconds,
            "topology": {
                "name": "full-mesh",
                "joining": SETTLING / 3,
                "crash_rate": 0.01,
                "back_after": 30.0,
            },
            "overlay": {"name": "graph", "heartbeat": 1.0},
            "routing": {"name": "flooding"},
            "workload": {"publish_rate": 0.0, "subscribers": 0.0},
            "link": {"delay": 0.01, "bandwidth": 0},
            "record": ["traffic", "links"],
        }
    )
    simulation = Simulation(config)
    with uncollected():
        simulation.begin()
        simulation.kernel.run(to_ns(SETTLING))
        before = simulation.kernel.handled
        started = time.process_time()
        simulation.kernel.run(to_ns(SETTLING + seconds))
        ended = time.process_time()
    if simulation.kernel.handled - before < 3 * nodes * seconds:
        raise RuntimeError("the overlay does not beat")
    return seconds, ended - started


def set_up(nodes: int, events: int) -> tuple[int, float]:
    """A random graph of nodes: how many, CPU-seconds until it is ready to run."""
    from shoal.simulation.garbage import uncollected

    with uncollected():
        started = time.process_time()
        _network(nodes, events, "objects")
        return nodes, time.process_time() - started


def _time_shoal(simulation: Simulation, run: Callable[[int], None]) -> tuple[int, float]:
    """Warm up, then time the rest."""
    from shoal.simulation.kernel import to_ns

    run(to_ns(0.9 * SPACING))
    before = simulation.kernel.handled
    started = time.process_time()
    run(to_ns(simulation.config.duration))
    seconds = time.process_time() - started
    simulation.recorder.close_bin()
    counted = sum(row[2] for row in simulation.recorder.traffic)
    if counted != simulation.kernel.handled:
        raise RuntimeError("the traffic table and the kernel disagree on the messages sent")
    return simulation.kernel.handled - before, seconds


def _neighbours(nodes: int) -> list[list[int]]:
    """The graph that Shoal's topology makes of seed 0."""
    from shoal.simulation.topology import adjacency, random_regular_graph
    from shoal.stack import Chance

    links = random_regular_graph(nodes, DEGREE, Chance(0, "graph"))
    return [list(neighbours) for neighbours in adjacency(nodes, links)]


def flood_simpy_callback(nodes: int, events: int) -> tuple[int, float]:
    """SimPy without processes: a timeout per message, handled by its callback."""
    import simpy

    env = simpy.Environment()
    neighbours = _neighbours(nodes)
    seen: list[set[int]] = [set() for _ in range(nodes)]
    sent = 0

    def send(source: int, target: int, event: int) -> None:
        nonlocal sent
        sent += 1
        env.timeout(DELAY, (source, target, event)).callbacks.append(receive)

    def receive(timeout: Any) -> None:
        source, node, event = timeout.value
        if event not in seen[node]:
            seen[node].add(event)
            for neighbour in neighbours[node]:
                if neighbour != source:
                    send(node, neighbour, event)

    def publish(timeout: Any) -> None:
        event = timeout.value
        node = _publisher(event, nodes)
        seen[node].add(event)
        for neighbour in neighbours[node]:
            send(node, neighbour, event)

    for event in range(events):
        env.timeout(event * SPACING, event).callbacks.append(publish)
    return _time_simpy(env, events, lambda: sent)


def flood_simpy_documented(nodes: int, events: int) -> tuple[int, float]:
    """SimPy as documented: a process per node and per message, a store per node."""
    import simpy

    env = simpy.Environment()
    neighbours = _neighbours(nodes)
    inbox = [simpy.Store(env) for _ in range(nodes)]
    sent = 0

    def latency(source: int, target: int, event: int) -> Generator[Any, Any, None]:
        yield env.timeout(DELAY)
        inbox[target].put((source, event))

    def send(source: int, target: int, event: int) -> None:
        nonlocal sent
        sent += 1
        env.process(latency(source, target, event))

    def node(me: int) -> Generator[Any, Any, None]:
        seen: set[int] = set()
        while True:
            source, event = yield inbox[me].get()
            if event not in seen:
                seen.add(event)
                for neighbour in neighbours[me]:
                    if neighbour != source:
                        send(me, neighbour, event)

    def publish(event: int) -> Generator[Any, Any, None]:
        yield env.timeout(event * SPACING)
        yield inbox[_publisher(event, nodes)].put((-1, event))

    for me in range(nodes):
        env.process(node(me))
    for event in range(events):
        env.process(publish(event))
    return _time_simpy(env, events, lambda: sent)


def _time_simpy(env: Any, events: int, sent: Callable[[], int]) -> tuple[int, float]:
    """Warm up, then time the rest."""
    env.run(until=0.9 * SPACING)
    before = sent()
    started = time.process_time()
    env.run(until=events * SPACING)
    return sent() - before, time.process_time() - started


def main() -> None:
    """``simulation.py IMPLEMENTATION NODES EVENTS`` (or SECONDS): one measurement, as JSON."""
    kind, nodes, events = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    flood: Callable[[int, int], tuple[int, float]] = {
        "objects": flood_objects,
        "arrays": flood_arrays,
        "simpy_callback": flood_simpy_callback,
        "simpy_documented": flood_simpy_documented,
        "overlay": graph_overlay,
        "set_up": set_up,
    }[kind]
    more = 0 if kind == "overlay" else 1  # one event more, to warm up
    print(json.dumps(flood(nodes, events + more)))


if __name__ == "__main__":
    main()
