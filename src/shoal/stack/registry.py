"""Protocols by name: one place where they are registered, validated and put together.

A protocol module ends with one call::

    register("routing", "event-forwarding", EventForwarding, needs={"tree"})

and from then on its name works in every configuration file, experiment and command. A combination
that cannot work is refused here, by name and with the reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import msgspec

from shoal.stack.describe import allowed
from shoal.stack.node import Node

if TYPE_CHECKING:
    from shoal.stack.host import Host

Kind: TypeAlias = Literal["topology", "overlay", "routing", "reconfiguration", "recovery"]

CAPABILITIES: Mapping[str, str] = {
    "reach": "lets a node open a connection to any other",
    "air": "carries frames by radio",
    "notice": "tells both ends of a connection when it breaks",
    "links": "reports links up and down",
    "tree": "keeps the neighbourhood acyclic",
    "root": "knows a root, and each node its parent",
    "association": "says which new link replaces which old one",
    "both ends": "says so at both ends of the old link",
    "path": "knows the reconfiguration path",
    "tables": "keeps subscription tables that a reconfiguration protocol can repair",
    "symmetric": "lets every subscription travel in every direction",
    "reconfiguration": "repairs tables when links change",
}
"""Capabilities that one layer may need of another, in words."""


class StackError(ValueError):
    """A stack that cannot be built; the message names the cause and the cure."""


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a protocol that has none."""


@dataclass(frozen=True)
class Protocol:
    """A registered protocol: how to make it, what it needs of the other layers and offers them."""

    kind: Kind
    name: str
    make: Callable[..., Any]
    parameters: type[msgspec.Struct] = NoParameters
    needs: frozenset[str] = frozenset()
    provides: frozenset[str] = frozenset()
    summary: str = ""
    warn: Callable[[Mapping[str, Any]], str | None] | None = None
    """Given all layers' parameters by kind: what is allowed but unwise, and why."""
    agree: frozenset[str] = frozenset()
    """Parameters that must be the same at all nodes; brokers that differ in one are not linked."""


_registry: dict[tuple[Kind, str], Protocol] = {}


def register(
    kind: Kind,
    name: str,
    make: Callable[..., Any],
    parameters: type[msgspec.Struct] = NoParameters,
    *,
    needs: Iterable[str] = (),
    provides: Iterable[str] = (),
    summary: str = "",
    warn: Callable[[Mapping[str, Any]], str | None] | None = None,
    agree: Iterable[str] = (),
) -> Protocol:
    """Make a protocol known by name.

    Its summary defaults to the first line of its docstring; compiled classes have none.
    """
    needs, provides = frozenset(needs), frozenset(provides)
    if kind not in get_args(Kind):
        raise StackError(f"unknown kind of protocol '{kind}'; one of: {', '.join(get_args(Kind))}")
    if not (isinstance(parameters, type) and issubclass(parameters, msgspec.Struct)):
        raise StackError(f"the parameters of {kind} '{name}' must be a subclass of msgspec.Struct")
    for capability in sorted(needs | provides):
        if capability not in CAPABILITIES:
            raise StackError(
                f"{kind} '{name}' names an unknown capability '{capability}'; "
                f"one of: {', '.join(CAPABILITIES)}"
            )
    for name_ in sorted(set(agree) - set(parameters.__struct_fields__)):
        raise StackError(f"{kind} '{name}' has no parameter '{name_}' to agree on")
    if not summary and make.__doc__:
        summary = make.__doc__.strip().splitlines()[0]
    protocol = Protocol(
        kind, name, make, parameters, needs, provides, summary, warn, frozenset(agree)
    )
    known = _registry.get((kind, name))
    if known is not None and _origin(known.make) != _origin(make):
        raise StackError(
            f"{kind} '{name}' is {_origin(known.make)} already; "
            f"register {_origin(make)} under another name"
        )
    _registry[kind, name] = protocol
    return protocol


def _origin(make: Callable[..., Any]) -> str:
    """Where a protocol is defined; loading the same module again is no conflict."""
    return f"{make.__module__}.{make.__qualname__}"


def protocols(kind: Kind | None = None) -> list[Protocol]:
    """All registered protocols, by kind and name."""
    return [p for key, p in sorted(_registry.items()) if kind in (None, key[0])]


