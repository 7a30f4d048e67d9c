"""MAODV and WiTree in a world that loses, delays and repeats frames: no cycle, ever.

More seeds: ``SHOAL_SEEDS=5000 pytest tests/overlay/test_air_safety.py``.
"""

import inspect
import os

import pytest
from air_world import AirWorld

from shoal.overlay import maodv_label

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
