"""Filters and events over typed attributes, drawn from a seed: what matching is tried on.

Three workloads are those of DPS, Table 1 (Anceaume et al. 2006, section 5.2); of these the paper
gives the shares only, so domains are parameters here. The stock workload has an equality on a
symbol, as popular as its rank, and ranges of price and volume. The general one has everything.

A workload gives filters as normal forms (or as text) and events as a record batch (or as mappings),
so that the simulator, the benchmarks and Spark all see the same ones.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shoal.content.covering import expression_of_conjunction
from shoal.content.language.printer import show
from shoal.content.language.syntax import And, Exists, Or
from shoal.content.normal import Conjunction, NormalForm, Number, Predicate, Present, Text, Truth
from shoal.simulation.draws import uniform_array

Floats: TypeAlias = NDArray[np.float64]
CHUNK: Final = 10_000
LETTERS: Final = string.ascii_lowercase


class Draws:
    """Uniform numbers for rows ``first`` to ``last`` of one purpose, by name."""

    def __init__(self, seed: int, purpose: str, first: int, last: int) -> None:
        self._seed, self._purpose = seed, purpose
        self._rows = np.arange(first, last, dtype=np.uint64)

    def __call__(self, name: str) -> Floats:
        """One number per row."""
        return uniform_array(self._seed, f"{self._purpose} {name}", self._rows)


def zipf(uniform: Floats, size: int, exponent: float) -> NDArray[np.int64]:
    """Ranks from 0, the first the likeliest; exponent 0 is uniform."""
    weights = np.arange(1, size + 1, dtype=np.float64) ** -exponent
    return np.searchsorted(np.cumsum(weights) / weights.sum(), uniform).clip(0, size - 1)


def shuffled(size: int, seed: int, purpose: str) -> NDArray[np.int64]:
    """A fixed permutation: which value has which popularity."""
    return np.argsort(uniform_array(seed, purpose, np.arange(size, dtype=np.uint64)))


def word(number: int) -> str:
    """A word for a number: distinct, of five to eight letters, with all letters about as common."""
    number = number * 2654435761 % (1 << 32)
    letters = ""
    while len(letters) < 5 or number:
        number, letter = divmod(number, 26)
        letters += LETTERS[letter]
    return letters


_CODE: Final = "".join(
    letter * (256 >> bits)
    for bits, letters in ((3, "et"), (4, "aoinshr"), (5, "dlcumw"), (6, "fgypbvk"), (8, "jxqz"))
    for letter in letters
)
"""A prefix code: per byte the letter that its first bits stand for, as common as in English."""


def dictionary_word(number: int) -> str:
    """A word for a number: distinct, about seven letters, common ones as common as in English."""
    bits, left, letters = number * 2654435761 % (1 << 32), 32, ""
    while left > 0:
        letter = _CODE[bits >> 24]
        length = 9 - _CODE.count(letter).bit_length()
        bits = bits << length & 0xFFFF_FFFF
        left -= length
        letters += letter
    return letters


def text_of(form: NormalForm) -> str:
    """A workload's filter in the language.

    There, ``a = 1 OR b = 2`` fails where ``a`` is absent, whatever ``b`` is; hence the guards.
    """
    parts = [expression_of_conjunction(one) for one in form.disjuncts]
    if len(parts) == 1:
        return show(parts[0])
    guards = [tuple(Exists(p.attribute) for p in one.predicates) for one in form.disjuncts]
    return show(Or(tuple(And((*g, part)) for g, part in zip(guards, parts, strict=True))))


@dataclass(frozen=True)
class ContentWorkload:
    """What the workloads share; each draws one chunk of filters or events at a time."""

    seed: int = 1

    def forms(self, count: int) -> Iterator[NormalForm]:
        """Filters in normal form."""
        for first in range(0, count, CHUNK):
            yield from self._forms(Draws(self.seed, "filter", first, min(first + CHUNK, count)))

    def texts(self, count: int) -> Iterator[str]:
        """The filters as text in the language."""
        return map(text_of, self.forms(count))

    def events(self, count: int) -> pa.RecordBatch:
        """Events as a record batch; a null is an absent attribute."""
        columns = self._events(Draws(self.seed, "event", 0, count))
        return pa.record_batch(columns)

    def contents(self, count: int) -> list[dict[str, Any]]:
        """The events as mappings."""
        return [
            {name: value for name, value in row.items() if value is not None}
            for row in self.events(count).to_pylist()
        ]

    def _forms(self, draw: Draws) -> Iterator[NormalForm]:
        raise NotImplementedError

    def _events(self, draw: Draws) -> dict[str, pa.Array]:
        raise NotImplementedError


@dataclass(frozen=True)
class Attribute:
    """An attribute of a DPS workload. Of words, a filter asks for one, or for a letter of one."""

    name: str
    range: float | None = None
    """Length of a range of numbers, as a share of the domain: the selectivity. None: words."""
    equality: float = 0.0
    """Share of filters that ask for one value."""
    filter_zipf: float = 0.0
    event_zipf: float = 0.0


@dataclass(frozen=True)
class Dps(ContentWorkload):
    """Conjunctions over a few attributes, one predicate on each (DPS, Table 1)."""

    attributes: tuple[Attribute, ...] = ()
    domain: int = 500
    """Values of an attribute; 0: real numbers."""
    overlap: float = 0.0
    """Share of filters that repeat one of the first hundred: identical interests."""
    even: bool = False
    """Whether ranges lie anywhere in the domain alike; if not, around a value, moved inside."""

    def reshaped(self, count: int | None, exponent: float | None) -> Dps:
        """This workload with so many attributes like its first, and another Zipf exponent."""
        kept = list(self.attributes)
        if count is not None:
            kept = [replace(kept[0], name=f"{kept[0].name}{n or ''}") for n in range(count)]
        if exponent is not None:
            kept = [
                replace(
                    one,
                    filter_zipf=exponent if one.filter_zipf else 0.0,
                    event_zipf=exponent if one.event_zipf else 0.0,
                )
                for one in kept
            ]
        return replace(self, attributes=tuple(kept))

    def _place(self, attribute: Attribute, uniform: Floats, exponent: float, who: str) -> Any:
        """Positions in the domain; popularity of filters and of events is independent."""
        if not self.domain:
            return uniform
        ranks = zipf(uniform, self.domain, exponent)
        return shuffled(self.domain, self.seed, f"{who} {attribute.name}")[ranks]

    def _forms(self, draw: Draws) -> Iterator[NormalForm]:
        for columns in zip(*(self._predicates(a, draw) for a in self.attributes), strict=True):
            yield NormalForm((Conjunction(tuple(columns)),))

    def _predicates(self, attribute: Attribute, draw: Draws) -> Iterator[Predicate]:
        again = draw("repeat") < self.overlap
        which = (draw("which") * 100).astype(np.int64)
        early = Draws(self.seed, "filter", 0, 100)

        def drawn(name: str) -> Floats:
            name = f"{attribute.name} {name}"
            return np.where(again, early(name)[which], draw(name))

        equal = drawn("equality") < attribute.equality
        at = self._place(attribute, drawn("value"), attribute.filter_zipf, "filters")
        if attribute.range is None:
            for value, is_equal, which in zip(at, equal, drawn("letter").tolist(), strict=True):
                text = dictionary_word(int(value))
                yield (
                    Text(attribute.name, among=(text,))
                    if is_equal
                    else Text(attribute.name, contains=(text[int(which * len(text))],))
                )
            return
        if self.domain:
            length = round(attribute.range * self.domain)
            low = np.clip(at - length // 2, 0, self.domain - length)
            if self.even:
                low = at * (self.domain - length + 1) // self.domain
            high = low + length - 1
            for value, is_equal, one, other in zip(
                at.tolist(), equal, low.tolist(), high.tolist(), strict=True
            ):
                yield Number(attribute.name, *((value, value) if is_equal else (one, other)))
        else:
            low = at * (1 - attribute.range)
            for one in low.tolist():
                yield Number(attribute.name, one, one + attribute.range)

    def _events(self, draw: Draws) -> dict[str, pa.Array]:
        found = {}
        for attribute in self.attributes:
            uniform = draw(f"{attribute.name} value")
            at = self._place(attribute, uniform, attribute.event_zipf, "events")
            if attribute.range is None:
                words = pa.array([dictionary_word(number) for number in range(self.domain)])
                found[attribute.name] = words.take(pa.array(at))
            else:
                found[attribute.name] = pa.array(at)
        return found


@dataclass(frozen=True)
class Stock(ContentWorkload):
    """Quotes: a symbol by popularity, a price around the symbol's own, a volume."""

    symbols: int = 1_000
    exponent: float = 1.0
    price_range: float = 0.05
    """Half the length of a price range, relative to the symbol's price."""
    volume_range: float = 0.25
    tick: float = 0.01
    """Prices are multiples of it; a coarser one makes more filters alike."""

    def _price(self, symbol: NDArray[np.int64], spread: Floats) -> Floats:
        base = 10 * 1.007 ** (symbol % 500)
        return np.asarray(base * np.exp((spread - 0.5) * 0.4))

    def _round(self, price: Floats) -> Floats:
        return np.round(np.round(price / self.tick) * self.tick, 6)

    def _forms(self, draw: Draws) -> Iterator[NormalForm]:
        symbol = zipf(draw("symbol"), self.symbols, self.exponent)
        price = self._price(symbol, draw("price"))
        low = self._round(price * (1 - self.price_range))
        high = self._round(price * (1 + self.price_range))
        span = round(self.volume_range * 1_000)
        volume = (draw("volume") * (1_000 - span)).astype(np.int64) * 100
        rows = zip(symbol.tolist(), low.tolist(), high.tolist(), volume.tolist(), strict=True)
        for number, least, most, shares in rows:
            name = Text("symbol", among=(f"S{number}",))
            traded = Number("volume", shares, shares + 100 * span)
            yield NormalForm((Conjunction((Number("price", least, most), name, traded)),))

    def _events(self, draw: Draws) -> dict[str, pa.Array]:
        symbol = zipf(draw("symbol"), self.symbols, self.exponent)
        names = pa.array([f"S{s}" for s in range(self.symbols)])
        return {
            "symbol": names.take(pa.array(symbol)),
            "price": pa.array(self._round(self._price(symbol, draw("price")))),
            "volume": pa.array((draw("volume") * 100_000).astype(np.int64)),
        }


