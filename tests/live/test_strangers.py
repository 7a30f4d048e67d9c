"""What strangers tell of themselves, and numbers and addresses that nobody honest would send."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import math
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from live_world import run, until
from test_hostile import Raw, announcer, hello

import shoal
from patience import CONDITION
from shoal.content import AttributeFilter, Attributes, Event
from shoal.live import Broker, LiveError
from shoal.live.messages import Challenge, Known, Welcome
from shoal.live.proof import Caller
from shoal.live.security import hash_token
from shoal.live.settings import Settings
from shoal.live.wire import encode, parse_address
from shoal.pipeline.progress import Progress
from shoal.pipeline.tables.live import gather
from shoal.routing.messages import Forward
from shoal.routing.semiprobabilistic_messages import Feedback
from shoal.testing import Network

TOKEN = "a token that nobody guesses"


class Notes(Progress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.mark.parametrize("bad", ["h:²", "h:" + "9" * 5000, "a..b:1", "é" * 70 + ":1", "\0:1"])
def test_an_address_that_no_system_takes_is_no_address(bad: str) -> None:
    with pytest.raises(LiveError, match="HOST:PORT"):
        parse_address(bad)


def test_clients_stay_though_a_neighbour_tells_of_an_impossible_address() -> None:
    async def story() -> None:
        async with Network(1, shape="tree") as network:
            broker = network.brokers[0]
            raw = await Raw.open(broker)
            who = Known(77, "77", "h:²", 2**40)
            raw.writer.write(encode(hello(broker, "peer", who=who)))
            await raw.answer(Welcome)
            async with network.connect() as bus, bus.subscribe("x = 1") as heard:
                await bus.publish(x=1)
                async with asyncio.timeout(CONDITION):
                    assert (await anext(heard))["x"] == 1
                assert bus.reconnects == 0
                assert heard.gaps == 0
            raw.close()

    run(story())


def test_who_proves_a_token_twice_is_one_client(tmp_path: Path) -> None:
    """While a broker waits for its links, clients wait to be let in."""
    access = tmp_path / "access.toml"
    access.write_text(f'[[allow]]\nname = "c"\ntoken = "{hash_token(TOKEN)}"\n')

    async def story() -> None:
        settings = Settings(access=access, join=("127.0.0.1:1",), settle=0.5)
        async with Broker(settings) as broker:
            raw = await Raw.open(broker)
            caller = Caller(TOKEN, Raw)  # type: ignore[arg-type]  # of a connection without TLS
            said = hello(broker, token_id=caller.token_id, nonce=caller.nonce)
            caller.introduced(said)
            raw.writer.write(encode(said))
            proof = encode(caller.answer(await raw.answer(Challenge)))
            raw.writer.write(proof + proof)
            raw.writer.write(proof)
            await raw.answer(Welcome)
            assert len(broker.sessions) == 1
            raw.close()
            await until(lambda: not broker.sessions, "it is gone")

    Raw.secure, Raw.binding = False, b""  # type: ignore[attr-defined]
    run(story())


@pytest.mark.parametrize(("publisher", "sequence"), [(2**31, 1), (-1, 1), (5, -1), (5, 2**64 - 1)])
def test_an_event_of_nobody_is_not_taken(tmp_path: Path, publisher: int, sequence: int) -> None:
    """Its numbers fit no table, and the recording would end with it."""

    async def story() -> None:
        async with Network(1, shape="tree", record=tmp_path, rotate=0.1) as network:
            broker = network.brokers[0]
            got: list[Event] = []
            broker.listen_to(AttributeFilter("x > 0"), got.append)
            raw = await announcer(broker)
            forged = Event(publisher, sequence, Attributes({"x": 1}))
            raw.writer.write(encode(Forward(forged, 1)))
            assert "unusable message" in await raw.farewell()
            raw.close()
            broker.publish({"x": 2})
            assert [event.content for event in got] == [Attributes({"x": 2})]
            files = tmp_path / "tables" / "deliveries"
            await until(lambda: len(list(files.glob("[!.]*"))) == 1, "it is recorded")

    run(story())


@pytest.mark.parametrize("count", [math.inf, 1e300])
def test_infinite_losses_are_not_heard_of(count: float) -> None:
    for missed, wanted in ((count, 1.0), (1.0, count)):
        said = msgspec.msgpack.encode(Feedback(missed, wanted, 0.5))
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(said, type=Feedback)


def test_a_broker_that_cannot_record_lets_go_of_its_port(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    async def story() -> None:
        async with Network(1) as network:
            address = network.brokers[0].address
        for more in ({"record": tmp_path / "file" / "in"}, {"metrics": "nosuch.invalid:1"}):
            with pytest.raises(LiveError, match=r"cannot record|refusing to show"):
                await Broker(Settings(listen=address, **more)).start()
        async with Broker(Settings(listen=address)):
            pass

    run(story())


@pytest.mark.parametrize("name", ["a/b", "", "part-1", ".x", "\udcff"])
def test_a_run_that_is_no_name_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(LiveError, match="take letters, digits, - and _"):
        run(Broker(Settings(record=tmp_path, run=name)).start())


def test_rows_for_a_disk_that_does_not_answer_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, answers, write = threading.Event(), threading.Event(), pq.write_table
    monkeypatch.setattr("shoal.live.recording.MANY", 10)
    monkeypatch.setattr("shoal.live.recording.MOST", 50)

    def writing(*arguments: Any, **options: Any) -> None:
        stuck.set()
        assert answers.wait(CONDITION)
        write(*arguments, **options)

    monkeypatch.setattr(pq, "write_table", writing)

    async def story() -> None:
        async with Network(1, record=tmp_path, rotate=0.1) as network:
            broker = network.brokers[0]
            recording = broker.recording
            assert recording is not None
            await until(stuck.is_set, "the disk hangs")
            for n in range(100):
                broker.publish({"n": n})
            assert recording.state == "failing: the disk does not keep up"
            assert sum(map(len, recording._rows.values())) == 50
            dropped = recording.dropped
            assert dropped >= 150
            answers.set()
            await until(lambda: recording.state == "on", "it answers")
            assert recording.dropped >= dropped

    run(story())


def test_a_recording_with_holes_is_measured_and_said_to_have_some(
    tmp_path: Path,
) -> None:
    heard = Notes()

    async def story() -> None:
        async with Network(1, record=tmp_path / "logs", rotate=0.1) as network:
            broker = network.brokers[0]
            broker.listen_to(AttributeFilter("x > 0"), lambda event: None)
            notes = tmp_path / "logs" / "tables" / "notes"
            await until(lambda: len(list(notes.glob("[!.]*"))) > 1, "it is recorded")
            broker.publish({"x": 1})

    run(story())
    twice = [tmp_path / "logs"] * 2
    (whole,) = gather(twice, tmp_path / "whole", heard)
    assert "lstree" in whole.configuration
    assert len(pq.read_table(tmp_path / "whole" / "tables" / "publications")) == 1
    assert not heard.said
    min((tmp_path / "logs" / "tables" / "notes").iterdir()).unlink()
    (holed,) = gather(twice, tmp_path / "holed", heard)
    assert json.loads(holed.configuration)["stack"] == "not recorded"
    assert heard.said == ["1 recordings have holes: what was lost there counts in no figure"]


def test_a_recording_that_has_lost_rows_of_one_table_is_said_to_have_holes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Notes()
    write = pq.write_table

    def writing(table: Any, path: Path) -> None:
        if "publications" in path.parts:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(table, path)

    monkeypatch.setattr(pq, "write_table", writing)

    async def story() -> None:
        async with Network(1, record=tmp_path / "logs", rotate=0.1) as network:
            broker = network.brokers[0]
            broker.publish({"x": 1})
            recording = broker.recording
            assert recording is not None
            await until(lambda: recording.dropped == 1, "the row is lost")

    run(story())
    monkeypatch.undo()
    gather([tmp_path / "logs"], tmp_path / "out", heard)
    assert heard.said == ["1 recordings have holes: what was lost there counts in no figure"]


def test_events_of_a_killed_broker_whose_publication_is_lost_are_said_to_be(
    tmp_path: Path,
) -> None:
    heard = Notes()

    async def story() -> None:
        async with Network(2, record=tmp_path / "logs", rotate=60.0) as network:
            got: list[Event] = []
            network.brokers[1].listen_to(AttributeFilter("x > 0"), got.append)
            await network.settled()
            network.brokers[0].publish({"x": 1})
            await until(lambda: bool(got), "it is delivered")

    run(story())
    gather([tmp_path / "logs"], tmp_path / "whole", heard)
    assert not heard.said
    for path in (tmp_path / "logs" / "tables" / "publications").iterdir():
        path.unlink()  # as if the publisher's broker had been killed before it wrote anything
    gather([tmp_path / "logs"], tmp_path / "out", heard)
    (note,) = heard.said
    assert note.startswith("1 events were delivered that no recording has as published")


def test_a_client_that_has_asked_very_often_can_still_subscribe() -> None:
    async def story() -> None:
        async with Network(1) as network, network.connect() as bus:
            bus._requests._numbers = itertools.count(2**40)
            await bus.publish(x=0)
            async with bus.subscribe("x = 1", ordered=0, gaps=1) as heard:  # type: ignore[arg-type]
                await bus.publish(x=1)
                async with asyncio.timeout(CONDITION):
                    assert (await anext(heard))["x"] == 1

    run(story())


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"window": 0}, "window: expected `int` >= 1"),
        ({"queue": 10**9}, "queue: expected `int` <= 10000000"),
        ({"name": "x" * 65}, "name: expected `str` of length <= 64"),
        ({"name": "\ud800"}, "half a surrogate pair"),
        ({"token": b"x"}, "token: expected `str`"),
        ({"patience": math.nan}, "patience: expected `float` >= 0.0"),
        ({"reconnect": (1.0,)}, "reconnect: expected `list` of length 2"),
        ({"when_full": "wait"}, "give one of 'block', 'disconnect', 'drop oldest'"),
        ({"address": 5}, "address: expected `str`"),
    ],
)
def test_what_no_broker_would_take_is_refused_at_once(wish: dict[str, Any], said: str) -> None:
    with pytest.raises(LiveError) as refused:
        shoal.connect(**wish)
    assert said in str(refused.value)


def test_signs_that_steer_a_terminal_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    import logging

    from shoal.cli.broker import _logging
    from shoal.cli.main import run as command
    from shoal.cli.top import view

    evil = "\x1b]0;owned\x07[/x]\n2026-01-01 all is well"
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        _logging(False)
        logging.getLogger("shoal.live").warning("no link: %s", evil)
    finally:
        root.handlers = before
    assert command(["filter", "explain", evil]) == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2, "a line each"
    assert not any("\x1b" in line for line in told)

    async def story() -> None:
        from rich.console import Console

        async with Network(1) as network:
            state = network.brokers[0].status()
            state = msgspec.structs.replace(state, name=evil, address=evil)
            screen = Console(record=True, width=200)
            screen.print(view({state.node: state}, {}))
            shown = screen.export_text()
            assert "[/x]" in shown
            assert "\x1b" not in shown

    run(story())


def test_a_filter_of_half_a_letter_is_refused() -> None:
    with pytest.raises(shoal.FilterError, match="half a surrogate pair"):
        AttributeFilter("x = '\ud800'")
    with pytest.raises(TypeError, match="a filter is text"):
        AttributeFilter(None)  # type: ignore[arg-type]


def test_nobody_hangs_on_a_connection_that_another_thread_closes() -> None:
    with Network(1) as network:
        bus = network.connect_sync()
        heard = bus.subscribe("x = 1").__enter__()
        errors: list[str] = []
        under_way = threading.Event()

        def publish() -> None:
            try:
                while True:
                    bus.publish(x=2)
                    under_way.set()
            except LiveError as error:
                errors.append(str(error))

        def listen() -> None:
            try:
                errors.extend(str(event) for event in heard)
                errors.append("no more")
            except LiveError as error:  # it had not begun
                errors.append(str(error))

        threads = [threading.Thread(target=publish, daemon=True) for _ in range(8)]
        threads.append(threading.Thread(target=listen, daemon=True))
        for thread in threads:
            thread.start()
        assert under_way.wait(CONDITION)
        bus.close()
        for thread in threads:
            thread.join(CONDITION)
        assert not any(thread.is_alive() for thread in threads)
        assert len(errors) == 9
        assert all("closed" in error or error == "no more" for error in errors), errors
        heard.__exit__()
        bus.close()
        with pytest.raises(LiveError, match="the connection is closed"):
            bus.publish(x=1)
