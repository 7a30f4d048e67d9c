"""Filters that would stop a broker: refused from clients, from neighbours, in access files."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_world import run, until

from shoal.content import AttributeFilter
from shoal.live import Broker, LiveError, RefusedError, Settings
from shoal.live.settings import Limits
from shoal.testing import TREE, Network

DEAR = "LOWER(title) LIKE '%storm%' OR UPPER(title) LIKE '%STORM%'"


def test_a_client_is_told_what_its_filter_costs() -> None:
    async def world() -> None:
        async with Network(1, limits={"cost": 50_000_000}) as network, network.connect() as bus:
            with pytest.raises(RefusedError, match=r"may take \d+ million steps .* 50 million are"):
                async with bus.subscribe(DEAR):
                    pass
            async with bus.subscribe("title LIKE '%storm%'") as events:  # the session goes on
                await bus.publish({"title": "a storm"})
                assert (await anext(events))["title"] == "a storm"

    run(world())


def test_what_costs_too_much_for_larger_events_is_refused_where_these_are_taken() -> None:
    wanted = AttributeFilter(DEAR)
    Limits().check_filter(wanted)
    with pytest.raises(ValueError, match="16,777,216 bytes"):
        Limits(frame=16 << 20).check_filter(wanted)


def test_a_neighbour_that_sends_such_a_filter_is_disconnected() -> None:
    async def world() -> None:
        async with Network(1, **TREE) as network:
            (here,) = network.brokers
            settings = Settings(links=(here.address,), limits=Limits(cost=50_000_000), **TREE)
            async with Broker(settings) as strict:
                await until(lambda: here.node in strict.links, "the link is up")
                link = strict.links[here.node]
                async with network.connect() as bus, bus.subscribe(DEAR):
                    await until(lambda: link.connection.gone, "the link is cut")
                    assert "million steps" in link.connection.reason
                    assert not any(table.filters() for table in strict.edge.tables)

    run(world())


def test_a_rule_must_not_cost_too_much(tmp_path: Path) -> None:
    access = tmp_path / "access.toml"
    access.write_text(f'[[allow]]\nname = "anonymous"\npublish = "{DEAR}"\n')
    Broker(Settings(access=access))
    with pytest.raises(LiveError, match=r"'anonymous': .* million steps"):
        Broker(Settings(access=access, limits=Limits(cost=50_000_000)))
