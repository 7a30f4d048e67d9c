"""TLS with names bound to certificates, tokens, and rules that hold at every hop."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from certificates import Authority, Pair
from live_world import run, until

import shoal
from shoal.content import AttributeFilter
from shoal.live import Broker, LiveError, RefusedError, Settings
from shoal.live.handshake import Handshakes
from shoal.live.messages import Hello
from shoal.live.proof import Caller
from shoal.live.security import client_context, hash_token, server_context
from shoal.live.settings import settings_from
from shoal.testing import QUICK, TREE, Network


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "test authority")


def secured(authority: Authority, pair: Pair, name: str, **more: Any) -> Settings:
    return Settings(
        name=name,
        certificate=pair.certificate,
        key=pair.key,
        authority=authority.certificate,
        **{**TREE, **QUICK, **more},
    )


def test_brokers_and_clients_over_tls(authority: Authority) -> None:
    async def story() -> None:
        a, b = authority.issue("a"), authority.issue("b")
        ca = authority.certificate
        async with (
            Broker(secured(authority, a, "a")) as one,
            Broker(secured(authority, b, "b", links=(one.address,))) as two,
            shoal.connect(one.address, ca=ca, broker="a") as bus,
            shoal.connect(two.address, ca=ca, broker="b") as other,
            bus.subscribe("n > 0") as numbers,
        ):
            await until(lambda: bool(two.status(True).table), "b knows")
            await other.publish(n=1)
            assert (await anext(numbers))["n"] == 1
            with pytest.raises(RefusedError, match="the certificate is for a, not for 'b'"):
                await shoal.connect(one.address, ca=ca, broker="b")
            with pytest.raises(LiveError, match="hung up without an answer"):
                await shoal.connect(one.address)  # without TLS

    run(story())


def test_a_node_is_bound_to_its_certificate(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        a, b = authority.issue("a"), authority.issue("b")
        async with (
            Broker(secured(authority, a, "a")) as one,
            Broker(secured(authority, b, "c", links=(one.address,))) as liar,
        ):
            await until(lambda: "certificate is for b, not for 'c'" in caplog.text, "it is said")
            assert not one.links
            assert not liar.links

    run(story())


def test_a_broker_does_not_start_with_a_certificate_that_others_would_refuse(
    authority: Authority, tmp_path: Path
) -> None:
    with pytest.raises(LiveError, match=r"old\.pem: has expired; issue a new one"):
        Broker(secured(authority, authority.issue("old", expired=True), "old"))
    stranger = Authority(tmp_path, "stranger").issue("b")
    with pytest.raises(LiveError, match=r"b\.pem: is not trusted \(.*\); give its authority"):
        Broker(secured(authority, stranger, "b"))


@pytest.mark.parametrize("kind", ["stranger", "expired", "none"])
def test_a_broker_without_a_good_certificate_gets_no_link(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    async def story() -> None:
        async with Broker(secured(authority, authority.issue("a"), "a")) as one:
            settings = Settings(name="b", links=(one.address,), **TREE, **QUICK)
            two = Broker(settings)
            if kind != "none":  # its own checks are circumvented
                issuer = authority if kind == "expired" else Authority(tmp_path, "stranger")
                pair = issuer.issue("b", expired=kind == "expired")
                two.tls_out = client_context(pair.certificate, pair.key, authority.certificate)
            async with two:
                said = r"hung up without an answer|certificate has expired|does not trust"
                await until(lambda: re.search(said, caplog.text) is not None, caplog.text)
                await asyncio.sleep(0.3)
                assert not one.links
                assert not two.links

    run(story())


def test_a_broker_whose_certificate_is_bad_is_refused_by_clients(
    authority: Authority, tmp_path: Path
) -> None:
    async def story() -> None:
        good = authority.issue("a")
        for issuer, said in (
            (authority, "its certificate has expired; issue a new one"),
            (Authority(tmp_path, "stranger"), "its certificate is not trusted"),
        ):
            bad = issuer.issue("bad", expired=issuer is authority)
            broker = Broker(secured(authority, good, "a"))
            broker.tls_in = server_context(bad.certificate, bad.key, authority.certificate)
            async with broker:
                with pytest.raises(LiveError, match=said):
                    await shoal.connect(broker.address, ca=authority.certificate)

    run(story())


def test_key_and_certificate_must_belong_together(authority: Authority) -> None:
    a, b = authority.issue("a"), authority.issue("b")
    with pytest.raises(LiveError, match="must be PEM files that belong together"):
        Broker(secured(authority, Pair(a.certificate, b.key), "a"))


def test_only_loopback_is_open_without_tls(authority: Authority) -> None:
    async def story() -> None:
        with pytest.raises(LiveError, match="give --cert, --key and --ca, or say --insecure"):
            await Broker(Settings(listen="0.0.0.0:0")).start()
        for more in ({"insecure": True}, {"listen": "localhost:0"}, {"listen": "127.0.0.9:0"}):
            async with Broker(settings_from({"listen": "0.0.0.0:0", **more})):
                pass
        a = authority.issue("a")
        async with Broker(secured(authority, a, "a", listen="0.0.0.0:0")):
            pass

    run(story())


RULES = f"""
[[allow]]
name = "thermometer"
token = "{hash_token("secret-t")}"
publish = "kind = 'reading' AND celsius < 100"
subscribe = "FALSE"

