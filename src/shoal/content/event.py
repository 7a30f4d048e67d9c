"""An event, and the unions that say which content and filters travel on a wire."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, TypeAlias

import msgspec

from shoal.content.attributes import AttributeFilter, Attributes
from shoal.content.patterns import Pattern, Patterns

EventId: TypeAlias = tuple[int, int]
"""Publisher and its sequence number: unique in a network."""

MARK_BYTES = 12
"""Bytes of one mark."""
Marks: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=64 * MARK_BYTES)]
"""Numbers of an event for a recovery, packed: see :mod:`shoal.recovery.numbering`."""

AnyContent: TypeAlias = Patterns | Attributes
AnyFilter: TypeAlias = Pattern | AttributeFilter


class Event(msgspec.Struct, frozen=True, dict=True, array_like=True):
    """Something that happened: who published it, its content, and an opaque body."""

    publisher: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    sequence: Annotated[int, msgspec.Meta(ge=0, le=2**62)]
    content: AnyContent
    body: bytes = b""
    marks: Marks = b""
    """Numbers that the publisher's recovery adds, so that subscribers notice losses."""

    @cached_property
    def id(self) -> EventId:
        """Publisher and sequence number."""
        return (self.publisher, self.sequence)
