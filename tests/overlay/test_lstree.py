"""LSTree as Frey describes it (chapter 10): answers of candidates, repairs, merging, and liars."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from adversary import Adversary, Life

from shoal.overlay.lstree import LSTree
from shoal.overlay.lstree_caches import GlobalCache
from shoal.overlay.lstree_messages import (
    Accept,
    Beat,
    ParentRequest,
    Ping,
    Pong,
    Refuse,
    Regional,
    Sighting,
    Update,
)
from shoal.overlay.lstree_relation import BLANK, DEEPEST, LONGEST
from shoal.overlay.lstree_search import REPAIRS
from shoal.simulation import Simulation, parse_config, simulate
from shoal.simulation.kernel import to_ns
from shoal.stack import LOCAL, Contact, Message, Node, StackError

INSTANCES = ("RMG", "RDGM", "DRGM", "RUmDGM", "DUmRGM")
RED = (2, 5, 0)
BLUE = (2, 3, 0)
"""RED → BLUE: as long, and it ends in a smaller node."""


# What a candidate answers (sections 10.2.1 and 10.2.2)


def candidate(**parameters: Any) -> Life:
    """Node 1 of a quiet world, child of 0 at depth 2, with one child of its own (node 3)."""
    world = Adversary(1, 10, parameters)
    for node in (0, 1, 3):
        life = Life(world, node, 0)
        world.lives[node] = life
    life = world.lives[1]
    overlay = life.overlay
    overlay.colour, overlay.depth = RED, 3.1
    overlay.parent, overlay.parent_depth = 0, 2.0
    overlay.ancestors = (Contact(0),)
    for child in (3,):
        adopted(life, child)
    return life


def adopted(life: Life, child: int) -> None:
    """A node is a child already."""
    overlay = life.overlay
    overlay.on_request(child, ask(child, BLANK, 0.0, break_max=True, break_min=True))
    overlay.heard[child] = 0.0
    overlay.children[child].attached = True
    overlay.neighbours[child] = None
    life.asking.clear()
    life.world.requests.clear()


def ask(node: int, colour: Any, depth: float, **more: Any) -> ParentRequest:
    return ParentRequest(Contact(node), 0, 1, colour, depth, **more)


def answer(life: Life, request: ParentRequest) -> Refuse | None:
    """What a candidate answers; None if it accepts."""
    sender = request.requester.node
    life.overlay.receive(sender, request)
    if life.world.letters:
        (_, _, message) = life.world.letters.pop()
        assert isinstance(message, Refuse)
        return message
    assert [(asker.node, to) for asker, to in life.world.requests] == [(life.node, sender)]
    return None


def test_a_shallower_candidate_accepts_as_it_is() -> None:
    """T10.2-h."""
    life = candidate()
    life.overlay.depth = 2.6
    assert answer(life, ask(7, RED, 3.0)) is None
    assert life.overlay.depth == 2.6


def test_a_deeper_candidate_lowers_its_depth_and_accepts() -> None:
    """T10.2-i."""
    life = candidate()
    assert answer(life, ask(7, RED, 3.0)) is None
    assert 2.0 < life.overlay.depth < 3.0


def test_a_refusal_does_not_lower_the_depth() -> None:
    life = candidate(max_degree=2)
    assert answer(life, ask(7, RED, 3.0)) == Refuse(1, "full", (Contact(3),))
    assert life.overlay.depth == 3.1


def test_no_depth_fits_between_a_parent_and_its_parent() -> None:
    life = candidate()
    assert answer(life, ask(0, RED, 2.0)) == Refuse(1, "colour")


def test_siblings_cannot_connect_by_hop_counts() -> None:
    """T10.2-j."""
    life = candidate(depth="integer")
    life.overlay.depth = 3.0
    assert answer(life, ask(7, RED, 3.0)) == Refuse(1, "colour")
    assert answer(life, ask(7, RED, 4.0)) is None


def test_a_candidate_that_searches_is_busy_if_it_would_have_to_lower_its_depth() -> None:
    """T10.2-k."""
    life = candidate()
    life.overlay.parent = LOCAL
    assert answer(life, ask(7, RED, 3.0)) == Refuse(1, "busy")
    assert life.overlay.depth == 3.1
    assert answer(life, ask(8, RED, 3.5)) is None


def test_a_busy_candidate_is_asked_again_three_times() -> None:
    """T10.2-k: the requester."""
    world = Adversary(1, 3, {"instance": "RMG"})
    life = Life(world, 0, 0)
    world.lives[0] = life
    life.overlay.join((Contact(1),))
    asked = 0
    while world.letters:
        (to, _, message) = world.letters.pop()
        assert isinstance(message, ParentRequest)
        assert to == 1
        asked += 1
        life.overlay.receive(1, Refuse(message.request, "busy"))
        for timer in world.armed():
            if timer.callback.__name__ == "_ask_busy":
                world.now = timer.due
                timer.on = False
                timer.callback()
    assert asked == 4
    assert life.overlay.root


def test_a_fresh_node_may_ask_any_coloured_one() -> None:
    """T10.2-g."""
    for depth in (-5.0, 0.0, 9.0):
        assert answer(candidate(), ask(7, BLANK, depth)) is None


def test_force_lifts_the_limits_and_never_the_relation() -> None:
    """T10.2-n, T10.2-o."""
    life = candidate(instance="RUmDGM", max_degree=5, min_degree=2)
    for child in (4, 5, 6):
        adopted(life, child)
    refusal = answer(life, ask(7, BLANK, 0.0))
    assert refusal is not None
    assert refusal.reason == "full"
    assert len(refusal.candidates) == 3
    assert {contact.node for contact in refusal.candidates} < {3, 4, 5, 6}
    assert answer(life, ask(7, BLANK, 0.0, break_max=True, break_min=True)) is None
    force = {"break_max": True, "break_min": True}
    assert answer(candidate(), ask(7, BLUE, 9.0, **force)) == Refuse(1, "colour")


def test_a_leaf_refuses_and_names_its_parent_unless_it_is_alone() -> None:
    """T10.2-o."""
    life = candidate(instance="RUmDGM")
    life.overlay.children.clear()
    assert answer(life, ask(7, BLANK, 0.0)) == Refuse(1, "leaf", (Contact(0),))
    assert answer(life, ask(7, BLANK, 0.0, break_min=True)) is None
    life = candidate(instance="RUmDGM")
    life.overlay.children.clear()
    life.overlay.parent, life.overlay.root = LOCAL, True
    assert answer(life, ask(7, BLANK, 0.0)) is None


def test_of_two_trees_one_joins_the_other() -> None:
    """T10.3-e."""
    life = candidate()
    life.overlay.colour = BLUE
    assert answer(life, ask(7, RED, 0.0)) is None
    life = candidate()
    life.overlay.heard[0] = 0.0
    life.overlay.neighbours[0] = None
    sent: list[Message] = []
    life.send = lambda to, message: sent.append(message)  # type: ignore[method-assign]
    assert answer(life, ask(7, BLUE, 0.0)) == Refuse(1, "colour")
    assert sent == [Sighting(Contact(7), BLUE)]  # its own root is to ask
    life = candidate()
    life.overlay.parent, life.overlay.root = LOCAL, True
    assert answer(life, ask(7, RED, 3.0)) == Refuse(1, "colour")


def test_a_request_in_another_name_is_not_heard() -> None:
    life = candidate()
    life.overlay.receive(8, ask(7, BLANK, 0.0))
    assert not life.world.letters
    assert not life.world.requests


# Whole trees


def network(nodes: int, duration: float = 60.0, delay: float = 0.05, **more: Any) -> Simulation:
    overlay = {"name": "lstree", "heartbeat": 0, **more.pop("overlay", {})}
    topology = {"name": "full-mesh", "joining": 5.0, "notice": 0.15, "notice_most": 0.2, **more}
    return Simulation(
        parse_config(
            {
                "nodes": nodes,
                "seed": nodes,
                "duration": duration,
                "topology": topology,
                "overlay": overlay,
                "routing": {"name": "flooding"},
                "workload": {"publish_rate": 0},
                "link": {"delay": delay, "bandwidth": 0},
            }
        )
    )


def overlays(run: Simulation) -> dict[int, LSTree]:
    found = {}
    for number, node in enumerate(run.network.nodes):
        if node is not None:
            assert isinstance(node.overlay, LSTree)
            found[number] = node.overlay
    return found


def roots(run: Simulation) -> list[int]:
    return [node for node, overlay in overlays(run).items() if overlay.parent == LOCAL]


def new_links(run: Simulation, since: float) -> list[set[int]]:
    return [
        {a, b} for at, a, b, change, _ in run.recorder.links if change == "up" and at > to_ns(since)
    ]


@pytest.mark.parametrize("instance", INSTANCES)
def test_each_orphan_of_a_crashed_node_finds_one_new_parent(instance: str) -> None:
    """T10.1-a, T10.1-b."""
    run = network(60, overlay={"instance": instance})
    run.begin()
    run.kernel.run(to_ns(20))
    assert len(roots(run)) == 1
    assert len(new_links(run, 0)) == 59  # a node that joins adds one
    inner = next(n for n, o in overlays(run).items() if o.children and o.parent != LOCAL)
    orphans = set(overlays(run)[inner].children)
    run.topology.crash(inner)
    run.kernel.run(to_ns(40))
    made = new_links(run, 20)
    assert len(made) == len(orphans)
    assert all(len(link & orphans) >= 1 for link in made)
    assert len(roots(run)) == 1


@pytest.mark.parametrize("instance", INSTANCES)
def test_one_child_of_a_crashed_root_becomes_root(instance: str) -> None:
    """T10.1-c."""
    run = network(60, overlay={"instance": instance})
    run.begin()
    run.kernel.run(to_ns(20))
    (root,) = roots(run)
    below = set(overlays(run)[root].children)
    run.topology.crash(root)
    run.kernel.run(to_ns(40))
    (new,) = roots(run)
    assert new in below
    assert len({overlay.colour for overlay in overlays(run).values()}) == 1  # T10.2-f


@pytest.mark.parametrize("instance", [*INSTANCES, "RDGUmM"])
def test_a_quarter_crashes_and_one_tree_is_left(instance: str) -> None:
    """T10.3-f, T9-a: the run itself checks that no link closes a cycle."""
    run = network(300, overlay={"instance": instance, "max_degree": 5})
    run.begin()
    run.kernel.run(to_ns(20))
    run.topology.strike(0.25)
    run.kernel.run(to_ns(80))
    assert len(roots(run)) == 1
    assert len(overlays(run)) == 225
    if instance in ("RDGM", "DRGM", "DUmRGM"):
        assert max(overlay.degree() for overlay in overlays(run).values()) <= 6


def test_trees_of_a_long_partition_find_each_other() -> None:
    run = network(
        40, partitions=[{"start": 20.0, "end": 620.0, "share": 0.4}], overlay={"heartbeat": 1.0}
    )
    run.begin()
    run.kernel.run(to_ns(600))
    assert len(roots(run)) == 2
    run.kernel.run(to_ns(720))
    assert len(roots(run)) == 1


def test_overcast_needs_the_global_cache() -> None:
    """Section 10.4.2: Overcast alone falls apart."""
    left = {}
    for name in ("overcast", "overcast-g"):
        run = network(200, overlay={"name": name})
        run.begin()
        run.kernel.run(to_ns(20))
        run.topology.strike(0.4)
        run.kernel.run(to_ns(80))
        left[name] = len(roots(run))
    assert left["overcast"] > left["overcast-g"] == 1


def test_recolouring_spreads_depths() -> None:
    """T10.2-l."""
    run = network(40, overlay={"recolour": 15.0})
    run.begin()
    run.kernel.run(to_ns(12))
    before = {node: overlay.colour for node, overlay in overlays(run).items()}
    run.kernel.run(to_ns(40))
    for node, overlay in overlays(run).items():
        assert overlay.colour[0] > before[node][0]
        if overlay.parent != LOCAL:
            above = overlays(run)[overlay.parent].depth
            assert above < overlay.depth <= above + 1.0


@pytest.mark.parametrize("contacts", [[9], [0], [0, 9]])
def test_contacts_that_are_dead_or_oneself(contacts: list[int]) -> None:
    world = Adversary(1, 10, {})
    life = Life(world, 0, 0)
    world.lives[0] = life
    life.overlay.start()
    life.overlay.join(tuple(Contact(node) for node in contacts))
    while not life.overlay.root:
        if world.letters:
            world.letter(0, world.letters)
        else:
            world.fire(
                min(range(len(world.armed())), key=lambda i: world.armed()[i].due), world.timers
            )
    assert world.now < 1.0


def test_an_address_of_ones_own_is_forgotten() -> None:
    """A contact without an id that turns out to be oneself."""
    world = Adversary(1, 2, {})
    life = Life(world, 0, 0)
    world.lives[0] = life
    life.overlay.join((Contact(-1, "127.0.0.1:1"),))
    ((_, _, request),) = world.letters
    life.overlay.receive(0, Refuse(request.request, "self"))  # type: ignore[attr-defined]
    assert life.overlay.root
    assert not life.overlay.contacts
    assert not life.overlay.known.remembered


def test_repairs_of_two_lives_have_different_numbers() -> None:
    """A FLUSH for a repair before a restart must not be taken for one after it."""
    numbers: list[int] = []
    for epoch in (0, 1, 1_700_000_000_123):
        world = Adversary(1, 3, {})
        life = Life(world, 2, epoch)
        world.lives[2] = life
        overlay = life.overlay
        for _ in range(3):
            overlay.parent, overlay.neighbours[0] = 0, None
            overlay.lose_parent("a test")
            assert overlay.last is not None
            numbers.append(overlay.last.repair)
    assert len(set(numbers)) == 9
    assert {number // REPAIRS for number in numbers} == {2}


def test_a_sibling_that_is_a_child_by_now_does_not_end_the_regional_strategy() -> None:
    life = candidate()
    life.overlay.siblings = (Contact(3), Contact(6))  # 3 is a child of this node
    life.overlay.ancestors = (Contact(0),)
    life.overlay.neighbours[0] = None
    life.overlay.known.insert(Contact(9))
    life.overlay.lose_parent("a test")
    ((to, _, request),) = life.world.letters
    assert (to, type(request)) == (6, ParentRequest)


def test_a_node_that_knows_only_its_region_remembers_it_when_it_falls_silent() -> None:
    """Else a young node that is cut off for long, and a root then, would never find back."""
    overlay = candidate().overlay
    overlay.heard[0] = 0.0
    overlay.neighbours[0] = None
    overlay.ancestors, overlay.siblings = (Contact(0), Contact(5)), (Contact(6),)
    overlay.closed(0)
    while not overlay.root:
        overlay._unanswered()
    assert {contact.node for contact in overlay.known.remembered.values()} == {5, 6}


def test_what_an_operator_sees() -> None:
    run = network(30)
    run.begin()
    run.kernel.run(to_ns(20))
    (root,) = roots(run)
    assert overlays(run)[root].describe()["parent"] == "none (root)"
    orphans = list(overlays(run)[root].children)
    run.topology.crash(root)
    run.kernel.run(to_ns(40))
    child = next(node for node in orphans if not overlays(run)[node].root)
    seen = overlays(run)[child].describe()
    assert str(seen["last search"]).startswith(f"parent {root} lost (the connection broke); ")
    assert f"attached to {seen['parent']} by " in str(seen["last search"])
    assert str(seen["colour"]).startswith("2:")
    (now,) = roots(run)  # its later looks for other trees do not hide how it became root
    assert "no candidate is left: root" in str(overlays(run)[now].describe()["last search"])
    assert str(overlays(run)[now].describe()["last search"]).startswith(f"parent {root} lost")


def test_the_global_cache_replaces_its_oldest_and_remembers_whom_it_purges() -> None:
    cache = GlobalCache(0, 3)
    for node in range(6):
        cache.insert(Contact(node))
    assert {contact.node for contact in cache.contacts} == {3, 4, 5}
    assert [contact.node for contact in cache.to_ping(2)] == [4, 5]
    cache.answered(Contact(4))
    assert [contact.node for contact in cache.to_ping(2)] == [4, 5]  # 5 is remembered
    assert {contact.node for contact in cache.contacts} == {3, 4}


@pytest.mark.parametrize("pings", [1, 2, 4, 10])
def test_no_more_are_pinged_than_configured_and_all_in_the_end(pings: int) -> None:
    cache = GlobalCache(0, 10)
    for node in range(1, 11):
        cache.insert(Contact(node))
    for node in range(20, 24):
        cache.remember(Contact(node))
    pinged = set()
    for _ in range(20):
        chosen = cache.to_ping(pings)
        assert len(chosen) == pings
        for contact in chosen:
            pinged.add(contact.node)
            if contact.node < 20:
                cache.answered(contact)
    assert pinged == {*range(1, 11), *range(20, 24)}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (Beat(), 0),
        (Ping(Contact(1), RED), 4),
        (Pong(Contact(1), RED), 4),
        (ask(1, RED, 2.0), 7),
        (Update(tuple(map(Contact, range(4)))), 4),
        (Refuse(1, "full", (Contact(3), Contact(4))), 4),
        (Regional(RED, 2.0, (Contact(1),) * 3, (Contact(4),) * 4), 11),
        (Accept(0, 1, Contact(1), 0, RED, 2.0, (Contact(0),), (Contact(3),), (Contact(7),)), 11),
    ],
)
def test_a_message_is_as_large_as_what_it_carries(message: Message, words: int) -> None:
    """Section 15.2.2: one that contains four nodes has 16 bytes, and headers."""
    assert message.size() == 20 + 4 * words


def test_the_bytes_of_pings_are_counted_by_their_size() -> None:
    raw = {"nodes": 5, "duration": 20.0, "bin": 20.0, "overlay": {"name": "lstree"}}
    raw |= {"topology": {"name": "full-mesh", "joining": 1.0}, "record": ["traffic"]}
    rows = simulate(parse_config(raw)).tables["traffic"].to_pylist()
    assert all(row["bytes"] == 36 * row["count"] for row in rows if row["kind"] in ("ping", "pong"))
    assert {"ping", "pong"} < {row["kind"] for row in rows}


# What cannot be


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"instance": "RXG"}, "unknown strategy 'X'; known: R"),
        ({"instance": "RDRGM"}, "Regional comes twice"),
        ({"instance": "DUmM"}, "cannot begin a search"),
        ({"instance": "RDG"}, "cannot end: all candidates may have max_degree = 5"),
        ({"instance": "RUGM"}, "U needs leaves that refuse"),
        ({"instance": "RDGM", "max_degree": 0}, "D and M need candidates that refuse"),
        ({"instance": "DUmRGM", "min_degree": 6}, "min_degree = 6 is above max_degree = 5"),
        ({"max_degree": 1}, "leaves no room for a child"),
        ({"instance": ""}, "length >= 1"),
        ({"depth": "imaginary"}, "invalid enum value"),
    ],
)
def test_an_instance_that_cannot_work_is_refused(
    parameters: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(StackError, match=complaint):
        network(10, overlay=parameters)


@pytest.mark.parametrize(
    "message",
    [
        Regional(RED, float("nan"), (), ()),
        Regional(RED, float("inf"), (), ()),
        Ping(Contact(1), (LONGEST + 1, 0, 0)),
        Ping(Contact(1), (1, -1, 0)),
        Ping(Contact(1), (1, 0)),  # type: ignore[arg-type]
        Refuse(1, "tired"),  # type: ignore[arg-type]
    ],
)
def test_the_wire_holds_messages_to_their_bounds(message: Message) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=type(message))


# A peer that lies


class Liar(LSTree):
    """Says that it has a colour ahead of everybody's, and accepts whoever asks."""

    def on_request(self, sender: int, message: Message) -> None:
        request = message
        assert isinstance(request, ParentRequest)
        if self.colour != BLANK and sender not in self.children:
            length = min(request.colour[0] + 1, LONGEST)
            self.colour = (max(self.colour[0], length), self.node, 0)
            self._accept(request)


