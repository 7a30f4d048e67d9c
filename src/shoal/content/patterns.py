"""The papers' synthetic content: an event is a set of numbers, a subscription one number.

Frey (section 7.1) calls the numbers characters, Costa and Picco (section 4) patterns. A
subscription matches the events that contain its number.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from shoal.content.model import Content, Filter
from shoal.content.tables import FilterTable, PatternTable

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=65_535)]
"""Bounded, because tables are indexed by it."""


class Patterns(Content, frozen=True, tag="patterns"):
    """An event's numbers."""

    numbers: tuple[Number, ...]


class Pattern(Filter, frozen=True, cache_hash=True, tag="pattern"):
    """A subscription to one number."""

    number: Number

    def matches(self, content: Content) -> bool:
        return isinstance(content, Patterns) and self.number in content.numbers

    def covers(self, other: Filter) -> bool:
        """A pattern covers only itself."""
        return self == other

    def overlaps(self, other: Filter) -> bool:
        """Any two patterns overlap: an event may contain both numbers."""
        return isinstance(other, Pattern)

    def table(self) -> FilterTable:
        return PatternTable()

    def __str__(self) -> str:
        return f"pattern {self.number}"
