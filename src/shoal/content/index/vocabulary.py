"""Columns and keys: how attributes become numbers that an index can order.

Every way in which filters read an attribute is a *column*, and every value has at most one *key*
there, a double. A number's key is itself. Text gets keys by name: the texts that filters ask for
are numbered as they come, and so are the prefixes (one column per length in use) and suffixes; a
fragment to be contained is a column of its own. A text that no filter names has no key.

====================== ===================================== =======================
column                 key of an event's value               asked for by
====================== ===================================== =======================
number                 the value                             intervals
text                   the number of that text               equality, IN, holes
prefix of length n     the number of its first n characters  ``LIKE 'p%'``
suffix of length n     the number of its last n characters   ``LIKE '%s'``
contains p             1 if it does                          ``LIKE '%p%'``
truth                  1 or 0                                a condition
present                1                                     EXISTS, guards
====================== ===================================== =======================

An integer beyond 2**53 is rounded; a filter with a bound out there is checked by the reference.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

from shoal.content import values

MAX_COLUMNS: Final = 60_000
MAX_LENGTHS: Final = 64  # of prefixes or suffixes of one attribute
MAX_FRAGMENTS: Final = 4_096  # over all attributes
MEMORY: Final = 1 << 16  # texts whose entries are remembered, per attribute
MEMORISED: Final = 256  # characters of such a text
FEW_FRAGMENTS: Final = 24  # of a length: they are sought one by one, and so are long ones;
SHORT_FRAGMENT: Final = 32  # of more short ones every piece of a text of that length is looked up
EXACT_INTEGERS: Final = 2**53
Brief: TypeAlias = dict[str, tuple[int, dict[str | bool, bytes], Callable[[object], bytes]]]
"""Codes per attribute: its number column if it has no other, cached entries, and their source."""
NUMBERS: Final = ("int", "uint", "double", "float", "halffloat")
TEXTS: Final = ("string", "large_string", "string_view")
_ENTRY = struct.Struct("<qd")
_GOLDEN, _WORD = 0x9E3779B97F4A7C15, (1 << 64) - 1


def _spread(number: int) -> float:
    """Distinct keys for 0, 1, 2…, each new one between the old: cuts made early stay useful."""
    return float((number * _GOLDEN & _WORD) >> 12)


def readable(kind: object) -> bool:
    """Whether filters can read a column of this Arrow type."""
    name = str(kind)
    if name.startswith("dictionary<values="):
        name = name.removeprefix("dictionary<values=").split(",")[0]
    return name.rstrip("0123456789") in NUMBERS or name in ("bool", "null", *TEXTS)


class Attribute:
    """The columns of one attribute, and the entries (column, key) of its values, packed."""

    __slots__ = (
        "fragments",
        "memory",
        "name",
        "number",
        "prefixes",
        "present",
        "suffixes",
        "text",
        "texts",
        "truth",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = self.text = self.truth = self.present = -1
        self.texts: dict[str, float] = {}
        self.prefixes: dict[int, tuple[int, dict[str, float]]] = {}
        self.suffixes: dict[int, tuple[int, dict[str, float]]] = {}
        self.fragments: dict[int, dict[str, int]] = {}
        self.memory: dict[str | bool, bytes] = {}

    @property
    def plain(self) -> bool:
        """Whether filters read this attribute as a number only."""
        return self.number >= 0 > self.present and self.truth < 0 and not self.textual

    @property
    def named(self) -> bool:
        """Whether filters only ask which text this attribute is."""
        return (
            self.text >= 0
            and not (self.prefixes or self.suffixes or self.fragments)
            and max(self.number, self.truth, self.present) < 0
        )

    @property
    def textual(self) -> bool:
        """Whether some filter reads this attribute as text."""
        return self.text >= 0 or bool(self.prefixes or self.suffixes or self.fragments)

    def entries(self, value: bool | int | float | str) -> bytes:
        """The (column, key) pairs of a value, packed."""
        name = value if isinstance(value, str | bool) else None
        if name is not None:
            found = self.memory.get(name)
            if found is not None:
                return found
        parts: list[tuple[int, float]] = []
        if self.present >= 0:
            parts.append((self.present, 1.0))
        if self.number >= 0:
            number = values.number(value)
            if number is not None:
                parts.append((self.number, float(number)))
        if self.truth >= 0:
            truth = values.truth(value)
            if truth is not None:
                parts.append((self.truth, float(truth)))
        if self.textual:
            parts += self._text_entries(values.text(value))
        packed = b"".join(_ENTRY.pack(*part) for part in parts)
        if name is not None and (isinstance(name, bool) or len(name) <= MEMORISED):
            if len(self.memory) >= MEMORY:
                self.memory.clear()
            self.memory[name] = packed
        return packed

    def pack(self, value: object) -> bytes:
        """The entries of anything an event may hold: none for what counts as absent."""
        native = values.native(value)
        return b"" if native is None else self.entries(native)

    def _text_entries(self, text: str) -> list[tuple[int, float]]:
        found: list[tuple[int, float]] = []
        key = self.texts.get(text)
        if key is not None:
            found.append((self.text, key))
        for length, (column, names) in self.prefixes.items():
            key = names.get(text[:length])
            if key is not None:
                found.append((column, key))
        for length, (column, names) in self.suffixes.items():
            key = names.get(text[-length:])
            if key is not None:
                found.append((column, key))
        fragments: dict[int, None] = {}
        for length, columns in self.fragments.items():
            if len(columns) <= FEW_FRAGMENTS or length > SHORT_FRAGMENT:
                fragments.update((hit, None) for part, hit in columns.items() if part in text)
                continue
            for at in range(len(text) - length + 1):
                hit = columns.get(text[at : at + length])
                if hit is not None:
                    fragments[hit] = None
        return found + [(column, 1.0) for column in fragments]


class Vocabulary:
    """All columns of an index. It only grows."""

    def __init__(self) -> None:
        self.attributes: dict[str, Attribute] = {}
        self.brief: Brief = {}
        self.columns = 1  # the first is nobody's
        self.fragments: list[int] = []
        """The columns of fragments."""

    def attribute(self, name: str) -> Attribute:
        """The attribute of this name, made if need be."""
        found = self.attributes.get(name)
        if found is None:
            found = self.attributes[name] = Attribute(name)
        return found

    def _new(self, attribute: Attribute) -> int:
        if self.columns >= MAX_COLUMNS:
            return -1
        attribute.memory.clear()
        self.brief[attribute.name] = (-1, attribute.memory, attribute.pack)
        self.columns += 1
        return self.columns - 1

    def number(self, attribute: Attribute) -> int:
        """The column of its numbers; -1, here and below, if there can be no more columns."""
        if attribute.number < 0:
            attribute.number = self._new(attribute)
            if attribute.plain:
                self.brief[attribute.name] = (attribute.number, attribute.memory, attribute.pack)
        return attribute.number

    def truth(self, attribute: Attribute) -> int:
        """The column of its truth values."""
        if attribute.truth < 0:
            attribute.truth = self._new(attribute)
        return attribute.truth

    def present(self, attribute: Attribute) -> int:
        """The column that says whether it is there."""
        if attribute.present < 0:
            attribute.present = self._new(attribute)
        return attribute.present

    def text(self, attribute: Attribute, text: str) -> tuple[int, float]:
        """Column and key of a whole text."""
        if attribute.text < 0:
            attribute.text = self._new(attribute)
            if attribute.text < 0:
                return -1, 0.0
        key = attribute.texts.get(text)
        if key is None:
            key = attribute.texts[text] = _spread(len(attribute.texts))
            attribute.memory.clear()
        return attribute.text, key

    def affix(self, attribute: Attribute, affix: str, *, suffix: bool) -> tuple[int, float, bool]:
        """Column and key of a prefix or suffix, and whether they are of all of it, or of a part."""
        known = attribute.suffixes if suffix else attribute.prefixes
        length = len(affix)
        if length not in known:
            column = self._new(attribute) if len(known) < MAX_LENGTHS else -1
            if column < 0:
                length = max((n for n in known if n < length), default=0)
                if not length:
                    return -1, 0.0, False
            else:
                known[length] = (column, {})
        column, names = known[length]
        named = affix[-length:] if suffix else affix[:length]
        key = names.get(named)
        if key is None:
            key = names[named] = _spread(len(names))
            attribute.memory.clear()
        return column, key, length == len(affix)

    def fragment(self, attribute: Attribute, fragment: str) -> int:
        """The column of a fragment to be contained."""
        columns = attribute.fragments.setdefault(len(fragment), {})
        column = columns.get(fragment, -1)
        if column < 0 and len(self.fragments) < MAX_FRAGMENTS:
            column = self._new(attribute)
            if column >= 0:
                columns[fragment] = column
                self.fragments.append(column)
        return column