def liar(run: Simulation, node: int) -> None:
    """From its next life on a node lies."""
    make = run.network.make_node
    assert make is not None

    def lying(host: Any) -> Node:
        made = make(host)
        overlay = made.overlay
        if host.node != node or not isinstance(overlay, LSTree):
            return made
        return Node(host, Liar(host, overlay.parameters, made.routing), made.routing, None)

    run.network.make_node = lying


@pytest.mark.parametrize("seed", range(3))
def test_when_a_liar_is_gone_the_others_are_one_tree(seed: int) -> None:
    """While it is there it may draw others to it, even into a cycle; see docs/lstree.md."""
    run = network(30, crashes=[[10.0 + seed, 3], [12.0, 4]])
    liar(run, 5)
    run.network.acyclic = False
    run.begin()
    run.kernel.run(to_ns(40))
    run.topology.crash(5)
    run.network.acyclic = True
    run.kernel.run(to_ns(140))
    assert len(roots(run)) == 1
    assert len(overlays(run)) == 27


def test_a_parent_that_goes_back_is_left() -> None:
    for data in (Regional((1, 9, 9), 0.0, (), ()), Regional(RED, 3.1, (), ())):
        life = candidate()
        overlay = life.overlay
        overlay.heard[0] = 0.0
        overlay.neighbours[0] = None
        overlay.receive(0, data)
        assert overlay.parent == LOCAL
        assert (overlay.colour, overlay.depth) == ((3, 1, 0), 0.0)  # root, under a new colour


