"""Errors between brokers and clients, each with its cause and cure in one line."""

from __future__ import annotations

from typing import Final

FATAL: Final = frozenset({"version", "identity", "stack", "self", "epoch", "token", "forbidden"})
"""Codes of refusals that trying again will not change soon."""


class LiveError(Exception):
    """An error that a user can mend; the message names the cause and the cure."""

    taken: int | None = None
    """Events of a ``publish_many`` that the broker accepted before the error."""


class RefusedError(LiveError):
    """The other side said no: to a connection, a subscription or an event. ``code`` says why."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class ValueTypeError(LiveError, TypeError):
    """An event holds something of a type that cannot be sent."""


class ValueRangeError(LiveError, ValueError):
    """An event holds a value that cannot be sent, though others of its type can."""


class ImpostorError(RefusedError):
    """The broker that answers cannot prove to be the one expected; nothing was sent to it."""

    def __init__(self, reason: str) -> None:
        super().__init__("impostor", reason)


class DisconnectedError(LiveError):
    """The connection is gone; whether the last request was carried out is not known."""


class UnreachableError(DisconnectedError):
    """Nobody answers at an address; a later attempt may succeed."""


class ProtocolError(LiveError):
    """The other side sent what it must not; its connection is closed."""
