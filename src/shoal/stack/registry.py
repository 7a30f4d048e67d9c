"""Protocols by name: one place where they are registered, validated and put together.

A protocol module ends with one call::

    register("routing", "event-forwarding", EventForwarding, needs={"tree"})

and from then on its name works in every configuration file, experiment and command. A combination
that cannot work is refused here, by name and with the reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import msgspec

if TYPE_CHECKING:
    from shoal.stack.host import Host
    from shoal.stack.layer import Routing

Kind: TypeAlias = Literal["overlay", "routing", "reconfiguration", "recovery"]

CAPABILITIES: Mapping[str, str] = {
    "links": "reports links up and down",
    "tree": "keeps the neighbourhood acyclic",
    "root": "knows a root, and each node its parent",
    "association": "says which new link replaces which old one",
    "path": "knows the reconfiguration path",
    "tables": "keeps subscription tables that a reconfiguration protocol can repair",
    "symmetric": "lets every subscription travel in every direction",
    "reconfiguration": "repairs tables when links change",
}
"""What one layer may need of another, in words."""


class StackError(ValueError):
    """A stack that cannot be built; the message names the cause and the cure."""


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For protocols that have none."""


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
) -> Protocol:
    """Make a protocol known by name.

    Its summary defaults to the first line of its docstring; compiled classes have none.
    """
    needs, provides = frozenset(needs), frozenset(provides)
    if kind not in get_args(Kind):
        raise StackError(f"unknown kind of protocol '{kind}'; one of: {', '.join(get_args(Kind))}")
    for capability in sorted(needs | provides):
        if capability not in CAPABILITIES:
            raise StackError(
                f"{kind} '{name}' names an unknown capability '{capability}'; "
                f"one of: {', '.join(CAPABILITIES)}"
            )
    if not summary and make.__doc__:
        summary = make.__doc__.strip().splitlines()[0]
    protocol = Protocol(kind, name, make, parameters, needs, provides, summary, warn)
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
        raise StackError(f"unknown {kind} '{name}'{suggestion(name, known)}")
    return protocol


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
    """A checked combination, ready to be made on each node."""

    overlay: Protocol
    routing: Protocol
    reconfiguration: Protocol | None
    recovery: Protocol | None
    parameters: Mapping[str, Any]

    def warnings(self) -> list[str]:
        """What is allowed but unwise about this combination, one line each."""
        layers = (self.overlay, self.routing, self.reconfiguration, self.recovery)
        found = [p.warn(self.parameters) for p in layers if p is not None and p.warn is not None]
        return [text for text in found if text is not None]

    def routing_on(self, host: Host) -> Routing:
        """This stack's routing on one node."""
        make, parameters = self.routing.make, self.parameters["routing"]
        if self.reconfiguration is None:
            return cast("Routing", make(host, parameters))
        repair, repair_parameters = self.reconfiguration.make, self.parameters["reconfiguration"]
        return cast(
            "Routing", make(host, parameters, lambda routing: repair(routing, repair_parameters))
        )


def build(
    overlay: Choice,
    routing: Choice,
    reconfiguration: Choice | None = None,
    recovery: Choice | None = None,
) -> Stack:
    """Check a stack and its parameters; refuse what cannot work, with the reason."""
    chosen: dict[Kind, Choice] = {"overlay": overlay, "routing": routing}
    if reconfiguration is not None:
        chosen["reconfiguration"] = reconfiguration
    if recovery is not None:
        chosen["recovery"] = recovery
    found = {kind: find(kind, choice.name) for kind, choice in chosen.items()}
    _check_needs(list(found.values()))
    return Stack(
        overlay=found["overlay"],
        routing=found["routing"],
        reconfiguration=found.get("reconfiguration"),
        recovery=found.get("recovery"),
        parameters={kind: validate(found[kind], chosen[kind].parameters) for kind in chosen},
    )


def _check_needs(stack: list[Protocol]) -> None:
    for protocol in stack:
        provided: set[str] = set()
        for other in stack:
            if other is not protocol:
                provided |= other.provides
        for need in sorted(protocol.needs - provided):
            able = [p.name for p in protocols() if need in p.provides and p is not protocol]
            raise StackError(
                f"{protocol.kind} '{protocol.name}' needs a layer that {CAPABILITIES[need]}, "
                f"and none of {', '.join(repr(p.name) for p in stack if p is not protocol)} does; "
                f"use one of: {', '.join(able) or 'none is registered'}"
            )
    if any(p.kind == "reconfiguration" for p in stack):
        return
    routing = next(p for p in stack if p.kind == "routing")
    if "tables" in routing.provides:
        known = ", ".join(p.name for p in protocols("reconfiguration"))
        raise StackError(
            f"routing '{routing.name}' keeps tables, so it needs a reconfiguration protocol; "
            f"one of: {known}"
        )


def validate(protocol: Protocol, parameters: Mapping[str, Any]) -> Any:
    """A protocol's parameters as its own type; an unknown name or a bad value is an error."""
    known = list(protocol.parameters.__struct_fields__)
    for name in parameters:
        if name not in known:
            raise StackError(
                f"{protocol.kind} '{protocol.name}' has no parameter '{name}'"
                f"{suggestion(name, known)}"
            )
    try:
        return msgspec.convert(dict(parameters), protocol.parameters)
    except msgspec.ValidationError as error:
        raise StackError(f"{protocol.kind} '{protocol.name}': {plain(error)}") from None


def plain(error: msgspec.ValidationError) -> str:
    """A msgspec complaint in a user's words: the parameter first, then what is wrong."""
    text = str(error)
    what, _, where = text.partition(" - at `$.")
    return f"{where.rstrip('`')}: {what[0].lower()}{what[1:]}" if where else text