def test_colours_that_a_liar_has_used_up_begin_anew() -> None:
    run = network(12)
    run.begin()
    run.kernel.run(to_ns(15))
    (root,) = roots(run)
    overlays(run)[root].colour = (LONGEST, 99, 0)
    overlays(run)[root].push()
    run.kernel.run(to_ns(16))
    assert {overlay.colour for overlay in overlays(run).values()} == {(LONGEST, 99, 0)}
    run.topology.crash(root)
    run.kernel.run(to_ns(60))
    assert len(roots(run)) == 1
    assert all(overlay.colour[0] < 100 for overlay in overlays(run).values())


@pytest.mark.parametrize("depth", [DEEPEST, DEEPEST - 0.5, DEEPEST - 1.5])
def test_depths_that_a_liar_has_used_up_begin_anew(depth: float) -> None:
    """Nodes below a liar never claim what others refuse to read, and are one tree without it."""
    run = network(12)
    run.begin()
    run.kernel.run(to_ns(15))
    (root,) = roots(run)
    lying = overlays(run)[root]
    lying.colour, lying.depth = (50, root, 0), depth
    lying.push()
    for second in range(16, 60):
        run.kernel.run(to_ns(second))
        for overlay in overlays(run).values():
            message = Regional(overlay.colour, overlay.depth, (), ())
            msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Regional)
    run.topology.crash(root)
    run.kernel.run(to_ns(100))
    assert len(roots(run)) == 1
    assert all(overlay.depth < 12 for overlay in overlays(run).values())


