"""Filters that would stop a broker: refused from clients, from neighbours, in access files."""

from __future__ import annotations

from pathlib import Path

import pytest
from live_world import run
from test_hostile import Raw, hello

from shoal.content import AttributeFilter
from shoal.live import Broker, LiveError, RefusedError, Settings
from shoal.live.messages import Welcome
from shoal.live.settings import Limits
from shoal.live.wire import encode
from shoal.routing.messages import Subscribe
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
    """It said that it has the same limit, or there would be no link."""

    async def world() -> None:
        async with Broker(Settings(limits=Limits(cost=50_000_000), **TREE)) as strict:
            raw = await Raw.open(strict)
            raw.writer.write(encode(hello(strict, "peer")))
            await raw.answer(Welcome)
            raw.writer.write(encode(Subscribe(AttributeFilter(DEAR))))
            assert "million steps" in await raw.farewell()
            assert not any(table.filters() for table in strict.edge.tables)
            raw.close()

    run(world())


def test_a_rule_must_not_cost_too_much(tmp_path: Path) -> None:
    access = tmp_path / "access.toml"
    access.write_text(f'[[allow]]\nname = "anonymous"\npublish = "{DEAR}"\n')
    Broker(Settings(access=access))
    with pytest.raises(LiveError, match=r"'anonymous': .* million steps"):
        Broker(Settings(access=access, limits=Limits(cost=50_000_000)))
