"""The interface between content and everything that routes it.

Protocols use four verbs and nothing else: a filter ``matches`` an event's content, ``covers`` or
``overlaps`` another filter, and a :class:`~shoal.content.tables.FilterTable` answers which sources
want an event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from shoal.content.tables import FilterTable


class Content(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an event carries; a content model subclasses it."""


class Filter(msgspec.Struct, frozen=True, array_like=True):
    """A predicate over content: what a subscriber wants. A value: hashable, comparable."""

    def matches(self, content: Content) -> bool:
        """Whether content satisfies this filter."""
        raise NotImplementedError

    def covers(self, other: Filter) -> bool:
        """True only if this filter matches everything that ``other`` matches; False if unknown."""
        raise NotImplementedError

    def overlaps(self, other: Filter) -> bool:
        """False only if no content can match both; True if unknown."""
        raise NotImplementedError

    def size(self) -> int:
        """Bytes that a table needs for the filter, roughly; 0 for a kind of which there are few."""
        return 0

    def everything(self) -> Filter | None:
        """A filter of this kind that matches all content; None if there is none."""
        return None

    def table(self) -> FilterTable:
        """A new, empty table for filters of this kind."""
        raise NotImplementedError
