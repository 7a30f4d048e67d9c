"""What a data plane starts from: the setup of a run, and empty arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.routing.adaptive import SETTLED
from shoal.simulation.dataplane import state as s
from shoal.simulation.kernel import NANOSECONDS
from shoal.stack.chance import key_of

if TYPE_CHECKING:
    from shoal.simulation.dataplane.forwarding import Forwarding
    from shoal.simulation.network import Network
    from shoal.simulation.recorder import Recorder
    from shoal.simulation.workload import Workload
    from shoal.stack import Message
    from shoal.stack.layer import Routing

UNLIMITED = 1 << 30


def make_setup(
    forwarding: Forwarding,
    routing: Routing,
    network: Network,
    recorder: Recorder,
    sample: Message,
    seed: int,
) -> s.Setup:
    """The setup of a run; ``sample`` is an event's message, for its size."""

    def key(purpose: str) -> np.uint64:
        return np.uint64(key_of(seed, purpose))

    transmission = int(sample.size() * network.ns_per_byte)
    return s.Setup(
        tree=network.acyclic,
        owes_publisher=recorder.owes_publisher,
        ttl=getattr(routing, "ttl", UNLIMITED),
        ttl_deterministic=getattr(routing, "ttl_deterministic", UNLIMITED),
        ttl_probabilistic=getattr(routing, "ttl_probabilistic", UNLIMITED),
        either=getattr(routing, "either", False),
        key=key("links"),
        loss_key=key("losses"),
        transmission=transmission,
        usual=transmission + network.delay,
        plain=transmission == 0,
        watches=forwarding.observe is not None,
        keeps_deliveries=recorder.keeps_deliveries,
        keeps_messages=recorder.keeps_messages,
    )


def make_state(
    setup: s.Setup, floods: bool, routing: Routing, nodes: int, workload: Workload
) -> s.State:
    """The arrays before anything has happened."""
    wanted = [number for _, _, number, _ in workload.by_number()]
    patterns = 1 + max(int(workload.numbers.max(initial=0)), *wanted, 0)
    node_words, pattern_words = s.words(nodes), s.pattern_words(patterns)
    levels = 0 if floods else max(1, getattr(routing, "farthest", 1))
    events = len(workload.times)
    slots = 8
    channels = 8 * nodes
    deliveries = 1024 if setup.keeps_deliveries else 0
    messages = 1024 if setup.keeps_messages else 0
    leaf_words = pattern_words if getattr(routing, "leaf_rule", False) else 0
    watching = nodes if setup.watches else 0
    starts = np.concatenate([np.zeros(1, np.int64), workload.ends[:-1]])[:events]
    places = 64
    now = np.zeros(s.COUNTERS, np.int64)
    now[s.FREE_PLACES] = places
    now[s.BIN_NUMBER] = -1
    return s.State(
        nodes=s.Nodes(
            limits=np.zeros((nodes, 4), np.int32),
            link=np.zeros((nodes, slots, 2), np.int32),
            leaf=np.zeros((nodes, slots), np.uint8),
            parent=np.full((nodes, 2), -1, np.int32),
            mask=np.zeros((nodes, slots, levels, pattern_words), np.uint64),
            leaf_mask=np.zeros((nodes, slots, leaf_words), np.uint64),
            local=np.zeros((nodes, pattern_words), np.uint64),
            crashed=np.zeros(nodes, np.uint8),
            component=np.zeros(nodes, np.int32),
            reached=np.zeros(node_words, np.uint64),
            duplicates=np.zeros(nodes, np.int64),
            watched=np.zeros((nodes, 3), np.int64),
            last=np.full((watching, watching), -1, np.int32),
        ),
        channels=s.Channels(
            ends=np.zeros((channels, 4), np.int32),
            times=np.zeros((channels, 2), np.int64),
            quality=np.ones(channels, np.float64),
            beyond=np.zeros((channels, node_words if setup.tree else 0), np.uint64),
        ),
        events=s.Events(
            time=workload.times,
            publisher=workload.publishers.astype(np.int32),
            sequence=_sequences(workload),
            start=starts,
            end=workload.ends,
            numbers=workload.numbers.astype(np.int32),
            bits=np.zeros((events, pattern_words), np.uint64),
            draws=np.zeros(events, np.uint64),
            owed=np.zeros((events, node_words), np.uint64),
            wanted=np.zeros((events if setup.tree else 0, node_words), np.uint64),
            version=np.zeros(events, np.int64),
            received=np.zeros((events, node_words), np.uint64),
            reachable=np.zeros(events, np.int32),
            in_flight=np.zeros(events, np.int32),
            before=_before(workload) if setup.watches else np.full(events, -1, np.int32),
            place=np.zeros(events, np.int32),
        ),
        flights=s.make_flights(4096),
        logs=s.Logs(
            delivery_time=np.zeros(deliveries, np.int64),
            delivery=np.zeros((deliveries, 3), np.int32),
            message_time=np.zeros(messages, np.int64),
            message=np.zeros((messages, 4), np.int32),
        ),
        subscribers=np.zeros((patterns, node_words), np.uint64),
        seen=np.zeros((places, node_words), np.uint64),
        promised=np.zeros((places, node_words), np.uint64),
        places=np.arange(places, dtype=np.int32),
        picks=np.zeros(2 * slots, np.int32),
        now=now,
    )


def _sequences(workload: Workload) -> s.Ints:
    """Each event's number among those of its publisher."""
    publishers = workload.publishers
    order = np.argsort(publishers, kind="stable")
    ranked = publishers[order]
    first = np.searchsorted(ranked, ranked)
    sequence = np.zeros(len(publishers), np.int32)
    sequence[order] = np.arange(len(publishers)) - first
    return sequence


def _before(workload: Workload) -> s.Ints:
    """Per event, the last one of its publisher that has settled by then; -1 if there is none."""
    before = np.full(len(workload.times), -1, np.int32)
    times = (workload.times / NANOSECONDS).tolist()
    own: dict[int, list[int]] = {}
    for event, publisher in enumerate(workload.publishers.tolist()):
        earlier = own.setdefault(publisher, [])
        while len(earlier) > 1 and times[event] - times[earlier[1]] >= SETTLED:
            earlier.pop(0)
        if earlier and times[event] - times[earlier[0]] >= SETTLED:
            before[event] = earlier[0]
        earlier.append(event)
    return before
