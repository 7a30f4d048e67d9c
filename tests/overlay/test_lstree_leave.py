"""LSTree: a node that leaves under load hands over its children, and no event is lost by it."""

from __future__ import annotations

from typing import Any

import pytest
from adversary import Adversary, Connection, Life

from shoal.overlay.handover_messages import Flush, Flushed, Leaving, Moved, Settled
from shoal.overlay.lstree_member import Child
from shoal.overlay.lstree_messages import Attach, Heir, ParentRequest, Ping, Regional, Welcome
from shoal.simulation import parse_config, simulate
from shoal.stack import LOCAL, Contact, Message

NODES = 24
START, EVERY, LEAVES = 6.0, 1.5, 10
END = START + EVERY * (LEAVES + 2)


def load(seed: int, **topology: Any) -> tuple[int, int, list[dict[str, Any]]]:
    """Deliveries owed and made, and the notes, while nodes leave one after the other."""
    tables = loaded(seed, **topology)
    published = tables["publications"]
    owed = sum(row["owed"] for row in published)
    made = sum(row["received"] for row in published)
    return owed, made, tables["notes"]


def loaded(seed: int, delay: float = 0.03, **topology: Any) -> dict[str, list[dict[str, Any]]]:
    """The tables of a run in which nodes leave under load.

    Those that leave neither publish nor want anything, as a broker whose clients have moved.
    """
    going = range(LEAVES)
    staying = range(LEAVES, NODES)
    script: list[dict[str, Any]] = []
    for node in staying:
        filters = [f"kind = {(node + 5 * k * k) % 12}" for k in range(3)]
        script.append({"at": 0.0, "node": node, "do": "subscribe", "filters": filters})
    count = 3000
    script += [
        {
            "at": START - 1.0 + (END - START) * k / count,
            "node": staying[k % len(staying)],
            "do": "publish",
            "attributes": {"kind": k % 12},
        }
        for k in range(count)
    ]
    config = {
        "nodes": NODES,
        "seed": seed,
        "duration": END,
        "topology": {
            "name": "full-mesh",
            "joining": 1.0,
            "leaves": [[START + EVERY * at, node] for at, node in enumerate(going)],
            **topology,
        },
        "link": {"delay": delay},
        "overlay": {"name": "lstree"},
        "routing": {"name": "subscription-forwarding"},
        "reconfiguration": {"name": "timed"},
        "workload": {"script": script},
        "record": ["publications", "notes", "links"],
    }
    tables = simulate(parse_config(config)).tables
    return {name: table.to_pylist() for name, table in tables.items()}


NEAR_AND_FAR = {"model": "uniform", "low": 0.01, "high": 0.1}
"""What a new parent announces takes longer to some children than its answer to others."""


@pytest.mark.parametrize("latency", [None, NEAR_AND_FAR], ids=["alike", "near and far"])
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_nodes_that_leave_one_by_one_lose_no_event(seed: int, latency: Any) -> None:
    owed, made, notes = load(seed, **({"latency": latency} if latency else {}))
    assert owed > 5000
    assert made == owed
    what = [note["value"].split()[0] for note in notes if note["what"] == "attached"]
    assert what.count("leave") >= LEAVES // 2, "children were handed over"
    assert "lost" not in what, "and nobody was an orphan"


@pytest.mark.parametrize("seed", range(3))
def test_nodes_that_leave_together_lose_no_event(seed: int) -> None:
    """The root is among them, and its heir, and whom their children ask: these name others."""
    leaves = [[START + 0.03 * (node * 7 % LEAVES), node] for node in range(LEAVES)]
    owed, made, notes = load(seed, leaves=leaves)
    assert owed > 5000
    assert made == owed
    assert "lost" not in [n["value"].split()[0] for n in notes if n["what"] == "attached"]


@pytest.mark.parametrize("node", [0, 1])
def test_a_handover_over_long_links_is_not_cut_short(node: int) -> None:
    """The root, and an inner node: messages take 0.2 s, and the handover longer than 5 s."""
    tables = loaded(0, 0.2, leaves=[[START, node]])
    assert all(row["received"] == row["owed"] for row in tables["publications"])
    (gone,) = [note["time"] for note in tables["notes"] if note["what"] == "node down"]
    assert gone > START + 5.0


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("after", [0.1, 0.2, 0.3])
def test_children_move_away_from_a_leaving_node_that_dies(seed: int, after: float) -> None:
    """What passes the dead node is lost until they have; beats would notice after 4 s."""
    tables = loaded(seed, leaves=[[START, 0]], crashes=[[START + after, 0]])
    lost = [row["time"] for row in tables["publications"] if row["received"] < row["owed"]]
    assert lost
    assert max(lost) < START + 1.0
    causes = [n["value"].split()[0] for n in tables["notes"] if n["what"] == "attached"]
    assert "leave" in causes
    assert "lost" not in causes


# A small world: 0 is root, 1 its child, 2 and 3 are children of 1; 9 is a stranger, but connected.

RED = (2, 5, 0)
LINKS = ((0, 1), (1, 2), (1, 3))