@pytest.mark.parametrize("delay", [0.05, 0.15, 0.2, 0.24, 0.4])
def test_nodes_far_from_each_other_become_one_tree(delay: float) -> None:
    """Four times the delay passes between a request and its answer, for a timeout of 0.5 s."""
    run = network(12, delay=delay)
    run.begin()
    run.kernel.run(to_ns(30))
    assert len(roots(run)) == 1


def test_an_acceptance_that_nobody_asked_for_changes_nothing() -> None:
    life = candidate()
    life.overlay.heard[7] = 0.0
    known = ((3, 7, 0), 0.0, (), (), ())
    life.overlay.receive(7, Accept(0, 1, Contact(7), 0, *known))
    assert life.overlay.parent == 0
    assert life.overlay.colour == RED
    assert 7 not in life.overlay.heard


MADE_UP = tuple(Contact(node) for node in range(100, 4000))


@pytest.mark.parametrize("named_by", ["parent", "candidate"])
def test_nodes_that_a_liar_made_up_do_not_keep_an_orphan_from_the_tree(named_by: str) -> None:
    """One message may name thousands; each that is asked in vain takes half a second."""
    overlay = candidate().overlay
    overlay.heard[0] = 0.0
    overlay.neighbours[0] = None
    overlay.known.insert(Contact(9))
    if named_by == "parent":
        overlay.receive(0, Regional(RED, 2.0, (), MADE_UP))
        overlay.closed(0)
    else:
        overlay.closed(0)
        search = overlay.search
        assert search is not None
        overlay.receive(9, Refuse(search.request, "full", MADE_UP))
    asked = 0
    while not overlay.root:
        overlay._unanswered()
        asked += 1
        assert asked < 30
    assert overlay.last is not None
    asked_all = [who for _, who, _ in overlay.last.trail]
    assert 9 in asked_all, "nodes that others than the liar told of are asked"


def test_nodes_that_a_child_says_it_has_sighted_are_kept_by_number() -> None:
    overlay = candidate().overlay
    overlay.heard[0] = 0.0
    overlay.neighbours[0] = None
    overlay.closed(0)
    assert overlay.root
    for contact in MADE_UP:
        overlay.receive(3, Sighting(contact, (9, contact.node, 0)))
    assert overlay.search is not None
    assert len(overlay.search.sighted) < 100