def find(kind: Kind, name: str) -> Protocol:
    """The protocol of that name; an unknown one is an error that says what there is."""
    protocol = _registry.get((kind, name))
    if protocol is None:
        known = [p.name for p in protocols(kind)]
        for other in protocols():
            if other.name == name:
                raise StackError(
                    f"'{name}' is {_a(other.kind)}, not {_a(kind)}; "
                    f"choose it as {other.kind} = {{name = '{name}'}}"
                )
        raise StackError(f"unknown {kind} '{name}'{suggestion(name, known)}")
    return protocol


def _a(kind: Kind) -> str:
    return f"an {kind}" if kind == "overlay" else f"a {kind}"


def suggestion(name: str, known: list[str]) -> str:
    """The end of an error message on an unknown name: the nearest known one, and all of them."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ";"
    return f"{hint} known: {', '.join(known) or 'none'}"


class Choice(msgspec.Struct, frozen=True):
    """A protocol's name and its parameters, as written in a configuration."""

    name: str
    parameters: dict[str, Any] = {}


def choice(kind: str, section: Mapping[str, Any]) -> Choice:
    """What a section of a configuration chooses: its ``name``, the rest as parameters."""
    parameters = dict(section)
    name = parameters.pop("name", None)
    if not isinstance(name, str):
        raise StackError(f"section '{kind}' needs a name, e.g. {kind} = {{name = '…'}}")
    return Choice(name, parameters)


@dataclass(frozen=True)
class Stack:
    """A checked combination, ready to be made on each node.

    ``overlay`` is absent where the routing keeps its own connections. ``topology`` is the script
    that a simulation follows; a live network has none.
    """

    topology: Protocol | None
    overlay: Protocol | None
    routing: Protocol
    reconfiguration: Protocol | None
    recovery: Protocol | None
    parameters: Mapping[str, Any]
    handled_by: dict[Any, int] = field(default_factory=dict, compare=False, repr=False)
    """Per type of message, the place of the layer that handles it; known to the first node."""

    def protocols(self) -> list[Protocol]:
        """The protocols that were chosen."""
        all_kinds = (
            *(self.topology, self.overlay, self.routing),
            *(self.reconfiguration, self.recovery),
        )
        return [protocol for protocol in all_kinds if protocol is not None]

    def provides(self, capability: str) -> bool:
        """Whether one of the protocols offers this to the others."""
        return any(capability in _offered(p, self.protocols()) for p in self.protocols())

    def warnings(self) -> list[str]:
        """What is allowed but unwise about this combination, one line each."""
        found = [p.warn(self.parameters) for p in self.protocols() if p.warn is not None]
        return [text for text in found if text is not None]

    def on(self, host: Host) -> Node:
        """All layers of this stack on one host."""
        parameters = self.parameters
        repair = self.reconfiguration
        if repair is None:
            routing = self.routing.make(host, parameters["routing"])
        else:
            make, chosen = repair.make, parameters["reconfiguration"]
            routing = self.routing.make(
                host, parameters["routing"], lambda routing: make(routing, chosen)
            )
        overlay = recovery = None
        if self.overlay is not None:
            overlay = self.overlay.make(host, parameters["overlay"], routing)
            needs = self.routing.needs | self.overlay.needs
            routing.moving = "tree" in needs and bool(needs & {"reach", "air"})
        if self.recovery is not None:
            recovery = self.recovery.make(host, parameters["recovery"], routing)
        return Node(host, overlay, routing, recovery, self.handled_by)


def build(
    overlay: Choice | None,
    routing: Choice,
    reconfiguration: Choice | None = None,
    recovery: Choice | None = None,
    *,
    topology: Choice | None = None,
) -> Stack:
    """Check a stack and its parameters; refuse what cannot work, with the reason.

    Without a topology it is a stack for a live network, in which any node can reach any other.
    """
    layers: dict[Kind, Choice | None] = {
        "topology": topology,
        "overlay": overlay,
        "routing": routing,
        "reconfiguration": reconfiguration,
        "recovery": recovery,
    }
    chosen = {kind: choice for kind, choice in layers.items() if choice is not None}
    found = {kind: find(kind, choice.name) for kind, choice in chosen.items()}
    stack = Stack(
        topology=found.get("topology"),
        overlay=found.get("overlay"),
        routing=found["routing"],
        reconfiguration=found.get("reconfiguration"),
        recovery=found.get("recovery"),
        parameters={
            kind: validate(found[kind], chosen[kind].parameters, found.values()) for kind in chosen
        },
    )
    _check_needs(stack)
    return stack


