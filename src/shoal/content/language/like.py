"""LIKE in time linear in the text, at a rate that is known from the pattern.

A pattern is cut at its ``%`` into segments. The first and last are anchored. Each of the others is
sought from the end of the one before; its leftmost place will do, as a later one leaves less text
for the rest. Plain segments are found by ``str.find``. For those with ``_`` all places of a stretch
of text are tried at once: per character of the segment, one long integer says where the text has
it, and shifted by the character's place these are and-ed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

ANY = None
"""A ``_`` in a segment."""

Segment = tuple[str | None, ...]

REMEMBERED: Final = 512
"""Most characters of a pattern whose segments are cached."""
STRETCH: Final = 1024
"""Characters of the first stretch of text in which a segment is sought, at least."""
FIND, PLACE, KNOWN, OTHER = 7.0, 0.7, 2.5, 12.0
"""Steps per character of text: str.find, a place of a segment, a Latin-1 character, any other."""


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
    parse = parse_pattern if len(pattern) <= REMEMBERED else parse_pattern.__wrapped__
    segments = parse(pattern).segments
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
    if ANY not in segment:
        return text.startswith("".join(map(str, segment)), at)
    return all(
        wanted is ANY or wanted == found
        for wanted, found in zip(segment, text[at : at + len(segment)], strict=True)
    )


def work(pattern: str) -> tuple[float, float]:
    """Steps that :func:`like` takes at most: per character of the text, and besides."""
    rate = constant = 0.0
    for segment in parse_pattern.__wrapped__(pattern).segments[1:-1]:
        plain = [character for character in segment if character is not ANY]
        mine = FIND
        if len(plain) < len(segment):
            distinct = set(plain)
            latin = sum(1 for character in distinct if _latin(character))
            mine += OTHER / 2 + KNOWN * latin + OTHER * (len(distinct) - latin) + PLACE * len(plain)
            mine *= 1.25  # stretches overlap by a segment
            constant += mine * _stretch(segment) + 4_000 * (1 + len(distinct))
        constant += 2_000
        rate = max(rate, mine)
    return rate, constant


def _find(segment: Segment, text: str, start: int, end: int) -> int:
    """The leftmost place of a segment in ``text[start:end]``, or -1."""
    if ANY not in segment:
        return text.find("".join(map(str, segment)), start, end)
    offset, run = _longest_run(segment)
    start = text.find(run, start + offset, end) - offset
    if start < 0:
        return -1
    size, length = _stretch(segment), len(segment)
    while start + length <= end:
        found = _first(segment, text[start : min(start + size, end)])
        if found >= 0:
            return start + found
        start += size - length + 1
        size *= 2
    return -1


def _stretch(segment: Segment) -> int:
    return max(STRETCH, 8 * len(segment))


def _longest_run(segment: Segment) -> tuple[int, str]:
    """The longest plain part of a segment, and where it begins."""
    runs = [(0, "")]
    for place, wanted in enumerate(segment):
        if wanted is not ANY:
            begin, run = runs[-1]
            if begin + len(run) == place:
                runs[-1] = (begin, run + wanted)
            else:
                runs.append((place, wanted))
    return max(runs, key=lambda one: len(one[1]))


def _first(segment: Segment, text: str) -> int:
    """The leftmost place of a segment in a text, or -1; eight bits of an integer per character."""
    latin = text.encode("latin-1", "replace")
    where: dict[str, int] = {}
    places = (1 << 8 * max(0, len(text) - len(segment) + 1)) - 1
    for place, wanted in enumerate(segment):
        if wanted is ANY:
            continue
        if wanted not in where:
            found = latin
            if not _latin(wanted):  # let it change places with a character that is
                swapped = text.replace("\0", "\1").replace(wanted, "\0")
                found = swapped.encode("latin-1", "replace")
            marks = found.translate(_marking(wanted if _latin(wanted) else "\0"))
            where[wanted] = int.from_bytes(marks, "little")
        places &= where[wanted] >> 8 * place
        if not places:
            return -1
    return ((places & -places).bit_length() - 1) >> 3 if places else -1


def _latin(character: str) -> bool:
    """Whether Latin-1 has the character, and no other character becomes it in Latin-1."""
    return character <= "\xff" and character != "?"


@lru_cache(maxsize=256)
def _marking(character: str) -> bytes:
    """A table for bytes.translate: this character becomes 1, any other 0."""
    table = bytearray(256)
    table[ord(character)] = 1
    return bytes(table)
