"""The rules by which routings' events are forwarded on arrays, one file each beside this one.

A rule's file has the routing's choice of links as a kernel, and ends with ``forwards(Routing,
Forwarding(…))``. From then on the routing's events are forwarded on arrays, which a watcher of its
``table`` keeps up to date. A test holds every rule to the same choices as its routing's objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.routing.messages import Forward

if TYPE_CHECKING:
    from shoal.content import Event
    from shoal.simulation.dataplane.mirror import Mirror
    from shoal.stack.layer import Routing


def _forward(event: Event, hops: int, deterministic: int, before: Event | None) -> Forward:
    return Forward(event, hops)


@dataclass(frozen=True)
class Forwarding:
    """How a routing's events are forwarded on arrays."""

    name: str
    """The rule's name; routings of one rule share its compiled code."""
    choose: Any = None
    """Kernel that puts the slots to send over into ``picks``, and returns how many it chose and how
    many of them by a subscription; None for a rule that floods. It is put inline, and should not
    pass its arrays on to a function of its own: numba would count references to them. (That made
    the semi-probabilistic choice 30% slower.)"""
    links_are_slots: bool = True
    """Whether a node's slots are its links; otherwise they are the sources that hold a pattern."""
    tune: Callable[[Mirror, Any], None] | None = None
    """Notes what else the choice depends on; called when a node's links or its tuning changed."""
    observe: Callable[[Mirror, Any], None] | None = None
    """Lets a routing read what the arrays count: copies its node sends, events it misses."""
    message: Callable[[Event, int, int, Event | None], Any] = _forward
    """Makes the message that objects would send: of an event, hops, deterministic hops, and the
    event that it carries along."""
    remembers: bool = False
    """Whether a node handles only the first copy of an event."""
    floods: bool = False
    """Whether the engine itself chooses all links but the one that an event came by."""
    says_stopped: bool = False
    """Whether the routing reports copies that go no further (the table ``routes``)."""
    constants: tuple[object, ...] = ()
    """Constants from other modules that ``choose`` uses."""


RULES: dict[type[Routing], Forwarding] = {}
"""Rules by routing. A subclass does not inherit the rule of its base."""


def forwards(routing: type[Routing], rule: Forwarding) -> None:
    """Register a routing's rule."""
    RULES[routing] = rule