def world() -> dict[int, Life]:
    made = Adversary(1, 10, {})
    for depth, node in enumerate((0, 1, 2, 3, 9)):
        life = made.lives[node] = Life(made, node, 0)
        life.overlay.colour, life.overlay.depth = RED, float(depth)
    made.lives[0].overlay.root = True
    for a, b in (*LINKS, (1, 9), (0, 9)):
        above, below = made.lives[a], made.lives[b]
        connection = Connection(above, below)
        connection.open.update((a, b))
        above.connections[b] = below.connections[a] = connection
        above.overlay.heard[b] = below.overlay.heard[a] = 0.0
        if (a, b) in LINKS:
            child = above.overlay.children[b] = Child(Contact(b), 0, 1)
            child.attached = True
            below.overlay.parent, below.overlay.parent_depth = a, above.overlay.depth
            below.overlay.ancestors = (Contact(a),)
            above.overlay.neighbours[b] = None
            below.overlay.neighbours[a] = None
    return made.lives


def sent(a: Life, b: int) -> list[Message]:
    """What has been sent to a node and has not been looked at."""
    queue = a.connections[b].queues[b]
    found = list(queue)
    queue.clear()
    return found


FORGED = [
    Flush((9,), 7, True),
    Flushed((1,), 7),
    Flushed((2, 1), 7),
    Moved(0, 7),
    Settled(),
    Leaving(),
    Heir(),
    Welcome(1),
]


@pytest.mark.parametrize("forged", FORGED, ids=repr)
def test_a_stranger_cannot_speak_for_a_parent_or_a_child(forged: Message) -> None:
    lives = world()
    middle = lives[1].overlay
    middle.stop()
    middle.receive(2, Moved(0, 7))
    for node in (0, 2, 3, 9):
        sent(lives[1], node)
    middle.receive(9, forged)
    assert middle.parent == 0
    assert not middle.root
    assert list(middle.neighbours) == [0, 2, 3]
    assert 2 in middle._parting
    assert not any(sent(lives[1], node) for node in (0, 2, 3))


def test_a_child_cannot_end_what_another_is_handed() -> None:
    lives = world()
    middle = lives[1].overlay
    middle.stop()
    middle.receive(2, Moved(0, 7))
    middle.receive(3, Flushed((1,), 7))
    assert 2 in middle._parting, "events for 2 may still be on their way"
    middle.receive(0, Flushed((1,), 7))
    assert 2 not in middle._parting


@pytest.mark.parametrize(
    "lie", [Attach(1), Regional(RED, 0.0, (), ()), Moved(0, 8), Welcome(1), Heir()], ids=repr
)
def test_a_child_that_moves_and_lies_is_parted_from_all_the_same(lie: Message) -> None:
    lives = world()
    middle = lives[1].overlay
    middle.stop()
    middle.receive(2, Moved(0, 7))
    middle.receive(2, lie)
    for timer in reversed(lives[1].world.timers):
        if timer.on and timer.life is lives[1]:
            timer.callback()
    assert 2 not in middle.neighbours


def test_a_child_that_settles_again_and_again_is_flushed_for_once() -> None:
    lives = world()
    middle = lives[1].overlay
    middle.stop()
    middle.receive(2, Moved(0, 7))
    sent(lives[1], 0)
    for _ in range(100):
        middle.receive(2, Settled())
    assert sent(lives[1], 0) == [Flush((1,), 7, True)]


def test_a_root_that_stops_joins_no_other_tree() -> None:
    """It would have two parents when its heir speaks up."""
    lives = world()
    root = lives[0].overlay
    root.stop()
    assert Heir() in sent(lives[0], 1)
    root.receive(9, Ping(Contact(9), (3, 9, 0)))
    root.merge()
    root.grow()
    assert root.search is None
    assert root.colour == RED


def test_an_heir_that_stops_itself_is_replaced() -> None:
    lives = world()
    middle = lives[1].overlay
    middle.parent, middle.root = LOCAL, True
    middle.stop()
    assert sent(lives[1], 2) == [Heir()]
    middle.receive(2, Leaving())
    assert sent(lives[1], 3) == [Heir()]
    middle.receive(3, Leaving())
    assert sent(lives[1], 2) == sent(lives[1], 3) == [], "nobody is left who stays"


def test_a_node_moves_again_only_when_the_last_move_is_over() -> None:
    lives = world()
    leaf = lives[2].overlay
    leaf.siblings = (Contact(3),)
    leaf.leaving = 9
    leaf.receive(1, Leaving())
    assert not lives[2].world.letters
    leaf._left()
    ((to, _, request),) = lives[2].world.letters
    assert (to, type(request)) == (3, ParentRequest)


def test_a_child_whose_candidates_are_slow_asks_them_again_while_its_parent_waits() -> None:
    """Else it is an orphan once the parent has waited in vain, and events are lost."""
    quiet = Adversary(1, 10, {})
    life = quiet.lives[1] = Life(quiet, 1, 0)
    overlay = life.overlay
    overlay.colour, overlay.depth, overlay.parent = (2, 5, 0), 3.0, 0
    overlay.heard[0], overlay.neighbours[0] = 0.0, None
    overlay.ancestors, overlay.siblings = (Contact(0), Contact(5)), (Contact(6),)

    def asked() -> set[int]:
        found = {to for to, _, message in quiet.letters if isinstance(message, ParentRequest)}
        quiet.letters.clear()
        return found

    def searching() -> str:
        return overlay.search.cause if overlay.search is not None else ""

    overlay.receive(0, Leaving())
    first = asked()
    while searching():
        overlay._unanswered()
        first |= asked()
    assert first == {5, 6}
    quiet.now += overlay.parameters.request_timeout
    for timer in [timer for timer in quiet.timers if timer.on and timer.due <= quiet.now]:
        timer.callback()
    assert asked() <= {5, 6}
    assert searching() == "leave"
    overlay.closed(0)
    assert searching() == "lost"