def _offered(protocol: Protocol, stack: list[Protocol]) -> frozenset[str]:
    """A protocol's capabilities; a topology's links count only if the overlay passes them on."""
    if protocol.kind != "topology" or any(
        "links" in other.needs for other in stack if other.kind == "overlay"
    ):
        return protocol.provides
    return protocol.provides & {"reach", "notice", "air"}


def _check_needs(stack: Stack) -> None:
    if stack.overlay is None and not stack.routing.needs & {"reach", "air"}:
        known = ", ".join(p.name for p in protocols("overlay"))
        raise StackError(
            f"routing '{stack.routing.name}' needs an overlay below it; one of: {known}"
        )
    if stack.overlay is not None and stack.routing.needs & {"reach", "air"}:
        raise StackError(
            f"routing '{stack.routing.name}' needs no links, so there can be no overlay below it; "
            f"leave '{stack.overlay.name}' out"
        )
    chosen = stack.protocols()
    for protocol in chosen:
        provided = set() if stack.topology is not None else {"reach", "notice"}
        for other in chosen:
            if other is not protocol:
                provided |= _offered(other, chosen)
        for need in sorted(protocol.needs - provided):
            topology = stack.topology
            if protocol is stack.overlay and need == "links" and topology is not None:
                able = [p.name for p in protocols("overlay") if p.needs & topology.provides]
                known = ", ".join(able)
                raise StackError(
                    f"on topology '{topology.name}' nodes make their links themselves; "
                    f"choose an overlay: {known}"
                )
            named = [
                f"{p.kind} '{p.name}'"
                for p in protocols()
                if need in p.provides and p is not protocol
            ]
            raise StackError(
                f"{protocol.kind} '{protocol.name}' needs a layer that {CAPABILITIES[need]}, "
                f"and none of {', '.join(repr(p.name) for p in chosen if p is not protocol)} does; "
                f"use one of: {', '.join(named) or 'none is registered'}"
            )
    if stack.reconfiguration is None and "tables" in stack.routing.provides:
        known = ", ".join(p.name for p in protocols("reconfiguration"))
        raise StackError(
            f"routing '{stack.routing.name}' keeps tables, so it needs a reconfiguration protocol; "
            f"one of: {known}"
        )


def validate(
    protocol: Protocol, parameters: Mapping[str, Any], beside: Iterable[Protocol] = ()
) -> Any:
    """A protocol's parameters as its own type; an unknown name or a bad value is an error.

    The error also names the protocol ``beside`` it in the stack that has such a parameter.
    """
    known = list(protocol.parameters.__struct_fields__)
    for name in parameters:
        if name not in known:
            there = [p.kind for p in beside if name in p.parameters.__struct_fields__]
            hint = f"; did you mean {there[0]}.{name}?" if there else suggestion(name, known)
            raise StackError(f"{protocol.kind} '{protocol.name}' has no parameter '{name}'{hint}")
    try:
        return msgspec.convert(dict(parameters), protocol.parameters)
    except msgspec.ValidationError as error:
        told = plain(error, protocol.parameters)
        raise StackError(f"{protocol.kind} '{protocol.name}': {told}") from None


def plain(error: msgspec.ValidationError, struct: type[msgspec.Struct]) -> str:
    """A msgspec complaint in a user's words: the parameter first, then what is wrong."""
    what, _, where = str(error).partition(" - at `$.")
    what = what.replace("`object | null`", "`table`").replace("`object`", "`table`")
    what, where = what.replace("`array`", "`list`"), where.rstrip("`")
    if "enum value" in what and (words := allowed(struct, where)):
        what += f"; give {words}"
    return f"{where}: {what[0].lower()}{what[1:]}" if where else what
