"""A client's requests that its broker has not answered yet."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from shoal.live.errors import DisconnectedError, RefusedError
from shoal.live.messages import LAST_SUBSCRIPTION


class Requests:
    """Futures of the answers, by request. Numbers are unique among requests of all kinds."""

    def __init__(self) -> None:
        self._numbers = itertools.count(LAST_SUBSCRIPTION + 1)
        self._subscription_numbers = itertools.count(1)
        self._in_order: dict[int, asyncio.Future[Any]] = {}
        """Publications (of which the broker accepts several at a time) and inspections."""
        self._alone: dict[int, asyncio.Future[Any]] = {}
        """Requests that are answered one by one, in any order."""
        self._subscriptions: dict[int, asyncio.Future[Any]] = {}
        """Subscriptions; these are asked for again after a reconnection."""

    def number(self) -> int:
        """A number for the next request, unless it is a subscription."""
        return next(self._numbers)

    def subscription_number(self) -> int:
        """A number for the next subscription: small, as brokers keep it in few bytes."""
        return next(self._subscription_numbers)

    def expect(self, request: int, in_order: bool = True) -> asyncio.Future[Any]:
        """Future of the answer to a request."""
        future = asyncio.get_running_loop().create_future()
        (self._in_order if in_order else self._alone)[request] = future
        return future

    def expect_subscribed(self, number: int) -> asyncio.Future[Any]:
        """Future of the answer to a subscription: the present one, if it is still awaited."""
        future = self._subscriptions.get(number)
        if future is None or future.done():
            future = self._subscriptions[number] = asyncio.get_running_loop().create_future()
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future

    def waiting(self) -> list[asyncio.Future[Any]]:
        """Futures of all requests but subscriptions."""
        both = (*self._in_order.values(), *self._alone.values())
        return [future for future in both if not future.done()]

    # Answers

    def accepted(self, request: int) -> None:
        """The broker accepts a subscription, or a publication and all before it."""
        future = self._subscriptions.pop(request, None)
        if future is not None:
            _answer(future)
            return
        pending = self._in_order
        for number in list(itertools.takewhile(lambda n: n <= request, pending)):
            _answer(pending.pop(number))

    def answered(self, request: int, result: object = None) -> None:
        """The answer to one request."""
        future = self._alone.pop(request, None) or self._in_order.pop(request, None)
        if future is not None:
            _answer(future, result)

    def refused(self, request: int, error: RefusedError) -> None:
        """The broker refuses a request."""
        future = self._subscriptions.pop(request, None)
        if future is None or future.done():
            future = self._in_order.pop(request, None) or self._alone.pop(request, None)
        if future is not None and not future.done():
            future.set_exception(error)

    # No answers

    def lost(self, reason: str) -> None:
        """Fail all but subscriptions: each may have been carried out or not."""
        waiting = self.waiting()
        self._in_order, self._alone = {}, {}
        asked = self._subscriptions.items()
        self._subscriptions = {number: future for number, future in asked if not future.done()}
        for future in waiting:
            future.set_exception(
                DisconnectedError(f"connection lost ({reason}) before the broker answered")
            )

    def end(self, reason: str) -> None:
        """Fail the subscriptions too: no broker will be asked again."""
        asked, self._subscriptions = self._subscriptions, {}
        for future in asked.values():
            if not future.done():
                future.set_exception(DisconnectedError(f"not subscribed: {reason}"))


def _answer(future: asyncio.Future[Any], result: object = None) -> None:
    """Set the answer, if it is still awaited."""
    if not future.done():
        future.set_result(result)
