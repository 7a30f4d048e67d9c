"""Flooding: each event once per node, in bounded memory."""

from __future__ import annotations

from typing import Any

from shoal.content import Event, Patterns
from shoal.routing.flooding import Flooding
from shoal.routing.messages import Forward
from shoal.routing.seen import GENERATION
from shoal.stack import LOCAL, Host
from shoal.stack.registry import NoParameters


class Counting(Host):
    """A host that counts what it is asked to send."""

    def __init__(self) -> None:
        super().__init__(0, 1)
        self.sent = 0

    def send_all(self, to: tuple[int, ...], message: Any, but: int = LOCAL) -> None:
        self.sent += 1


def test_copies_are_dropped_and_old_events_forgotten() -> None:
    host = Counting()
    routing = Flooding(host, NoParameters())
    content = Patterns(())
    events = [Event(7, number, content) for number in range(3 * GENERATION)]
    for event in events:
        routing.receive(1, Forward(event, 1))
    assert host.sent == len(events)
    for event in events[-GENERATION:]:
        routing.receive(2, Forward(event, 1))
    assert host.sent == len(events), "what came lately is a copy"
    assert len(routing.seen._now or ()) + len(routing.seen._before or ()) <= 2 * GENERATION
