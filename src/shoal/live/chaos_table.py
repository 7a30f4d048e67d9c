"""The table of ``shoal chaos --live``: what became of every event that honest clients published.

* *sent*: events that a broker accepted: ``publish`` returned.
* *owed*: pairs of a sent event and a subscriber whose filter it matches. All subscribers are there
  from before the first event until after the last, so trouble excuses nothing here.
* *delivered*: owed pairs that arrived.
* *reported as gap*: owed pairs that did not, and whose subscriber was told that events are missing
  at that place: the event was published after the last one that arrived before the gap (less
  :data:`REORDERING` seconds), and accepted before all brokers knew the subscription again. In
  doubt a pair counts as lost. A recovery's gap may name the broker of publication and how many
  events are missing; it then stands for as many that this broker accepted, and no others.
* *open gaps*: gaps after which no broker confirmed that all know the subscription again; each hides
  losses until the end.
* *lost*: owed pairs that did not arrive without the subscriber being told. Under best effort, what
  a killed broker had in its memory can be lost so; with the promise ``recovered``, nothing may.
* *held*: owed pairs that did not arrive although a broker held the event when nothing arrived any
  more; only virtual brokers can be asked. With the promise ``recovered``, there may be none.
* *duplicated*: deliveries of an event to a subscriber beyond the first, as it sees them.
* *misdelivered*: deliveries of what the subscriber did not ask for, or nobody honest published.
* *unsure*: publications that got no answer; they are neither owed nor wrong if they arrive.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field, replace

import msgspec

from shoal.live.messages import Promise


class Outcome(msgspec.Struct, kw_only=True):
    """What honest clients saw: the table at the end."""

    sent: int = 0
    unsure: int = 0
    owed: int = 0
    delivered: int = 0
    gap: int = 0
    open_gaps: int = 0
    lost: int = 0
    held: int = 0
    duplicated: int = 0
    misdelivered: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = msgspec.field(default_factory=dict)
    promise: Promise = "best effort"
    crashed: list[str] = msgspec.field(default_factory=list)
    """Brokers that ended without being told to, with their last words."""
    fingerprint: str = ""
    """Digest of all that clients saw, of a virtual run: the same again with the same seed."""

    @property
    def right(self) -> bool:
        """Whether nothing came twice or to the wrong client, and no broker ended by itself.

        With the promise ``recovered``, also nothing lost without a gap, or while somebody holds it.
        """
        lost = self.lost + self.held if self.promise == "recovered" else 0
        return not (self.duplicated or self.misdelivered or self.crashed or lost)


@dataclass
class Publication:
    """An event of an honest publisher."""

    kind: int
    at: float
    """When the publisher began with it."""
    accepted: float | None = None
    """When the broker's answer came."""
    node: int = -1
    """The broker that accepted it."""


@dataclass
class Told:
    """A gap that a subscriber was told of: from when to when events may be missing."""

    start: float
    end: float = float("inf")
    publisher: int | None = None
    """Node at which the missing events were published, if the gap names it."""
    left: int | None = None
    """Missing events that the gap still accounts for; None if it names no number."""

    def holds(self, event: Publication) -> bool:
        """Whether the event was certainly published meanwhile, and is one of those meant."""
        if not self.start <= event.at or (event.accepted or 0.0) > self.end or self.left == 0:
            return False
        if self.publisher is not None and self.publisher != event.node:
            return False
        if self.left is not None:
            self.left -= 1
        return True


@dataclass
class Listener:
    """An honest subscriber, and what it got."""

    kind: int
    got: Counter[int] = field(default_factory=Counter)
    gaps: list[Told] = field(default_factory=list)
    misdelivered: int = 0
    last: float = 0.0
    """When the last event that arrived was published."""
    heard: float = 0.0
    """When it arrived."""


def fingerprint(publications: dict[int, Publication], listeners: list[Listener]) -> str:
    """A digest of who accepted what and when, of arrivals in their order, and of gaps."""
    seen = [(each.kind, list(each.got.items()), each.gaps, each.heard) for each in listeners]
    return hashlib.blake2b(repr((publications, seen)).encode(), digest_size=8).hexdigest()


def outcome(
    publications: dict[int, Publication], listeners: list[Listener], held: Set[int] = frozenset()
) -> Outcome:
    """What became of every event; ``held`` are those that brokers held at the end."""
    sent = {n: e for n, e in publications.items() if e.accepted is not None}
    found = Outcome(sent=len(sent), unsure=len(publications) - len(sent))
    for listener in listeners:
        owed = {n: event for n, event in sent.items() if event.kind == listener.kind}
        missing = [event for n, event in owed.items() if n not in listener.got]
        gaps = [replace(gap) for gap in listener.gaps]  # they count down
        told = [event for event in missing if any(gap.holds(event) for gap in gaps)]
        found.open_gaps += sum(gap.end == float("inf") for gap in listener.gaps)
        found.held += sum(n in held and n not in listener.got for n in owed)
        found.owed += len(owed)
        found.delivered += len(owed) - len(missing)
        found.gap += len(told)
        found.lost += len(missing) - len(told)
        found.duplicated += sum(count - 1 for count in listener.got.values())
        found.misdelivered += listener.misdelivered
    return found
