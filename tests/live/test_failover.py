"""Alternatives to a link, with every reconfiguration protocol that live links can serve."""

from __future__ import annotations

from typing import Any

import pytest
from live_world import links_of, run, states_of, tables_of, tree_tables, until

from shoal.content import AttributeFilter
from shoal.live import Broker
from shoal.live.settings import Settings
from shoal.testing import QUICK, TREE


@pytest.mark.parametrize(
    "protocol",
    [
        {"name": "strawman"},
        {"name": "timed"},
        {"name": "notified"},
        {"name": "informed-asymmetric", "unsubscription_timer": 0.1},
    ],
    ids=lambda p: str(p["name"]),
)
def test_a_link_moves_to_its_alternative_and_tables_follow(protocol: dict[str, Any]) -> None:
    """b hangs on a and moves to c when a dies: a-b, c-b after; c-d, b-e all along."""

    async def story() -> None:
        tree: dict[str, Any] = {
            "overlay": TREE["overlay"],
            "routing": {"name": "subscription-forwarding"},
            "reconfiguration": protocol,
            **QUICK,
        }
        a = await Broker(Settings(name="0", **tree)).start()
        c = await Broker(Settings(name="2", links=(a.address,), **tree)).start()
        b = await Broker(Settings(name="1", links=(f"{a.address},{c.address}",), **tree)).start()
        d = await Broker(Settings(name="3", links=(c.address,), **tree)).start()
        e = await Broker(Settings(name="4", links=(b.address,), **tree)).start()
        rest = [b, c, d, e]
        got: list[int] = []
        wants = {3: {"x = 3"}, 4: {"x = 4", "y > 1"}, 1: {"x = 1"}, 2: {"x = 4"}}
        for broker in rest:
            for filter in sorted(wants.get(broker.node, ())):
                broker.listen_to(AttributeFilter(filter), lambda event: got.append(1))
        await until(lambda: len(states_of([e])[0].table or []) == 5, "tables are laid")
        await a.stop()

        def right() -> bool:
            states = states_of(rest)
            try:
                links = links_of(states)
            except AssertionError:
                return False
            return 1 in links[2] and tables_of(states) == tree_tables(links, wants)

        try:
            await until(right, "the tables are those of the new tree")
            got.clear()
            d.publish({"x": 4, "y": 0})
            await until(lambda: len(got) == 2, "events take the new way")
        finally:
            for broker in rest:
                await broker.stop()

    run(story())
