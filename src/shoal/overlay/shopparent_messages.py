"""Messages and parameters of ShopParent (a compiled module cannot define structs)."""

from __future__ import annotations

from math import isfinite
from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from shoal.content import AnyFilter
from shoal.overlay.graph_messages import Sample
from shoal.overlay.handover_messages import Id, Path
from shoal.stack.message import Message, Routine, Seconds

Units: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class ShopParentParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The root and its heirs, the comparison of parents, and periods."""

    root: Id = 0
    """The node that all events come from: its id or, live, the broker's name."""
    heirs: Literal["anyone"] | Annotated[tuple[Id, ...], msgspec.Meta(max_length=64)] = "anyone"
    """Nodes that take the root's place when it is gone: the first of the list that is there, or
    the first of all whose patience ends. An empty list: nobody. Live, names do as well."""
    metric: Literal["NHOP", "OVHD", "COMBO", "RANDOM"] = "COMBO"
    """Hops to the root; overhead for the parent; their product; any parent, kept."""
    merge: Literal["union", "hull"] = "union"
    """Sum of interests: a disjunction, or one interval that covers them."""
    overlap: Literal["axis", "sample"] = "sample"
    """Comparison of interests: by length on a number axis, or by recent events that match."""
    attribute: Annotated[str, msgspec.Meta(min_length=1, max_length=256)] = "x"
    """The attribute of events that is the number axis."""
    receive: Units = 1.0
    """r: units of work to receive an event."""
    forward: Units = 1.0
    """f: units of work to forward an event."""
    error: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Standard deviation of a relative error put on each overhead: 0.2 is 20% (COMBOerr)."""
    error_terms: Literal["shared", "independent"] = "independent"
    """Errors of the overhead with and without the child: one shared, or two."""
    discovery: Literal["radio", "sampling"] = "sampling"
    """Candidates for a parent: nodes that hear a broadcast, or nodes known by peer sampling."""
    period: Seconds = 1.0
    """Seconds between two PARENT-ADVERTISE of a node, and between two looks for a better parent."""
    timeout: Seconds = 3.5
    """Seconds of silence after which a parent or child is expired."""
    collect: Seconds = 0.1
    """Seconds that a newcomer waits for answers to its PARENT-PROBE."""
    children: Annotated[int, msgspec.Meta(ge=0, le=4096)] = 16
    """Children that a node takes at most; 0: any number, as by radio."""
    hysteresis: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.1
    """The share by which a parent must be cheaper than the present one."""
    probes: Annotated[int, msgspec.Meta(ge=1, le=32)] = 3
    """Known nodes asked for an advertisement in each period (with sampling)."""
    forget: Seconds = 30.0
    """Seconds after which a node that nobody hears from is forgotten (with sampling)."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not isfinite(value):
                raise ValueError(f"{name} must be a number, not {value}")
        if len(set(self.roots)) < len(self.roots):
            raise ValueError("a tree has one root: name each of root and heirs once")
        if self.timeout <= self.period:
            raise ValueError("timeout must be longer than period, else every parent expires")
        if self.merge == "hull" and self.overlap == "sample":
            raise ValueError("merge = 'hull' needs overlap = 'axis': a sample has no intervals")

    @property
    def roots(self) -> tuple[int, ...]:
        """The nodes that are named to be the root, first choice first."""
        return (self.root, *(() if self.heirs == "anyone" else self.heirs))


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """An interest as nodes tell it: intervals of the number axis, or filters."""

    intervals: Annotated[tuple[tuple[float, float], ...], msgspec.Meta(max_length=1024)] = ()
    filters: Annotated[tuple[AnyFilter, ...], msgspec.Meta(max_length=256)] = ()

    def __post_init__(self) -> None:
        for low, high in self.intervals:
            if not low <= high:  # also if one of them is no number
                raise ValueError(f"an interval from {low} to {high} ends before it starts")


class Hop(msgspec.Struct, frozen=True, array_like=True):
    """A node on a route, and what it and its other branches want besides this one."""

    node: Id
    rest: Wanted


class Child(msgspec.Struct, frozen=True, array_like=True):
    """A child, and its effective subscription."""

    node: Id
    wanted: Wanted


class Probe(Routine, frozen=True, tag="parent-probe"):
    """PARENT-PROBE: the sender looks for a parent. Itself and others that it knows."""

    KIND: ClassVar[str] = "parent-probe"

    known: Sample = ()


class Advertise(Routine, frozen=True, tag="parent-advertise"):
    """PARENT-ADVERTISE: what a parent would cost.

    ``route`` leads from the root to the sender's parent, so its length is the sender's hop count.
    ``rank`` is the root's place among those that may be it. ``own`` is the inherent subscription.
    ``room``: the sender would take one more child.
    """

    KIND: ClassVar[str] = "parent-advertise"

    rank: Annotated[int, msgspec.Meta(ge=0, le=2**31)]
    route: Annotated[tuple[Hop, ...], msgspec.Meta(max_length=1024)]
    own: Wanted
    children: Annotated[tuple[Child, ...], msgspec.Meta(max_length=4096)]
    room: bool = True
    known: Sample = ()


class Join(Message, frozen=True, tag="parent-join"):
    """The first node of ``path`` asks to be a child of the second; climbs to the root.

    ``moves``: it has a parent, which it would leave.
    """

    path: Path
    request: Id
    moves: bool


class Answer(Message, frozen=True, tag="parent-answer"):
    """The answer to a request to join, on the same path back."""

    path: Path
    request: Id
    moves: bool
    granted: bool


class Welcome(Message, frozen=True, tag="parent-welcome"):
    """The receiver is the sender's child from now on."""

    advertise: Advertise
    request: Id


class Stray(Routine, frozen=True, tag="parent-stray"):
    """The sender has no route to the root, and so the receiver, its child, has none."""


class Here(Routine, frozen=True, tag="parent-here"):
    """A child is alive, or a parent that stops."""
