"""MAODV and WiTree in a world that loses, delays and repeats frames: no cycle, ever.

More seeds: ``SHOAL_SEEDS=5000 pytest tests/overlay/test_air_safety.py``.
"""

import inspect
import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from air_world import AirWorld, Radio

from shoal.overlay import maodv_label
from shoal.overlay.maodv_label import Label
from shoal.overlay.maodv_messages import Handover
from shoal.stack import LOCAL, Message, NodeId

SEEDS = int(os.environ.get("SHOAL_SEEDS", "60"))
FIRST = int(os.environ.get("SHOAL_FIRST_SEED", "0"))


@pytest.mark.parametrize("overlay", ["maodv", "witree"])
def test_whatever_becomes_of_frames_links_form_no_cycle_and_the_tree_heals(overlay: str) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        world = AirWorld(overlay, seed, nodes=4 + seed % 9)
        world.history(rounds=12)
        world.settle(120.0)
        assert world.wrong() is None, world.wrong()


@pytest.mark.skipif(
    not inspect.isfunction(maodv_label.leads), reason="compiled functions cannot be patched"
)
def test_the_adversary_finds_a_cycle_where_labels_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("maodv", "maodv_member", "maodv_search"):
        monkeypatch.setattr(f"shoal.overlay.{module}.leads", lambda first, second: True)

    def troubled() -> None:
        for seed in range(200):
            world = AirWorld("witree", seed, nodes=6)
            monkeypatch.setattr(world, "check", world.check_links)
            world.history(rounds=12)

    with pytest.raises(AssertionError, match="closes a cycle"):
        troubled()


@pytest.mark.parametrize("overlay", ["maodv", "witree"])
def test_forged_messages_crash_no_node(overlay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(FIRST, FIRST + SEEDS):
        world, draw = AirWorld(overlay, seed, nodes=5), Random(seed)
        monkeypatch.setattr(world, "check", lambda: None)  # a liar may close a cycle
        for _ in range(200):
            world.step()
            if world.lives:
                life = draw.choice(list(world.lives.values()))
                life.overlay.receive(*forged(draw, life))


def test_a_handover_makes_no_node_its_own_parent() -> None:
    world = AirWorld("witree", 0, nodes=2)
    world.places = [(0.0, 0.0), (0.1, 0.0)]
    for _ in range(2):
        world.start(0)
    world.settle(30.0)
    child = next(life for life in world.lives.values() if life.overlay.parent != LOCAL)
    member, parent = child.overlay, child.overlay.parent
    label = world.lives[parent].overlay.label
    # The world refuses a frame from a node to itself.
    member.receive(parent, Handover(member.number, 1, label, 0.5, (), child.node, 1, -1))
    assert member.parent == LOCAL
    assert member.search is not None
    assert member.search.target == LOCAL


def forged(draw: Random, life: Radio) -> tuple[NodeId, Message]:
    """A message that a liar sends to a node, with what the liar could have overheard."""
    member, liar = life.overlay, (life.node + draw.randrange(1, 5)) % 5
    search, kind = member.search, draw.choice(list(member.handlers()))
    if draw.random() < 0.5 and member.parent != LOCAL:
        liar = member.parent
    elif search is not None and search.target != LOCAL:
        liar = search.target
    ids = (*range(5), 10**6)
    counts = [0, 1, 2**40, 2**62, member.number, member.count]
    counts += [] if search is None else [search.number, search.request]
    steps = (-1e9, -1.0, 0.0, 1e-10, 0.5, 1.0, 1e9)

    def label() -> Label:
        group = member.label[:4] if draw.random() < 0.5 else draw.choices(counts, k=4)
        return (*group, draw.choice(steps))

    words: dict[str, Callable[[], Any]] = {
        "label": label,
        "path": lambda: tuple(draw.choices(ids, k=draw.choice((0, 0, 1, 3, 1100)))),
        "children": lambda: tuple(draw.choices(ids, k=3)),
        "requester": lambda: draw.choice((life.node, draw.choice(ids))),
        "parent": lambda: draw.choice((LOCAL, *ids)),
        "far": lambda: draw.choice((LOCAL, liar, *ids)),
        "step": lambda: draw.choice(steps),
        "member": lambda: draw.random() < 0.5,
    }
    fields = [words.get(name, lambda: draw.choice(counts))() for name in kind.__struct_fields__]
    return liar, kind(*fields)