@dataclass(frozen=True)
class General(ContentWorkload):
    """Many attributes of all kinds, every operator, two to four predicates, one in five with OR."""

    attributes: int = 50
    """Two in five hold numbers, two in five words, one in five truth values."""
    words: int = 1_000
    range: float = 0.2
    present: float = 0.5
    """Chance that an event has an attribute."""
    disjunctions: float = 0.2

    def _kind(self, number: int) -> int:
        return number % 5 // 2  # 0 number, 1 word, 2 truth

    def _forms(self, draw: Draws) -> Iterator[NormalForm]:
        rows = [draw(f"predicate {i}").tolist() for i in range(40)]
        for u in zip(*rows, strict=True):
            first = self._conjunction(u[:20])
            if u[20] < self.disjunctions:
                second = self._conjunction(u[21:])
                yield NormalForm((first, second) if first != second else (first,))
            else:
                yield NormalForm((first,))

    def _conjunction(self, u: tuple[float, ...]) -> Conjunction:
        found: dict[str, Predicate] = {}
        for i in range(2 + int(u[0] * 3)):
            attribute, operator, value, length = u[1 + 4 * i : 5 + 4 * i]
            number = int(self.attributes * attribute**1.5)  # some are more popular
            name = f"a{number:02d}"
            if name not in found:
                found[name] = self._predicate(name, self._kind(number), operator, value, length)
        return Conjunction(tuple(found[name] for name in sorted(found)))

    def _predicate(
        self, name: str, kind: int, operator: float, value: float, length: float
    ) -> Predicate:
        if operator < 0.03:
            return Present(name)
        if kind == 0:
            at, span = round(value * 1_000), round(2 * self.range * length * 1_000)
            if operator < 0.2:
                return Number(name, at, at)
            if operator < 0.3:
                return Number(name, holes=(at,))
            if operator < 0.45:
                return Number(name, 1_000 - span, inf, True)
            if operator < 0.6:
                return Number(name, -inf, span, False, operator < 0.5)
            return Number(name, at, at + span)
        if kind == 2:
            return Truth(name, value < 0.5)
        text = word(int(self.words * value**2))
        if operator < 0.5:
            return Text(name, among=(text,))
        if operator < 0.6:
            others = {word(int(self.words * (value + i * length) % self.words)) for i in range(3)}
            return Text(name, among=tuple(sorted(others | {text})))
        if operator < 0.65:
            return Text(name, holes=(text,))
        size = 1 + int(3 * length)
        if operator < 0.8:
            return Text(name, prefix=text[:size])
        if operator < 0.9:
            return Text(name, suffix=text[-size:])
        return Text(name, contains=(text[1:3],))

    def _events(self, draw: Draws) -> dict[str, pa.Array]:
        words = pa.array([word(number) for number in range(self.words)])
        found = {}
        for number in range(self.attributes):
            name = f"a{number:02d}"
            value, absent = draw(f"{name} value"), draw(f"{name} present") >= self.present
            kind = self._kind(number)
            if kind == 0:
                found[name] = pa.array((value * 1_000).round(), mask=absent)
            elif kind == 1:
                ranks = pa.array((self.words * value**2).astype(np.int64), mask=absent)
                found[name] = words.take(ranks)
            else:
                found[name] = pa.array(value < 0.5, mask=absent)
        return found


def dps(workload: int, **changes: Any) -> Dps:
    """Workload 1 (stock exchange), 2 (game) or 3 (alerts) of DPS, Table 1."""
    attributes: dict[int, tuple[Attribute, ...]] = {
        1: (
            Attribute("number", 0.1, 0.5, filter_zipf=1.5),
            Attribute("text", None, 0.5, filter_zipf=1.5),
        ),
        2: (Attribute("x", 0.5), Attribute("y", 0.5)),
        3: tuple(Attribute(n, 0.2, 0.2, filter_zipf=1.5, event_zipf=1.5) for n in "xyz"),
    }
    if workload not in attributes:
        raise ValueError(f"DPS has no workload {workload}; take 1, 2 or 3")
    return replace(Dps(attributes=attributes[workload]), **changes)


WORKLOADS: Final[dict[str, ContentWorkload]] = {
    "W1": Stock(),
    "W2": dps(2, domain=0),
    "W3": dps(3),
    "W4": General(),
    "dps1": dps(1),
    "dps2": dps(2),
    "dps3": dps(3),
}
"""Workloads by name; W1 to W4 are those of the benchmark."""
