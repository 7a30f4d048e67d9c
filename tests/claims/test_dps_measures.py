"""The measures of DPS see what they are there to see: each one on a run that breaks its rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.content import Attributes, Event
from shoal.pipeline.measure import dps_cases, dps_loads, dps_traces
from shoal.pipeline.measure.run_view import Run
from shoal.pipeline.report.groups_picture import CUT, PASSED, QUIET, groups_picture
from shoal.routing.dps.messages import (
    DOWN,
    START,
    Created,
    CreateGroup,
    Leader,
    Pointer,
    Publish,
    PublishGroup,
    Report,
)
from shoal.stack import Contact, Message, StackError

CONFIG: dict[str, Any] = {
    "nodes": 4,
    "bin": 10.0,
    "link": {"delay": 1.0},
    "routing": {"coleaders": 2, "view": 3, "traversal": "generic"},
}
EVENT = Event(3, 7, Attributes({"x": 5, "name": "it's"}))


def note(node: int, what: str, value: Any, peer: int = -1, time: float = 0.0) -> dict[str, Any]:
    text = value if isinstance(value, str) else json.dumps(value)
    return {"time": time, "node": node, "what": what, "peer": peer, "value": text}


def group(node: int, leader: int, text: str, *filters: str, **more: Any) -> dict[str, Any]:
    held: dict[str, Any] = {
        "attribute": "x",
        "text": text,
        "filters": list(filters),
        "coleaders": [],
        "members": [],
    }
    held |= {"known": [], "predview": [], "succviews": {}}
    return note(node, "group", {**held, **more}, leader)


def sent(time: float, source: int, target: int, message: Message) -> dict[str, Any]:
    row = {"time": time, "source": source, "target": target}
    return {**row, "kind": type(message).kind(), "content": str(message)}


def run(notes: list[dict[str, Any]], *messages: dict[str, Any], **more: Any) -> Run:
    return Run(CONFIG, {"notes": notes, "messages": list(messages), **more})


TREE = [
    group(0, 0, ""),
    group(0, 0, "x > 2", "x > 2", predview=[["", 0]]),
    group(1, 1, "x > 4", "x > 4 AND y = 1", predview=[["x > 2", 0]]),
    group(2, 2, "x < 1", "x < 1", predview=[["", 0]]),
]
SUBSCRIBED = [
    note(0, "subscribed", "x > 2"),
    note(1, "subscribed", "x > 4 AND y = 1"),
    note(2, "subscribed", "x < 1"),
]


def test_a_subscription_that_joined_no_tree_or_two_is_seen() -> None:
    count = dps_cases.joined_otherwise_than_once
    assert count(run([*TREE, *SUBSCRIBED])) == 0
    assert count(run([*TREE, *SUBSCRIBED, note(3, "subscribed", "x = 1")])) == 1
    twice = group(2, 0, "x > 2", "x < 1")
    assert count(run([*TREE, twice, *SUBSCRIBED])) == 1
    either = note(3, "subscribed", "x > 2 OR y = 3")
    assert count(run([*TREE, group(3, 0, "x > 2", "x > 2 OR y = 3"), *SUBSCRIBED, either])) == 1


def test_a_tree_that_is_not_entered_is_seen() -> None:
    published = note(3, "published", {"event": 7, "trees": ["", "x", "name"]})
    entered = note(3, "entered", {"event": 7, "tree": "x"})
    assert dps_cases.trees_not_entered(run([*TREE, published, entered])) == 0
    assert dps_cases.trees_not_entered(run([*TREE, published])) == 1


def test_groups_out_of_reach_are_seen() -> None:
    views = {"x > 2": [["x > 2", 0]], "x < 1": [["x < 1", 2]]}
    owner = group(0, 0, "", succviews=views)
    assert dps_cases.groups_reachable(run([owner, *TREE[1:]])) == 0.75


def test_a_leader_that_did_not_create_its_group_is_seen() -> None:
    joined = [note(0, "joined", "x x > 2", 0), note(1, "joined", "x x > 2", 0, 2.0)]
    right = [group(0, 0, "x > 2", coleaders=[1], members=[1]), group(1, 0, "x > 2", coleaders=[1])]
    assert dps_cases.wrong_roles(run([*joined, *right])) == 0
    usurped = [
        group(1, 1, "x > 2", coleaders=[0], members=[0]),
        group(0, 1, "x > 2", coleaders=[0]),
    ]
    assert dps_cases.wrong_roles(run([*joined, *usurped])) == 2
    merged = note(1, "joined", "x x > 2", 1, 1.0)  # created twice; who created it first leads
    assert dps_cases.wrong_roles(run([joined[0], merged, *right])) == 0
    assert dps_cases.wrong_roles(run([joined[0], merged, *usurped])) == 2
    owner = note(1, "joined", "x ", 1, 1.0)  # of two trees of x, either owner may lead
    assert dps_cases.wrong_roles(run([joined[0], owner, merged, *usurped])) == 0


def test_a_leader_that_does_not_know_its_group_is_seen() -> None:
    joined = [note(n, "joined", "x x > 2", 0, float(n)) for n in range(4)]
    staff = [group(0, 0, "x > 2", coleaders=[1, 2], members=[1, 2, 3])]
    staff += [group(n, 0, "x > 2", coleaders=[1, 2], members=[3 - n, 3]) for n in (1, 2)]
    member = group(3, 0, "x > 2", coleaders=[1, 2])
    assert dps_cases.wrong_roles(run([*joined, *staff, member])) == 0
    blind = group(2, 0, "x > 2", coleaders=[1, 2], members=[1])
    assert dps_cases.wrong_roles(run([*joined, *staff[:2], blind, member])) == 1
    nosy = group(3, 0, "x > 2", coleaders=[1, 2], members=[1])
    assert dps_cases.wrong_roles(run([*joined, *staff, nosy])) == 1


def test_a_group_that_is_created_again_is_seen() -> None:
    created = [note(n, "joined", "x x > 2", n, 10.0 * n) for n in range(3)]
    other = note(3, "joined", "x x > 9", 3, 20.0)
    member = note(3, "joined", "x x > 2", 0, 20.0)
    made = run([*TREE, *created, other, member])
    assert dps_cases.duplicate_creations(made) == 0.5
    assert dps_cases.duplicate_creations(made, since=5.0) == pytest.approx(2 / 3)


def test_a_second_copy_is_seen() -> None:
    inside = PublishGroup(EVENT, "x", "x > 2", "x > 2", DOWN, 2, 0)
    way_in = Publish(EVENT, "x", "x > 2", "", START, 1)
    once = run(TREE, sent(1.0, 0, 1, inside), sent(1.0, 3, 1, way_in), sent(1.0, 0, 2, inside))
    assert dps_traces.repeated_copies(once) == 0
    from_the_root = {**CONFIG, "routing": {**CONFIG["routing"], "traversal": "root"}}
    assert dps_traces.repeated_copies(Run(from_the_root, {"messages": once.messages})) == 1
    again = run(TREE, sent(1.0, 0, 1, inside), sent(2.0, 2, 1, inside))
    assert dps_traces.repeated_copies(again) == 1


def test_an_event_that_slips_past_a_new_group_is_seen() -> None:
    create = sent(1.0, 0, 1, CreateGroup("x", "x > 4", (Pointer("x > 2", Contact(0)),), ()))
    created = sent(2.0, 1, 0, Created("x", "x > 2", "x > 4", Contact(1), True))
    early = sent(2.5, 0, 2, Publish(EVENT, "x", "x > 3", "x > 2", DOWN, 2))
    late = sent(3.0, 0, 2, Publish(EVENT, "x", "x > 3", "x > 2", DOWN, 2))
    assert dps_traces.passed_while_blocked(run(TREE, create, created, late)) == 0
    assert dps_traces.passed_while_blocked(run(TREE, create, created, early)) == 1
    assert dps_traces.groups_created_twice(run(TREE, create, created, created)) == 1
    elsewhere = sent(2.0, 1, 0, Created("x", "", "x > 4", Contact(1), True))
    assert dps_traces.groups_created_twice(run(TREE, create, created, elsewhere)) == 0


def test_a_subscription_in_a_message_is_seen() -> None:
    label = sent(1.0, 1, 0, Leader("x", "x > 4", 1, Contact(1), ()))
    whole = sent(1.0, 1, 0, Leader("x", "x > 4 AND y = 1", 1, Contact(1), ()))
    assert dps_traces.subscriptions_told(run([*TREE, *SUBSCRIBED], label)) == 0
    assert dps_traces.subscriptions_told(run([*TREE, *SUBSCRIBED], label, whole)) == 1


def test_a_change_far_from_a_crash_is_seen() -> None:
    notes = [*TREE, note(2, "joined", "x x < 1", 2), note(2, "node down", "", time=5.0)]
    near = sent(6.0, 0, 1, Leader("x", "", 2, Contact(0), ()))
    far = sent(6.0, 1, 0, Leader("x", "x > 4", 2, Contact(1), ()))
    assert dps_traces.disturbed_afar(run(notes, near), since=5.0) == 0
    assert dps_traces.disturbed_afar(run(notes, near, far), since=5.0) == 1


def test_who_is_the_busiest() -> None:
    joined = [note(1, "joined", "x x > 4", 1), note(2, "joined", "x x > 4", 1)]
    rows = [
        {"time": time, "node": node, "sent": sent, "received": received, "requests": 0}
        for time, node, sent, received in [
            *((10.0, 0, 5, 9), (10.0, 1, 7, 2)),
            *((20.0, 0, 8, 3), (20.0, 1, 7, 4)),
        ]
    ]
    made = run([*TREE, *joined], loads=rows)
    assert dps_loads.busiest_is_owner(made) == 0.5
    assert dps_loads.busiest_is_owner(made, since=20.0) == 0
    assert dps_loads.busiest_leads_largest(made) == 0.5
    bound = dps_loads.most_messages(made, [10, 10, 10], "root", "leader")
    assert bound == 31
    assert dps_loads.miss_probability(made, levels=4) == 4 / 64


def test_a_picture_shows_where_an_event_passed_and_where_it_was_cut_off() -> None:
    messages = [
        sent(1.0, 3, 0, Publish(EVENT, "x", "", "", START, 1)),
        sent(2.0, 0, 2, Publish(EVENT, "x", "x < 1", "", DOWN, 2)),
        sent(2.0, 0, 1, Publish(EVENT, "x", "x > 4", "x > 2", DOWN, 2)),
    ]
    below = group(3, 3, "x < 0", "x < 0", predview=[["x < 1", 2]])
    svg = groups_picture([*TREE, below], messages)
    colours = {}
    for part in svg.split("<g><title>")[1:]:
        name = part.split(": ")[0].replace("&gt;", ">").replace("&lt;", "<")
        colours[name] = part.split('fill="')[1].split('"')[0]
    assert colours == {
        "tree of x": PASSED,
        "x > 2": PASSED,  # led by the owner itself: no message needed
        "x > 4": PASSED,
        "x < 1": CUT,
        "x < 0": QUIET,
    }
    assert "x = 5, name = &quot;it&#x27;s&quot;" in svg


def test_a_picture_needs_groups() -> None:
    with pytest.raises(StackError, match="no groups to draw"):
        groups_picture([], [])


def test_a_report_is_no_event() -> None:
    """Fields are read of any message; only events are followed."""
    assert dps_traces.fields(str(Report("x", "x > 2", None)))["attribute"] == "x"  # type: ignore[arg-type]


def test_what_nodes_have_to_do_bin_by_bin() -> None:
    rows = [
        {"time": time, "node": node, "sent": sent, "received": 10 * node, "requests": 1}
        for time, loads in ((0.0, (4, 2, 1)), (10.0, (9, 3, 1)), (20.0, (13, 5)))
        for node, sent in enumerate(loads)
    ]
    made = Run({**CONFIG, "nodes": 4}, {"loads": rows})
    assert dps_loads.load(made) == (3 + 8 + 12) / 3
    assert dps_loads.load(made, which="median", since=10.0) == (2 + 8) / 2
    assert dps_loads.load(made, since=30.0) is None
    growth = {"way": "out", "which": "max", "late": [10.0, 20.0]}
    assert dps_loads.load_growth(made, **growth, early=[0.0, 10.0]) == 8 / 3
    assert dps_loads.load_growth(made, **growth, early=[30.0, 40.0]) is None
    assert dps_loads.load_over_time(made, way="in") == [(0.0, 20), (10.0, 20), (20.0, 10)]
    assert dps_loads.load_over_time(made, way="in", since=20.0) == [(20.0, 10)]
    assert dps_loads.imbalance(made, since=20.0) == [(20.0, 12 / 8)]
    assert dps_loads.incoming_less_outgoing(made, since=20.0) == 10 - 12
    assert dps_loads.load_gap(made) == (3 + 8 + 12) / (1 + 2 + 8)
    assert dps_loads.nodes_at_end(made) == 50


def test_deliveries_by_window() -> None:
    rows = [
        {"time": time, "owed": owed, "received": received}
        for time, owed, received in ((10.0, 4, 1), (110.0, 4, 4), (190.0, 4, 2), (200.0, 0, 0))
    ]
    made = Run(CONFIG, {"reach": rows})
    assert dps_loads.delivery_by_window(made) == [(0.0, 0.25), (100.0, 0.75), (200.0, None)]
    assert dps_loads.delivery_by_window(made, since=100.0, until=200.0) == [(100.0, 0.75)]
