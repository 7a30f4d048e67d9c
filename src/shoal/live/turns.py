"""Turns: what many connections send at once is handled a little at a time.

A subscription to an intricate filter may take a broker a tenth of a second. If hundreds of clients
send one each, the event loop must come round in between, for signs of life and for everybody else.
So in one turn of the event loop

* subscriptions are handled for :data:`TURN` seconds, and the others wait in a line of their own;
* all other frames are handled for :data:`SPELL` seconds, and the others wait for the next turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shoal.live.connection import Connection

TURN: Final = 0.005
"""Seconds per turn for the frames of one connection, and for subscriptions of all."""
SPELL: Final = 0.05
"""Seconds per turn for the frames of all connections, subscriptions not counted."""


class Turns:
    """The connections of one broker whose frames wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Connection] = deque()
        self._subscribing: deque[Connection] = deque()
        """Connections whose next frame is a subscription."""
        self._ends = 0.0
        self._spent = 0.0
        """Seconds spent on subscriptions in this turn of the event loop."""
        self._scheduled = False

    def over(self) -> bool:
        """Whether enough was done in this turn of the event loop."""
        self._schedule()
        return self._loop.time() > self._ends

    def crowded(self) -> bool:
        """Whether a subscription has to wait."""
        self._schedule()
        return self._spent > TURN or bool(self._subscribing)

    def spend(self, seconds: float) -> None:
        """Count the seconds that a subscription has taken."""
        self._spent += seconds
        self._ends += seconds

    def wait(self, connection: Connection, *, subscribing: bool) -> None:
        """Call back when it is this connection's turn."""
        (self._subscribing if subscribing else self._waiting).append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._begin()
            self._loop.call_soon(self._next)

    def _begin(self) -> None:
        self._ends = self._loop.time() + SPELL
        self._spent = 0.0

    def _next(self) -> None:
        """A new turn of the event loop: let connections handle the frames that wait."""
        self._scheduled = False
        if not self._waiting and not self._subscribing:
            return
        self._schedule()
        for _ in range(len(self._waiting)):
            self._waiting.popleft().take_turn(subscribing=False)
            if self._loop.time() > self._ends:
                break
        for _ in range(len(self._subscribing)):
            self._subscribing.popleft().take_turn(subscribing=True)
            if self._spent > TURN:
                break
        spent = self._spent
        self._begin()  # for what arrives in this turn
        self._spent = spent
