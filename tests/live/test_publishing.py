"""What may be published: values that cannot travel cost nothing but an error."""

from __future__ import annotations

import enum
import runpy
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from fleet import Fleet
from live_world import run, until

import shoal
from shoal.cli.bench import folder
from shoal.content import Attributes
from shoal.live import DisconnectedError, RefusedError
from shoal.live.messages import Publish
from shoal.live.wire import encode
from shoal.testing import Network


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Celsius(float):
    pass


BAD: list[tuple[type[Exception], str, dict[Any, Any]]] = [
    (ValueError, "'n' is 9223372036854775808, which cannot be sent", {"n": 2**63}),
    (ValueError, "'n' is 18446744073709551615", {"n": 2**64 - 1}),
    (ValueError, "'n' is 18446744073709551616", {"n": 2**64}),
    (ValueError, "'n' is -9223372036854775809", {"n": -(2**63) - 1}),
    (ValueError, "'n' is a huge number", {"n": 10**5000}),
    (ValueError, "half a surrogate pair at character 2", {"n": "x\ud800"}),
    (ValueError, r"attribute '\\udfff' cannot be sent", {"\udfff": 1}),
    (TypeError, "'n' is a list, which cannot be sent", {"n": [1]}),
    (TypeError, "'n' is a bytes", {"n": b"x"}),
    (TypeError, "'n' is a dict", {"n": {}}),
    (TypeError, "'n' is a object", {"n": object()}),
    (TypeError, "the attribute name 5 is no text", {5: 1}),
]


@pytest.mark.parametrize(("kind", "said", "values"), BAD, ids=lambda x: None)
def test_a_value_that_cannot_travel_is_an_error_and_nothing_else(
    kind: type[Exception], said: str, values: dict[Any, Any]
) -> None:
    async def story() -> None:
        async with (
            Network(2) as network,
            network.connect() as bus,
            bus.subscribe("fine = TRUE", gaps=True) as fine,
        ):
            with pytest.raises(kind, match=said):
                await bus.publish(values)
            with pytest.raises(kind, match=said) as many:
                await bus.publish_many([{"n": 1}, values, {"n": 2}])
            assert getattr(many.value, "taken") == 1  # noqa: B009  # only a LiveError has it
            with pytest.raises(kind, match=said):
                network.brokers[0].publish(values)
            with pytest.raises(kind, match=said):
                network.brokers[0].publish(Attributes(values))
            with pytest.raises(TypeError, match="the body is a str; give bytes"):
                await bus.publish({"n": 1}, body="text")  # type: ignore[arg-type]  # the point
            await bus.publish(fine=True)
            assert (await anext(fine))["fine"] is True
            assert bus.reconnects == 0
            assert len(network.brokers[0].links) == 1

    run(story())


def test_extremes_and_derived_types_travel() -> None:
    async def story() -> None:
        async with (
            Network(1) as network,
            network.connect() as bus,
            bus.subscribe("EXISTS n") as found,
        ):
            for given in (2**63 - 1, -(2**63), "\U0001f41f é", 1.5, True, Colour.RED, Level.HIGH):
                await bus.publish(n=given)
                assert (await anext(found))["n"] == given
            await bus.publish(n=Celsius(21.5), body=bytearray(b"x"))  # type: ignore[arg-type]  # it works
            event = await anext(found)
            assert (event["n"], event.body) == (21.5, b"x")

    run(story())


def test_publish_many_says_how_many_were_taken() -> None:
    async def story() -> None:
        async with (
            Network(1, limits={"attributes": 3}) as network,
            network.connect() as bus,
            bus.subscribe("n >= 0") as found,
        ):
            count = 3000
            events: list[dict[str, Any]] = [{"n": n} for n in range(count)]
            events[2000] = {"n": -1, "a": 1, "b": 2, "c": 3}
            with pytest.raises(RefusedError, match="4 attributes; at most 3") as refused:
                await bus.publish_many(events)
            taken = refused.value.taken
            assert taken is not None
            assert 2000 <= taken < count
            assert f"{taken} of the events were taken" in refused.value.__notes__[0]
            await bus.publish(n=count)
            got = 0
            while (await anext(found))["n"] != count:
                got += 1
            assert got == taken

            def broken() -> Iterator[dict[str, Any]]:
                yield from ({"m": n} for n in range(700))
                raise KeyError("mine")

            with pytest.raises(KeyError, match="mine") as own:
                await bus.publish_many(broken())
            assert "700 of the events were taken" in own.value.__notes__[0]

    run(story())


def test_publish_many_says_how_many_were_taken_by_a_broker_that_died() -> None:
    async def story() -> None:
        fleet = Fleet()
        try:
            process = fleet.add([])
            process.listens()

            def events() -> Iterator[dict[str, int]]:
                for n in range(100_000):
                    if n == 5000:
                        process.signal(signal.SIGKILL)
                    yield {"n": n}

            async with shoal.connect(process.address, patience=1.0) as bus:
                with pytest.raises(DisconnectedError) as lost:
                    await bus.publish_many(events())
            assert lost.value.taken is not None
            assert 5000 - 1024 <= lost.value.taken <= 5000
        finally:
            await fleet.close()

    run(story())


def test_the_load_of_the_live_benchmark_speaks_as_brokers_do() -> None:
    live = runpy.run_path(str(folder() / "live.py"))

    async def world() -> None:
        async with Network(1) as network:
            port = int(network.brokers[0].address.rpartition(":")[2])
            (client,) = await live["clients"](port, 1)
            for number in range(1, 11):
                client.transport.write(encode(Publish(number, {"n": number})))
            await until(lambda: client.accepted == 10, "all are accepted")
            client.transport.close()

    run(world())
