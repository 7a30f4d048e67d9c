"""Protocols by name: what is unknown, wrong or cannot work together is refused with a cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest

import shoal.simulation  # noqa: F401  # registers everything
from shoal.stack import Host, Overlay, Routing, StackError, build, protocols, register
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


GIVEN = Choice("given")


def refusal(topology: Choice, *choices: Choice, overlay: Choice | None = GIVEN) -> str:
    with pytest.raises(StackError) as refused:
        build(overlay, *choices, topology=topology)
    return str(refused.value)


TREE = Choice("abstract-tree")
GRAPH = Choice("static-graph")
SUBSCRIPTIONS = Choice("subscription-forwarding")


def test_the_core_protocols_are_there_with_a_summary() -> None:
    names = {(p.kind, p.name) for p in protocols()}
    assert {
        ("topology", "abstract-tree"),
        ("topology", "static-graph"),
        ("topology", "full-mesh"),
        ("overlay", "given"),
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
        ((Choice("spiral"), SUBSCRIPTIONS), ["unknown topology 'spiral'", "abstract-tree"]),
        (
            (TREE, SUBSCRIPTIONS),
            ["'subscription-forwarding' needs a layer that repairs tables", "strawman"],
        ),
        (
            (GRAPH, Choice("event-forwarding")),
            [
                "'event-forwarding' needs a layer that keeps the neighbourhood acyclic",
                "none of 'static-graph', 'given' does",
                "topology 'abstract-tree'",
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
            ["topology 'abstract-tree': shape: invalid enum value 'bush'"],
        ),
        (
            (Choice("full-mesh"), Choice("flooding")),
            ["on topology 'full-mesh' nodes make their links themselves", "graph", "lstree"],
        ),
        (
            (Choice("given"), Choice("flooding")),
            ["'given' is an overlay, not a topology; choose it as overlay = {name = 'given'}"],
        ),
    ],
)
def test_refused_with_cause_and_cure(choices: tuple[Choice, ...], words: list[str]) -> None:
    text = refusal(*choices)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        (Choice("spiral"), ["unknown overlay 'spiral'; known: ", "given"]),
        (TREE, ["'abstract-tree' is a topology, not an overlay", "topology = {name = 'abstract-"]),
        (Choice("strawman"), ["'strawman' is a reconfiguration, not an overlay"]),
        (None, ["routing 'flooding' needs an overlay below it; one of: ", "given"]),
    ],
)
def test_an_overlay_that_is_none_is_refused(overlay: Choice | None, words: list[str]) -> None:
    text = refusal(GRAPH, Choice("flooding"), overlay=overlay)
    for word in words:
        assert word in text


class Digger(Overlay):
    """An overlay that builds itself, and keeps no tree."""

    def __init__(self, host: Host, parameters: NoParameters, routing: Routing) -> None:
        super().__init__(host, routing)


def test_a_topology_gives_an_overlay_that_builds_itself_nothing_but_reach() -> None:
    """The tree of the script is not the tree of the overlay."""
    register("overlay", "digger", Digger, needs={"reach"}, provides={"links"})
    digger = Choice("digger")
    build(digger, Choice("flooding"), topology=Choice("full-mesh"))
    build(digger, Choice("flooding"))  # live, any node reaches any other
    text = refusal(Choice("full-mesh"), Choice("event-forwarding"), overlay=digger)
    assert "'event-forwarding' needs a layer that keeps the neighbourhood acyclic" in text
    text = refusal(TREE, Choice("flooding"), overlay=digger)
    assert "overlay 'digger' needs a layer that lets a node open a connection" in text
    assert "topology 'full-mesh'" in text
    register("topology", "reaching-tree", Digger, provides={"reach", "links", "tree"})
    text = refusal(Choice("reaching-tree"), Choice("event-forwarding"), overlay=digger)
    assert "needs a layer that keeps the neighbourhood acyclic" in text
    build(GIVEN, Choice("event-forwarding"), topology=Choice("reaching-tree"))


def test_a_new_protocol_is_one_call_away() -> None:
    protocol = register("routing", "dial", Dial, DialParameters, needs=(n for n in ["links"]))
    assert protocol.summary == "A routing that does nothing."
    assert protocol.needs == {"links"}
    stack = build(GIVEN, Choice("dial", {"level": 7}), topology=GRAPH)
    routing = stack.on(Host(0, 0)).routing
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


ALONE = {"reach": "full-mesh", "air": "air"}
"""Where routings stand that need no overlay, by what they need."""


@pytest.mark.parametrize("name", [p.name for p in protocols("routing")])
def test_any_routing_can_be_the_base_of_ones_own(name: str) -> None:
    """Also where the routing is compiled and the new one is not."""
    base = find("routing", name)
    mine = type("Mine", (base.make,), {"__doc__": "One's own."})  # type: ignore[arg-type]  # classes
    register("routing", "mine", mine, base.parameters, needs=base.needs, provides=base.provides)
    repair = Choice("strawman") if "tables" in base.provides else None
    alone = [topology for need, topology in ALONE.items() if need in base.needs]
    below = (None, Choice(alone[0])) if alone else (GIVEN, TREE)
    stack = build(below[0], Choice("mine"), repair, topology=below[1])
    assert type(stack.on(Host(0, 0)).routing) is mine


def test_a_name_belongs_to_one_protocol() -> None:
    register("routing", "dial", Dial, DialParameters)
    register("routing", "dial", Dial, DialParameters)  # loaded again: no conflict
    with pytest.raises(StackError, match=r"routing 'dial' is .*Dial already; register .*another"):
        register("routing", "dial", Routing, NoParameters)
    assert find("routing", "dial").make is Dial


def test_a_registration_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(StackError, match="unknown kind of protocol 'gossip'; one of: topology"):
        register("gossip", "x", Dial)  # type: ignore[arg-type]  # on purpose
    with pytest.raises(StackError, match="unknown capability 'magic'; one of: reach"):
        register("routing", "x", Dial, needs={"magic"})
    with pytest.raises(StackError, match=r"routing 'x' must be a subclass of msgspec.Struct"):
        register("routing", "x", Dial, dict)  # type: ignore[arg-type]  # on purpose
