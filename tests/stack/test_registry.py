"""Protocols by name: what is unknown, wrong or cannot work together is refused with a cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest

import shoal.simulation  # noqa: F401  # registers everything
from shoal.stack import Host, Routing, StackError, build, protocols, register
from shoal.stack.registry import CAPABILITIES, Choice, NoParameters, _registry, find, validate


class DialParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    level: Annotated[int, msgspec.Meta(ge=0, le=9)] = 3
    name_of_station: str = ""


class Dial(Routing):
    """A routing that does nothing.

    It has two parameters.
    """

    def __init__(self, host: Host, parameters: DialParameters) -> None:
        super().__init__(host)
        self.parameters = parameters


@pytest.fixture(autouse=True)
def registry_as_before() -> Iterator[None]:
    before = dict(_registry)
    yield
    _registry.clear()
    _registry.update(before)


def refusal(*choices: Choice | None) -> str:
    with pytest.raises(StackError) as refused:
        build(*choices)  # type: ignore[arg-type]  # two to four choices
    return str(refused.value)


TREE = Choice("abstract-tree")
GRAPH = Choice("static-graph")
SUBSCRIPTIONS = Choice("subscription-forwarding")


def test_the_core_protocols_are_there_with_a_summary() -> None:
    names = {(p.kind, p.name) for p in protocols()}
    assert {
        ("overlay", "abstract-tree"),
        ("overlay", "static-graph"),
        ("routing", "event-forwarding"),
        ("routing", "flooding"),
        ("routing", "subscription-forwarding"),
        ("reconfiguration", "strawman"),
    } <= names
    for protocol in protocols():
        if not protocol.make.__module__.startswith("shoal."):
            continue  # another test's own
        assert protocol.summary
        assert "\n" not in protocol.summary
        assert protocol.needs | protocol.provides <= set(CAPABILITIES)


def test_protocols_are_listed_by_kind_and_name() -> None:
    keys = [(p.kind, p.name) for p in protocols()]
    assert keys == sorted(keys)
    assert [p.kind for p in protocols("overlay")] == ["overlay"] * len(protocols("overlay"))


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        (
            (TREE, Choice("subscription-forwardin")),
            ["unknown routing 'subscription-forwardin'", "did you mean 'subscription-forwarding'?"],
        ),
        ((TREE, Choice("telepathy")), ["unknown routing 'telepathy'; known: ", "flooding"]),
        ((Choice("ring"), SUBSCRIPTIONS), ["unknown overlay 'ring'", "abstract-tree"]),
        (
            (TREE, SUBSCRIPTIONS),
            ["'subscription-forwarding' needs a layer that repairs tables", "strawman"],
        ),
        (
            (GRAPH, Choice("event-forwarding")),
            [
                "'event-forwarding' needs a layer that keeps the neighbourhood acyclic",
                "none of 'static-graph' does",
                "use one of: abstract-tree",
            ],
        ),
        (
            (TREE, Choice("event-forwarding"), Choice("strawman")),
            ["reconfiguration 'strawman' needs a layer that keeps subscription tables"],
        ),
        (
            (TREE, SUBSCRIPTIONS, Choice("strawman"), Choice("prayer")),
            ["unknown recovery 'prayer'"],
        ),
        (
            (TREE, Choice("event-forwarding", {"speed": 3})),
            ["routing 'event-forwarding' has no parameter 'speed'", "known: none"],
        ),
        (
            (Choice("abstract-tree", {"shape": "bush"}), Choice("event-forwarding")),
            ["overlay 'abstract-tree': shape: invalid enum value 'bush'"],
        ),
    ],
)
def test_refused_with_cause_and_cure(choices: tuple[Choice, ...], words: list[str]) -> None:
    text = refusal(*choices)
    assert "\n" not in text
    for word in words:
        assert word in text


def test_a_new_protocol_is_one_call_away() -> None:
    protocol = register("routing", "dial", Dial, DialParameters, needs=(n for n in ["links"]))
    assert protocol.summary == "A routing that does nothing."
    assert protocol.needs == {"links"}
    stack = build(GRAPH, Choice("dial", {"level": 7}))
    routing = stack.routing_on(Host(0, 0))
    assert isinstance(routing, Dial)
    assert routing.parameters == DialParameters(level=7)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"levle": 1}, ["routing 'dial' has no parameter 'levle'; did you mean 'level'?"]),
        ({"level": 10}, ["routing 'dial': level: expected `int` <= 9"]),
        ({"level": "high"}, ["routing 'dial': level: expected `int`, got `str`"]),
    ],
)
def test_parameters_are_checked_by_the_protocols_own_type(
    parameters: dict[str, Any], words: list[str]
) -> None:
    protocol = register("routing", "dial", Dial, DialParameters)
    with pytest.raises(StackError) as refused:
        validate(protocol, parameters)
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("name", [p.name for p in protocols("routing")])
def test_any_routing_can_be_the_base_of_ones_own(name: str) -> None:
    """Also where the routing is compiled and the new one is not."""
    base = find("routing", name)
    mine = type("Mine", (base.make,), {"__doc__": "One's own."})  # type: ignore[arg-type]  # classes
    register("routing", "mine", mine, base.parameters, needs=base.needs, provides=base.provides)
    repair = Choice("strawman") if "tables" in base.provides else None
    assert type(build(TREE, Choice("mine"), repair).routing_on(Host(0, 0))) is mine


def test_a_name_belongs_to_one_protocol() -> None:
    register("routing", "dial", Dial, DialParameters)
    register("routing", "dial", Dial, DialParameters)  # loaded again: no conflict
    with pytest.raises(StackError, match=r"routing 'dial' is .*Dial already; register .*another"):
        register("routing", "dial", Routing, NoParameters)
    assert find("routing", "dial").make is Dial


def test_a_registration_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(StackError, match="unknown kind of protocol 'gossip'; one of: overlay"):
        register("gossip", "x", Dial)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(StackError, match="unknown capability 'magic'; one of: links"):
        register("routing", "x", Dial, needs={"magic"})
