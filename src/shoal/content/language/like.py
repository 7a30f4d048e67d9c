"""LIKE in time linear in the text, whatever the pattern.

A pattern is cut at its ``%`` into segments. The first and last are anchored, each one between is
found at its leftmost place after the one before, which is enough: there is never a reason to try a
later place. Plain segments are found by ``str.find``; those with ``_`` by the shift-and automaton,
one machine word operation per character for segments of up to a word.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

ANY = None
"""A ``_`` in a segment."""

Segment = tuple[str | None, ...]


class Pattern(NamedTuple):
    """A LIKE pattern, cut at its ``%``: at least one segment; only one if there was no ``%``."""

    segments: tuple[Segment, ...]

    @property
    def plain(self) -> tuple[str, ...] | None:
        """The segments as strings, or None if there is a ``_`` among them."""
        if any(ANY in segment for segment in self.segments):
            return None
        return tuple("".join(map(str, segment)) for segment in self.segments)

    @property
    def prefix(self) -> str:
        """The plain text every match begins with."""
        return _plain_run(self.segments[0])

    @property
    def suffix(self) -> str:
        """The plain text every match ends with."""
        return _plain_run(self.segments[-1][::-1])[::-1]


def _plain_run(segment: Segment) -> str:
    end = segment.index(ANY) if ANY in segment else len(segment)
    return "".join(map(str, segment[:end]))


@lru_cache(maxsize=8192)
def parse_pattern(pattern: str) -> Pattern:
    r"""Cut a pattern; ``\%`` and ``\_`` are plain characters, any other ``\`` stands for itself."""
    segments: list[Segment] = []
    segment: list[str | None] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "\\" and pattern[at + 1 : at + 2] in ("%", "_"):
            segment.append(pattern[at + 1])
            at += 1
        elif character == "%":
            segments.append(tuple(segment))
            segment = []
        else:
            segment.append(ANY if character == "_" else character)
        at += 1
    segments.append(tuple(segment))
    # '%%' means '%': empty inner segments match anywhere.
    inner = [s for s in segments[1:-1] if s]
    return Pattern((segments[0], *inner, segments[-1]) if len(segments) > 1 else (segments[0],))


def escape(plain: str) -> str:
    """A pattern that matches exactly this text."""
    return plain.replace("%", "\\%").replace("_", "\\_")


def like(pattern: str, text: str) -> bool:
    """Whether the text matches the pattern."""
    segments = parse_pattern(pattern).segments
    first, last = segments[0], segments[-1]
    if len(segments) == 1:
        return len(text) == len(first) and _fits(first, text, 0)
    end = len(text) - len(last)
    at = len(first)
    if at > end or not _fits(first, text, 0) or not _fits(last, text, end):
        return False
    for segment in segments[1:-1]:
        found = _find(segment, text, at, end)
        if found < 0:
            return False
        at = found + len(segment)
    return True


def _fits(segment: Segment, text: str, at: int) -> bool:
    return all(
        wanted is ANY or wanted == found
        for wanted, found in zip(segment, text[at : at + len(segment)], strict=True)
    )


@lru_cache(maxsize=8192)
def _automaton(segment: Segment) -> tuple[str | None, dict[str, int], int]:
    """The segment as a string if plain, else its shift-and masks per character and for others."""
    if ANY not in segment:
        return "".join(map(str, segment)), {}, 0
    others = sum(1 << place for place, wanted in enumerate(segment) if wanted is ANY)
    masks: dict[str, int] = {}
    for place, wanted in enumerate(segment):
        if wanted is not ANY:
            masks[wanted] = masks.get(wanted, others) | 1 << place
    return None, masks, others


def _find(segment: Segment, text: str, start: int, end: int) -> int:
    """The leftmost place of a segment in ``text[start:end]``, or -1."""
    plain, masks, others = _automaton(segment)
    if plain is not None:
        return text.find(plain, start, end)
    goal = 1 << (len(segment) - 1)
    state = 0
    for at in range(start, end):
        state = (state << 1 | 1) & masks.get(text[at], others)
        if state & goal:
            return at - len(segment) + 1
    return -1
