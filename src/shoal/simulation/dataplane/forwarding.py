"""The rules by which routings' events are forwarded on arrays, one file each beside this one.

A rule's file has the routing's choice of links as a kernel, and ends with ``forwards(Routing,
Forwarding(…))``. From then on that routing runs on arrays, which a watcher of its ``table`` keeps
up to date. The same choice on objects and on arrays is a promise that a test holds it to.
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
    """Kernel that puts the slots to send over into ``picks``, and says how many it chose and how
    many of them by a subscription; none for a rule that floods. It is put inline, so it should do
    the work itself: numba counts references to arrays at each level of inlining and does not drop
    all of that again. (The semi-probabilistic choice behind a function that only passed its arrays
    on: 30% more time.)"""
    links_are_slots: bool = True
    """Whether a node's slots are its links; if not, the sources that hold a pattern."""
    tune: Callable[[Mirror, Any], None] | None = None
    """Notes what else a routing's choice goes by, once its links or its tuning changed."""
    observe: Callable[[Mirror, Any], None] | None = None
    """Lets a routing read what the arrays count: copies that its node sends, events it misses."""
    message: Callable[[Event, int, int, Event | None], Any] = _forward
    """Makes the message that objects would send: of an event, hops, deterministic hops, and the
    event that it carries along."""
    remembers: bool = False
    """Whether a node takes an event on its first arrival only."""
    floods: bool = False
    """Whether all links are chosen but the one that an event came by; the engine does that."""
    says_stopped: bool = False
    """Whether the routing says where copies of events go no further."""
    constants: tuple[object, ...] = ()
    """Constants from other modules that ``choose`` uses."""


RULES: dict[type[Routing], Forwarding] = {}
"""The routings that have a rule on arrays; a subclass has not, unless it is there."""


def forwards(routing: type[Routing], rule: Forwarding) -> None:
    """Let a routing's events be forwarded by a rule."""
    RULES[routing] = rule
