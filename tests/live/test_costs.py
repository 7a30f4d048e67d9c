"""Filters that would stop a broker: refused from clients, from neighbours, in access files."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from live_world import run, until
from test_hostile import Raw, hello

from shoal.content import AttributeFilter
from shoal.live import Broker, LiveError, RefusedError, Settings
from shoal.live.client import Bus, Subscription
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


def alone(n: int) -> str:
    """One of many filters that an index has to ask one by one."""
    return f"LOWER(title) LIKE '%storm {n:04}%'"


STEPS = Limits().scan_of(AttributeFilter(alone(1)))
SIXTEEN = {"scan": 16 * STEPS, "cost": 16 * STEPS}


async def taken(bus: Bus, numbers: Iterable[int]) -> list[Subscription]:
    """Subscribe to such filters until one is refused."""
    held = []
    for n in numbers:
        try:
            held.append(await bus.subscribe(alone(n)).start())
        except RefusedError as error:
            if error.code != "cost" or "raise limits.scan" not in str(error):
                raise
            break
    return held


def test_filters_that_are_asked_one_by_one_share_a_budget() -> None:
    async def world() -> None:
        async with (
            Network(1, limits=SIXTEEN) as network,
            network.connect() as greedy,
            network.connect() as modest,
        ):
            edge = network.brokers[0].edge
            held = await taken(greedy, range(100))
            assert len(held) == 16
            assert edge.scanning == 16 * STEPS
            # What is found by an index, or is asked anyway, costs no more.
            async with greedy.subscribe("n > 3 AND title LIKE '%storm%'"):
                again = await modest.subscribe(alone(3)).start()
            others = await taken(modest, range(100, 200))
            assert 6 <= len(others) <= 8, "everybody has a share, whatever others have"
            await again.stop()
            for subscription in (*held, *others):
                await subscription.stop()
            await until(lambda: edge.scanning == 0, "all is given back")
            held = await taken(greedy, range(100))
            assert len(held) == 16
            await greedy.close()
            await until(lambda: edge.scanning == 0, "also by who just leaves")

    run(world())


def test_no_number_of_clients_takes_more_than_twice_that_budget() -> None:
    async def world() -> None:
        async with Network(1, limits=SIXTEEN) as network, AsyncExitStack() as stack:
            held = []
            for n in range(12):
                bus = await stack.enter_async_context(network.connect())
                held += await taken(bus, range(100 * n, 100 * n + 100))
            assert 16 * STEPS <= network.brokers[0].edge.scanning <= 32 * STEPS

    run(world())


def test_filters_of_other_brokers_count() -> None:
    async def world() -> None:
        async with (
            Network(2, shape="tree", limits=SIXTEEN) as network,
            network.connect(0) as here,
            network.connect(1) as there,
        ):
            held = await taken(here, range(100))
            await network.settled()
            assert network.brokers[1].edge.scanning == 16 * STEPS
            more = await taken(there, range(100, 200))
            assert (len(held), len(more)) == (16, 8), "a half for the clients of each broker"

    run(world())


def test_long_texts_belong_into_the_body() -> None:
    async def world() -> None:
        async with Network(1) as network, network.connect() as bus:
            await bus.publish(title="x" * 65_000, body=bytes(900_000))
            with pytest.raises(RefusedError, match="put long texts into the body"):
                await bus.publish(title="x" * 66_000)
            with pytest.raises(RefusedError, match="put long texts into the body"):
                await bus.publish({f"a{n}": "x" * 660 for n in range(100)})
            with pytest.raises(RefusedError, match=r"raise limits\.text"):
                network.brokers[0].publish({"title": "x" * 66_000})
            assert bus.reconnects == 0
        async with Network(1, limits={"text": 1 << 20}) as network, network.connect() as bus:
            await bus.publish(title="x" * 900_000)

    run(world())


def test_long_filters_of_all_clients_share_a_budget() -> None:
    async def world() -> None:
        budget, length = 1 << 20, 30_000
        async with (
            Network(1, limits={"memory": budget}) as network,
            network.connect() as greedy,
            network.connect() as modest,
        ):
            edge = network.brokers[0].edge
            fit = budget // (length + 6)
            held = [await greedy.subscribe(f"t = '{n:0{length}}'").start() for n in range(fit)]
            with pytest.raises(RefusedError, match=r"no more than limits\.memory are taken"):
                await greedy.subscribe(f"t = '{fit:0{length}}'").start()
            assert budget - 2 * length < edge.characters <= budget
            others = [await modest.subscribe(f"n = {n}").start() for n in range(50)]
            assert len(others) == 50, "everybody has a share"
            await held.pop().stop()
            await until(lambda: edge.characters < budget - length, "that is given back")
            await greedy.close()
            await until(lambda: edge.characters < 1000, "also by who leaves")
            await modest.close()
            await until(lambda: edge.characters == 0, "all of it")

    run(world())