[[allow]]
name = "display"
token = "{hash_token("secret-d")}"
publish = "FALSE"
subscribe = "kind = 'reading'"

[[allow]]
name = "peers"
token = "{hash_token("secret-p")}"
publish = "kind = 'reading' OR kind = 'public'"
subscribe = "kind = 'reading' OR kind = 'public'"
"""


def test_tokens_and_rules_on_what_clients_publish_and_receive(tmp_path: Path) -> None:
    async def story() -> None:
        access = tmp_path / "access.toml"
        access.write_text(RULES)
        async with Network(1, access=access) as network:
            with pytest.raises(RefusedError, match="wants a token"):
                await network.connect()
            with pytest.raises(RefusedError, match="the token is not known here"):
                await network.connect(token="guess")
            async with (
                network.connect(token="secret-t") as thermometer,
                network.connect(token="secret-d") as display,
            ):
                await thermometer.publish(kind="reading", celsius=21)
                with pytest.raises(RefusedError, match="'thermometer' may not publish this"):
                    await thermometer.publish(kind="reading", celsius=121)
                with pytest.raises(RefusedError, match="'display' may not publish"):
                    await display.publish(kind="reading", celsius=21)
                with pytest.raises(RefusedError, match="may not receive this; allowed is: FALSE"):
                    await thermometer.subscribe("TRUE").start()
                with pytest.raises(RefusedError, match="allowed is: kind = 'reading'"):
                    await display.subscribe("kind = 'secret'").start()
                async with display.subscribe("TRUE") as everything:
                    # Narrowed to what is allowed, in the routing tables already.
                    assert [str(f) for f in network.brokers[0].edge.filters()] == [
                        "TRUE AND kind = 'reading'"
                    ]
                    network.brokers[0].publish({"kind": "secret", "n": 1})
                    await thermometer.publish(kind="reading", celsius=22)
                    assert (await anext(everything))["celsius"] == 22

    run(story())


def test_rules_hold_on_every_link(tmp_path: Path) -> None:
    async def story() -> None:
        access = tmp_path / "access.toml"
        access.write_text(RULES)
        open_ = Settings(name="1", token="secret-p", **TREE, **QUICK)
        async with (
            Broker(open_) as outside,
            Broker(
                Settings(name="2", links=(outside.address,), access=access, **TREE, **QUICK)
            ) as inside,
        ):
            here: list[Any] = []
            there: list[Any] = []

            def into(found: list[Any]) -> Any:
                return lambda event: found.append(event.content.values["n"])

            inside.listen_to(AttributeFilter("TRUE"), into(here))
            outside.listen_to(AttributeFilter("TRUE"), into(there))
            await until(
                lambda: (
                    len(inside.status(True).table or []) == 2
                    and len(outside.status(True).table or []) == 2
                ),
                "linked",
            )
            for n, kind in enumerate(("public", "secret", "reading")):
                outside.publish({"kind": kind, "n": n})
                inside.publish({"kind": kind, "n": 10 + n})
            await until(lambda: len(here) == 5 and len(there) == 5, f"{here} {there}")
            await asyncio.sleep(0.1)
            assert sorted(here) == [0, 2, 10, 11, 12]
            assert sorted(there) == [0, 1, 2, 10, 12]

    run(story())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[allow]]\nname = 'a'\ntoken = 'plain'\n", "'a': the token is not hashed"),
        ("[[allow]]\nname = 'a'\npublish = 'x >'\n", "'a': filter, character 4"),
        ("[[allow]]\nname = 'a'\nplublish = 'x'\n", "unknown field `plublish`"),
        ("[[allow]\n", "access.toml: "),
    ],
)
def test_bad_access_files(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "access.toml"
    path.write_text(text)
    with pytest.raises(LiveError, match=said):
        Broker(Settings(access=path))


def test_a_clock_that_is_off_is_said_and_links_work(caplog: pytest.LogCaptureFixture) -> None:
    original = Handshakes.hello

    def ahead(self: Handshakes, purpose: str, caller: Caller, **more: Any) -> Hello:
        hello = original(self, purpose, caller, **more)
        return msgspec.structs.replace(hello, time=hello.time + 60.0)

    async def story() -> None:
        async with (
            Broker(Settings(name="1", **TREE, **QUICK)) as one,
            Broker(Settings(name="2", links=(one.address,), **TREE, **QUICK)),
        ):
            await until(lambda: bool(one.links), "linked all the same")
            assert one.status().links[0].skew > 50

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Handshakes, "hello", ahead)
        run(story())
    assert "the clock of '2' is 60.0 s ahead" in caplog.text
