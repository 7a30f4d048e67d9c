"""Locks: who is a broker, whom a client trusts, and what a token gives away. All by strangers'
means: real brokers, real sockets, and somebody in between."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from certificates import Authority
from live_world import run, until

import shoal
from patience import CONDITION
from shoal.live import Broker, LiveError, RefusedError, Settings
from shoal.live.connection import Connection
from shoal.live.messages import VERSIONS, Challenge, Hello, Known, Proof, Refused, Welcome
from shoal.live.processes import free_port
from shoal.live.proof import Caller
from shoal.live.security import client_context, hash_token, server_context
from shoal.live.settings import Limits
from shoal.live.wire import LENGTH, Splitter, encode, parse_address
from shoal.testing import GRAPH, QUICK, TREE, Network

ENVIRONMENT = {**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONUNBUFFERED": "1"}
TOKEN = "a token that nobody guesses"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "test authority")


def rules(folder: Path, **entries: dict[str, Any]) -> Path:
    """An access file; tokens are given plain."""
    path = folder / f"access-{len(list(folder.iterdir()))}.toml"
    lines: list[str] = []
    for name, entry in entries.items():
        lines += ["[[allow]]", f'name = "{name}"']
        for key, value in entry.items():
            shown = str(value).lower() if isinstance(value, bool) else f'"{value}"'
            lines.append(f"{key} = " + (f'"{hash_token(value)}"' if key == "token" else shown))
    path.write_text("\n".join(lines))
    return path


def tls(authority: Authority, name: str, also: str = "") -> dict[str, Any]:
    pair = authority.issue(name, also=also)
    return {
        "name": name,
        "certificate": pair.certificate,
        "key": pair.key,
        "authority": authority.certificate,
    }


async def refused(broker: Broker, caplog: pytest.LogCaptureFixture, said: str) -> None:
    await until(lambda: said in caplog.text, f"'{said}' is said")
    assert not broker.status().links


# With an access file, who is not named as a peer is not one


@pytest.mark.parametrize("dials", ["stranger", "guarded"])
def test_a_certificate_alone_makes_no_broker(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, dials: str
) -> None:
    access = rules(tmp_path, display={"subscribe": "FALSE"}, b={"peer": True})

    async def story() -> None:
        first, second = ("a", "display") if dials == "stranger" else ("display", "a")
        files: dict[str, Any] = {"a": {"access": access}, "display": {}}
        async with (
            Broker(Settings(**tls(authority, first), **files[first], **TREE, **QUICK)) as one,
            Broker(
                Settings(**tls(authority, second), **files[second], links=(one.address,),
                         **TREE, **QUICK)
            ) as two,
        ):  # fmt: skip
            guarded, stranger = (one, two) if first == "a" else (two, one)
            await refused(guarded, caplog, "'display' is not a peer in the access file")
            async with Broker(
                Settings(**tls(authority, "b"), links=(guarded.address,), **TREE, **QUICK)
            ) as named:
                await until(lambda: len(named.status().links) == 1, "who is named is linked")
            assert not stranger.status().links

    run(story())


@pytest.mark.parametrize(
    ("name", "token", "said"),
    [
        ("b", "", "broker 'b' does not prove its name"),
        ("b", "another token", "the token is not known here"),
        ("b", "the token of gauge", "broker 'b' does not prove its name"),
        ("gauge", "the token of gauge", "'gauge' is not a peer in the access file"),
        ("c", TOKEN, "'c' is not a peer in the access file"),
    ],
)
def test_without_tls_a_broker_proves_its_name_by_a_token(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, token: str, said: str
) -> None:
    access = rules(
        tmp_path, b={"peer": True, "token": TOKEN}, gauge={"token": "the token of gauge"}
    )

    async def story() -> None:
        async with Broker(Settings(name="a", access=access, **TREE, **QUICK)) as one:
            dial = {"links": (one.address,), **TREE, **QUICK}
            async with Broker(Settings(name=name, token=token, **dial)):
                await refused(one, caplog, said)
            async with Broker(Settings(name="b", token=TOKEN, **dial)) as good:
                await until(lambda: len(good.status().links) == 1, "who proves it is linked")

    run(story())


def test_without_tls_a_broker_with_rules_links_to_no_stranger(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    access = rules(tmp_path, a={"peer": True, "token": TOKEN})

    async def story() -> None:
        for token, linked in (("", False), ("another", False), (TOKEN, True)):
            async with (
                Broker(Settings(name="a", token=token, **TREE, **QUICK)) as one,
                Broker(
                    Settings(name="b", access=access, links=(one.address,), **TREE, **QUICK)
                ) as two,
            ):
                if linked:
                    await until(lambda: len(two.status().links) == 1, "linked")
                else:
                    await until(lambda: "no link: " in caplog.text, "refused")
                    assert not two.status().links
                caplog.clear()

    run(story())


def test_one_token_may_serve_all_brokers(tmp_path: Path) -> None:
    access = rules(tmp_path, peers={"token": TOKEN}, anonymous={})

    async def story() -> None:
        async with (
            Network(4, access=access, token=TOKEN) as network,
            network.connect(0) as bus,
            network.connect(3) as other,
            other.subscribe("n > 0") as numbers,
        ):
            await network.settled()
            await bus.publish(n=1)
            assert (await anext(numbers))["n"] == 1

    run(story())


def test_a_broker_that_is_no_longer_named_loses_its_links(tmp_path: Path) -> None:
    access = rules(tmp_path, b={"peer": True, "token": TOKEN})

    async def story() -> None:
        async with (
            Broker(Settings(name="a", access=access, **TREE, **QUICK)) as one,
            Broker(Settings(name="b", token=TOKEN, links=(one.address,), **TREE, **QUICK)),
        ):
            await until(lambda: len(one.status().links) == 1, "linked")
            access.write_text("")
            await one.reload()
            await until(lambda: not one.status().links, "no longer")

    run(story())


# Outgoing TLS


def test_only_the_given_authority_counts(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Authority(tmp_path, "one of the system's")
    monkeypatch.setenv("SSL_CERT_FILE", str(other.certificate))
    pair = other.issue("a", also="IP:127.0.0.1")

    async def story() -> None:
        broker = Broker(Settings(**tls(authority, "a"), **TREE, **QUICK))
        broker.tls_in = server_context(pair.certificate, pair.key, None)
        async with broker:
            with pytest.raises(LiveError, match="its certificate is not trusted"):
                await shoal.connect(broker.address, ca=authority.certificate)
            async with shoal.connect(broker.address, ca=other.certificate):
                pass

    run(story())


def test_a_certificate_is_for_the_host_or_for_the_broker_expected(authority: Authority) -> None:
    async def story() -> None:
        ca = authority.certificate
        async with Broker(Settings(**tls(authority, "a"), **TREE, **QUICK)) as broker:
            with pytest.raises(RefusedError, match=r"is for a, not for '127\.0\.0\.1'"):
                await shoal.connect(broker.address, ca=ca)
            with pytest.raises(RefusedError, match="is for a, not for 'b'"):
                await shoal.connect(broker.address, ca=ca, broker="b")
            for names in ("a", "b, a"):
                async with shoal.connect(broker.address, ca=ca, broker=names):
                    pass
        local = tls(authority, "c", also="IP:127.0.0.1,DNS:localhost")
        async with Broker(Settings(**local, **TREE, **QUICK)) as broker:
            port = parse_address(broker.address)[1]
            for host in ("127.0.0.1", "localhost"):
                async with shoal.connect(f"{host}:{port}", ca=ca):
                    pass

    run(story())


# Tokens


class Overheard:
    """Bytes in both directions of the connections through somebody in between."""

    def __init__(self) -> None:
        self.address = ""
        self.from_caller = b""
        self.from_broker = b""
        self.calls = 0

    def frames(self, data: bytes) -> list[bytes]:
        return [bytes(frame) for frame in Splitter(1 << 20).feed(data)]


@asynccontextmanager
async def between(
    target: str, *, listen_tls: Any = None, dial_tls: Any = None, name: str = ""
) -> AsyncIterator[Overheard]:
    """Somebody between a caller and a broker, who passes everything on and writes it down.

    With a ``name``, he says that the broker is of that name.
    """
    heard = Overheard()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, up: bool) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if up:
                    heard.from_caller += data
                else:
                    heard.from_broker += data
                    if name:
                        data = renamed(data, name)
                writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.calls += 1
        there, back = await asyncio.open_connection(*parse_address(target), ssl=dial_tls)
        await asyncio.gather(pump(reader, back, True), pump(there, writer, False))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=listen_tls)
    heard.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield heard
    finally:
        server.close()


def renamed(data: bytes, name: str) -> bytes:
    """The same frames from a broker of another name."""
    out = b""
    for frame in Splitter(1 << 20).feed(data):
        message = msgspec.msgpack.decode(frame, type=Challenge | Welcome | Refused)
        if isinstance(message, Challenge | Welcome):
            who = msgspec.structs.replace(message.who, name=name)
            message = msgspec.structs.replace(message, who=who)
        out += encode(message)
    return out


def test_a_token_never_crosses_the_wire(tmp_path: Path) -> None:
    access = rules(tmp_path, gauge={"token": TOKEN})

    async def story() -> None:
        async with (
            Broker(Settings(name="a", access=access)) as broker,
            between(broker.address) as heard,
        ):
            async with shoal.connect(heard.address, token=TOKEN) as bus:
                await bus.publish(n=1)
            assert TOKEN.encode() not in heard.from_caller
            assert b"proof" in heard.from_caller
            verifier = hash_token(TOKEN).split(":")
            for secret in map(bytes.fromhex, verifier[2:]):
                assert secret not in heard.from_caller + heard.from_broker

            # What was overheard is of no use again.
            reader, writer = await asyncio.open_connection(*parse_address(broker.address))
            writer.write(heard.from_caller)
            said = heard.frames(await reader.read())
            assert isinstance(msgspec.msgpack.decode(said[0], type=Challenge), Challenge)
            assert msgspec.msgpack.decode(said[1], type=Refused).code == "token"
            writer.close()

    run(story())


def test_an_access_file_proves_no_token(tmp_path: Path) -> None:
    """Who has read the file knows what the broker knows, and still cannot be the client."""
    access = rules(tmp_path, gauge={"token": TOKEN})

    async def story() -> None:
        async with Broker(Settings(name="a", access=access)) as broker:
            id = bytes.fromhex(hash_token(TOKEN).split(":")[1])
            reader, writer = await asyncio.open_connection(*parse_address(broker.address))
            me = Known(-1, "thief", "", 0)
            hello = Hello(VERSIONS, "client", "link", me, 0.0, token_id=id, nonce=b"n" * 32)
            for stolen in hash_token(TOKEN).split(":")[2:]:
                writer.write(encode(hello) + encode(Proof(bytes.fromhex(stolen))))
                break
            said = [bytes(f) for f in Splitter(1 << 20).feed(await reader.read())]
            assert msgspec.msgpack.decode(said[-1], type=Refused).code == "token"
            writer.close()
            with pytest.raises(RefusedError, match="not known here"):
                await shoal.connect(broker.address, token=hash_token(TOKEN))

    run(story())


def test_a_proof_is_not_given_to_who_does_not_know_the_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with Broker(Settings(name="fake", access=rules(tmp_path, gauge={"token": "x"}))) as b:
            with pytest.raises(RefusedError, match="token is not known here"):
                await shoal.connect(b.address, token=TOKEN)
        async with (
            Broker(Settings(name="open")) as broker,
            between(broker.address) as heard,
        ):
            with pytest.raises(RefusedError, match="'open' has no access rules"):
                await shoal.connect(heard.address, token=TOKEN)
            assert b"proof" not in heard.from_caller

        async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            writer.write(encode(Challenge(Known(1, "1", "", 0), b"n" * 32, b"p" * 32)))
            got.append(await reader.read())

        got: list[bytes] = []
        server = await asyncio.start_server(lie, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RefusedError, match="could not prove that it knows the token"):
            await shoal.connect(f"127.0.0.1:{port}", token=TOKEN)
        await until(lambda: bool(got), "it has hung up")
        assert b"proof" not in got[0]
        server.close()

    run(story())


def test_with_tls_nobody_in_between_can_pass_a_proof_on(
    authority: Authority, tmp_path: Path
) -> None:
    """A man in the middle with a certificate that the client accepts: he has stolen it."""
    access = rules(tmp_path, gauge={"token": TOKEN})
    stolen = authority.issue("stolen", also="IP:127.0.0.1")
    ca = authority.certificate

    async def story() -> None:
        dial = client_context(None, None, ca)
        async with (
            Broker(Settings(**tls(authority, "a"), access=access, **TREE, **QUICK)) as broker,
            between(
                broker.address,
                listen_tls=server_context(stolen.certificate, stolen.key, None),
                dial_tls=dial,
            ) as heard,
        ):
            with pytest.raises(RefusedError, match="could not prove that it knows the token"):
                await shoal.connect(heard.address, ca=ca, token=TOKEN)
            assert b"proof" not in heard.from_caller
            async with shoal.connect(broker.address, ca=ca, token=TOKEN, broker="a") as bus:
                await bus.publish(n=1)

    run(story())


@pytest.mark.parametrize("renames", [False, True])
def test_nothing_is_proven_to_another_broker_than_the_one_expected(
    tmp_path: Path, renames: bool
) -> None:
    access = rules(tmp_path, gauge={"token": TOKEN})

    async def story() -> None:
        async with (
            Broker(Settings(name="hall", access=access)) as broker,
            between(broker.address, name="kitchen" if renames else "") as heard,
        ):
            said = "could not prove" if renames else "'hall' is there, not 'kitchen'"
            with pytest.raises(RefusedError, match=said):
                await shoal.connect(heard.address, token=TOKEN, broker="kitchen")
            assert b"proof" not in heard.from_caller

    run(story())


def test_an_impostor_does_not_make_a_client_give_up(tmp_path: Path) -> None:
    """Somebody takes a broker's address while it is down, and is gone again."""
    access = rules(tmp_path, gauge={"token": TOKEN})

    async def story() -> None:
        address = f"127.0.0.1:{free_port()}"
        settings: dict[str, Any] = {"listen": address, "access": access}
        options: dict[str, Any] = {"broker": "a", "reconnect": (0.02, 0.1)}
        async with Broker(Settings(name="a", **settings)) as broker:
            bus = await shoal.connect(address, token=TOKEN, **options)
            await bus.publish(n=1)
        tried = asyncio.Event()

        async def lie(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            writer.write(encode(Welcome(2, Known(1, "evil", "", 0), 0.0)))
            await reader.read()
            tried.set()

        server = await asyncio.start_server(lie, *parse_address(address))
        await asyncio.wait_for(tried.wait(), CONDITION)
        server.close()
        await server.wait_closed()
        async with Broker(Settings(name="a", **settings)) as broker:
            await bus.publish(n=2)
            assert broker.status().published == 1
            await bus.close()

    run(story())


def test_top_proves_nothing_to_an_address_that_a_peer_made_up(tmp_path: Path) -> None:
    access = rules(
        tmp_path,
        viewer={"token": TOKEN, "inspect": True},
        evil={"peer": True, "token": "the token of evil"},
    )

    async def story() -> None:
        async with (
            Broker(Settings(name="a", access=access, **TREE, **QUICK)) as one,
            between(one.address) as trap,  # passes everything on to a broker that knows the token
            Broker(
                Settings(name="evil", token="the token of evil", advertise=trap.address,
                         links=(one.address,), **TREE, **QUICK)
            ),
        ):  # fmt: skip
            await until(lambda: len(one.status().links) == 1, "linked")
            arguments = ["top", "--broker", one.address, "--token", TOKEN, "--count", "2"]
            ran = await command(*arguments, "--interval", "0.1", "--expect", "a")
            assert ran[0] == 0, ran
            assert "1 broker" in ran[1]
            assert trap.calls > 0, "it looked there"
            assert TOKEN.encode() not in trap.from_caller
            assert b"proof" not in trap.from_caller

    run(story())


def test_a_client_that_moves_proves_nothing_to_an_address_that_a_peer_made_up(
    tmp_path: Path,
) -> None:
    access = rules(
        tmp_path, gauge={"token": TOKEN}, evil={"peer": True, "token": "the token of evil"}
    )

    async def story() -> None:
        async with (
            Broker(Settings(name="b", access=access)) as other,  # knows the token, too
            between(other.address) as trap,
        ):
            one = await Broker(Settings(name="a", access=access, **TREE, **QUICK)).start()
            evil = Settings(
                name="evil",
                token="the token of evil",
                advertise=trap.address,
                links=(one.address,),
                **{**TREE, **QUICK},
            )
            async with Broker(evil):
                await until(lambda: len(one.status().links) == 1, "linked")
                bus = await shoal.connect(one.address, token=TOKEN, reconnect=(0.02, 0.1))
                await until(lambda: trap.address in bus.others, "it was told of evil")
                await one.stop()
                await until(lambda: trap.calls > 1, "it looked there, and again")
                assert b"proof" not in trap.from_caller
                assert not other.status().clients
                await bus.close()

    run(story())


async def command(*arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "shoal", *arguments),
        env=ENVIRONMENT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    return process.returncode, out.decode()


def test_commands_name_the_broker_they_expect(tmp_path: Path) -> None:
    async def story() -> None:
        async with Broker(Settings(name="hall")) as broker:
            for arguments in (("pub", "n=1"), ("sub", "--count", "1"), ("top", "--count", "1")):
                where = ("--broker", broker.address, "--expect", "kitchen")
                code, said = await command(*arguments, *where)
                assert (code, "'hall' is there, not 'kitchen'" in said) == (2, True), said
            code, said = await command("pub", "--broker", broker.address, "--expect", "hall", "n=1")
            assert code == 0, said

    run(story())


# What is seen of others


def test_inspecting_is_a_right(tmp_path: Path) -> None:
    access = rules(
        tmp_path, gauge={"token": TOKEN}, viewer={"token": "the viewer's", "inspect": True}
    )

    async def story() -> None:
        async with (
            Network(1, access=access) as network,
            network.connect(token=TOKEN) as gauge,
            network.connect(token="the viewer's") as viewer,
            gauge.subscribe("n > 0") as numbers,
        ):
            with pytest.raises(RefusedError, match=r"'gauge' may not inspect .* inspect = true"):
                await gauge.inspect(tables=True)
            await gauge.publish(n=1)  # refused, not disconnected
            assert (await anext(numbers))["n"] == 1
            assert gauge.reconnects == 0
            state = await viewer.inspect(tables=True)
            assert {client.principal for client in state.clients} == {"gauge", "viewer"}
            asked = ("top", "--broker", network.brokers[0].address, "--count", "1", "--token")
            code, said = await command(*asked, TOKEN)
            assert (code, "'gauge' may not inspect" in said) == (2, True), said
            assert (await command(*asked, "the viewer's"))[0] == 0

    run(story())


def test_a_stranger_is_told_of_no_other_broker(tmp_path: Path) -> None:
    """Not even by a broker that has no room."""
    access = rules(tmp_path, peers={"token": TOKEN})

    async def story() -> None:
        async with Network(
            3, shape="graph", access=access, token=TOKEN, overlay={"degree": 1}
        ) as network:
            broker = network.brokers[0]
            reader, writer = await asyncio.open_connection(*parse_address(broker.address))
            me = Known(77, "77", "127.0.0.1:1", 1)
            writer.write(encode(Hello(VERSIONS, "peer", "link", me, 0.0, broker.described)))
            (said,) = [bytes(f) for f in Splitter(1 << 20).feed(await reader.read())]
            answer = msgspec.msgpack.decode(said, type=Refused)
            assert answer.code == "identity"
            assert [known.node for known in answer.others] == [broker.node]
            writer.close()

    run(story())


# Sessions


def test_a_clock_that_is_no_number_is_refused() -> None:
    """It would stand in the broker's state, where nobody could read it."""

    async def story() -> None:
        async with Network(1, **TREE) as network, network.connect() as bus:
            broker = network.brokers[0]
            for time_ in (float("inf"), float("nan")):
                reader, writer = await asyncio.open_connection(*parse_address(broker.address))
                me = Known(77, "77", "127.0.0.1:1", 1)
                writer.write(encode(Hello(VERSIONS, "peer", "link", me, time_, broker.described)))
                await reader.read()  # it hangs up
                writer.close()
            assert not (await bus.inspect()).links

    run(story())


async def introduce(broker: Broker, name: str, epoch: int) -> tuple[asyncio.StreamWriter, Any]:
    """Say that one is a broker, without any proof; the answer."""
    reader, writer = await asyncio.open_connection(*parse_address(broker.address))
    me = Known(int(name), name, "127.0.0.1:1", epoch)
    hello = Hello(VERSIONS, "peer", "link", me, 0.0, stack=broker.described)
    writer.write(encode(hello))
    frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    return writer, msgspec.msgpack.decode(frame, type=Welcome | Refused)


def test_an_epoch_from_the_far_future_locks_nobody_out() -> None:
    settings: dict[str, Any] = {**TREE, **QUICK, "heartbeat": 1.0}

    async def story() -> None:
        async with Broker(Settings(name="1", **settings)) as one:
            for closes in (True, False):  # the stranger leaves, or falls silent
                writer, answer = await introduce(one, "2", 2**62)
                assert isinstance(answer, Welcome), "an open network believes names"
                if closes:
                    writer.transport.abort()
                async with Broker(Settings(name="2", links=(one.address,), **settings)) as two:
                    await until(lambda: bool(two.status().links), "the real one is linked")
                    again, answer = await introduce(one, "2", 2**62)  # and stays so
                    assert isinstance(answer, Refused)
                    assert "another session of '2' is linked and alive" in answer.reason
                    again.transport.abort()
                await until(lambda: not one.status().links, "gone")
                writer.transport.abort()

    run(story())


def test_a_clock_that_was_set_back_locks_nobody_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    now = time.time_ns

    async def story() -> None:
        async with Broker(Settings(name="1", **GRAPH, **QUICK)) as one:
            for back in (0, 3600):
                monkeypatch.setattr(time, "time_ns", lambda: now() - back * 10**9)  # noqa: B023
                async with Broker(Settings(name="2", join=(one.address,), **GRAPH, **QUICK)) as two:
                    await until(lambda: bool(one.status().links), "linked")
                    (link,) = one.status().links
                    assert link.address == two.address
                await until(lambda: not one.status().links, "gone")

    run(story())


# The documentation


def test_a_proof_that_was_begun_under_old_rules_gives_nothing_under_new_ones(
    tmp_path: Path,
) -> None:
    """Who is about to be removed could else keep a proof ready, and end it after the removal."""
    access = rules(tmp_path, gauge={"token": TOKEN}, other={"token": "another token"})
    narrowed = rules(tmp_path, gauge={"token": TOKEN, "publish": "FALSE"})
    removed = rules(tmp_path, other={"token": "another token"})

    async def story() -> None:
        for later, said in ((narrowed, "changed"), (removed, "changed")):
            mine = tmp_path / "access.toml"
            mine.write_text(access.read_text())
            async with Broker(Settings(access=mine, **QUICK)) as broker:
                host, port = parse_address(broker.address)
                reader, writer = await asyncio.open_connection(host, port)
                caller = Caller(TOKEN, Connection(Limits()))
                me = Known(-1, "gauge", "", 0)
                hello = Hello(
                    VERSIONS, "client", "link", me, time.time(),
                    token_id=caller.token_id, nonce=caller.nonce,
                )  # fmt: skip
                caller.introduced(hello)
                writer.write(encode(hello))
                challenge = await frame(reader, Challenge)
                mine.write_text(later.read_text())
                await broker.reload()
                writer.write(encode(caller.answer(challenge)))
                assert (await frame(reader, Refused)).code == said
                writer.close()
                mine.write_text(access.read_text())
                await broker.reload()
                async with shoal.connect(broker.address, token=TOKEN) as bus:
                    await bus.publish(n=1)

    run(story())


def test_what_waits_for_a_client_is_withheld_if_new_rules_say_so(tmp_path: Path) -> None:
    old = rules(tmp_path, anonymous={"subscribe": "n > 0"}, gauge={"token": TOKEN})
    new = rules(tmp_path, anonymous={"subscribe": "n > 3"}, gauge={"token": TOKEN})

    async def story() -> None:
        mine = tmp_path / "access.toml"
        mine.write_text(old.read_text())
        async with (
            Broker(Settings(access=mine, **QUICK)) as broker,
            shoal.connect(broker.address, window=1) as display,
            shoal.connect(broker.address, token=TOKEN) as gauge,
        ):
            shown = await display.subscribe("TRUE").start()
            for n in range(7):
                await gauge.publish(n=n)
            mine.write_text(new.read_text())
            await broker.reload()
            # The first was sent before.
            assert [(await anext(shown))["n"] for _ in range(4)] == [1, 4, 5, 6]

    run(story())


async def frame(reader: asyncio.StreamReader, kind: Any) -> Any:
    (length,) = LENGTH.unpack(await reader.readexactly(4))
    return msgspec.msgpack.decode(await reader.readexactly(length), type=kind)


def test_every_promise_names_a_test_that_there_is() -> None:
    here = Path(__file__).parent
    page = (here.parents[1] / "docs" / "security.md").read_text()
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", page)
    assert len(named) > 15
    for file, test in named:
        assert f"def {test}(" in (here / file).read_text(), f"{file}::{test}"
