"""A node that routes by covering, while filters come and go: CPU time with its index, and without.

A node of subscription forwarding with three neighbours takes many filters from one of them. Then
filters are withdrawn and new ones taken, a few at a time with the index and by asking every filter
in turn, and last a new neighbour is told the table. The filters and their normal forms are made
beforehand.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from shoal.content import AttributeFilter, Filter
from shoal.content.cover_index import CoverIndex
from shoal.routing import SubscriptionForwarding
from shoal.routing.parameters import SubscriptionForwardingParameters
from shoal.routing.reconfiguration import Strawman
from shoal.stack import Host
from shoal.stack.registry import NoParameters

SOURCE, NEIGHBOURS, NEWCOMER = 1, (1, 2, 3), 4


class Scan(CoverIndex):
    """No index: every filter is a candidate."""

    def above(self, filter: Filter) -> Iterator[Filter]:
        return iter(self._rows)

    def below(self, filter: Filter) -> Iterator[Filter]:
        return iter(self._rows)


class Nowhere(Host):
    """A host that counts what would be sent."""

    def __init__(self) -> None:
        super().__init__(0, 1)
        self.sent = 0

    def send(self, to: int, message: Any) -> None:
        self.sent += 1


def stock(draw: random.Random) -> str:
    """W1: a symbol (zipf), and ranges of price and volume."""
    symbol = min(int(draw.paretovariate(1.0)), 5000)
    price, width = draw.uniform(0, 900), draw.uniform(1, 100)
    volume = draw.randrange(100_000)
    return (
        f"symbol = 'S{symbol}' AND price BETWEEN {price:.2f} AND {price + width:.2f}"
        f" AND volume > {volume}"
    )


def halves(draw: random.Random) -> str:
    """W2: two attributes, each in a range of half its domain: no filter covers another."""
    x, y = draw.uniform(0, 0.5), draw.uniform(0, 0.5)
    return f"x BETWEEN {x:.6f} AND {x + 0.5:.6f} AND y BETWEEN {y:.6f} AND {y + 0.5:.6f}"


def nested(draw: random.Random) -> str:
    """W3: three attributes, ranges of all widths and a fifth equalities: much covering."""
    parts = []
    for name in "xyz":
        low = draw.randrange(1000)
        if draw.random() < 0.2:
            parts.append(f"{name} = {low}")
        else:
            parts.append(f"{name} BETWEEN {low} AND {low + int(draw.paretovariate(0.7)) % 900}")
    return " AND ".join(parts)


def general(draw: random.Random) -> str:
    """W4: two to four of fifty attributes, all operators, some disjunctions."""

    def name() -> str:
        return f"a{min(int(draw.paretovariate(0.6)), 50)}"

    def part(name: str) -> str:
        value = draw.randrange(1000)
        return draw.choice(
            (
                f"{name} = 't{value}'",
                f"{name} > {value}",
                f"{name} <= {value}",
                f"{name} BETWEEN {value} AND {value + 50}",
                f"{name} IN ('t{value}', 't{value + 1}', 't{value + 7}')",
                f"{name} LIKE 't{value % 100}%'",
                f"{name} != {value}",
                f"EXISTS {name}",
            )
        )

    def conjunction(size: int) -> str:
        return " AND ".join(map(part, dict.fromkeys(name() for _ in range(size))))

    one = conjunction(draw.randint(2, 4))
    return one if draw.random() < 0.9 else f"({one}) OR ({conjunction(2)})"


WORKLOADS: dict[str, Callable[[random.Random], str]] = {
    "W1_stock": stock,
    "W2_halves": halves,
    "W3_nested": nested,
    "W4_general": general,
}


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """Every workload, at 1,000 filters and (unless quick) at 10,000."""
    for count in (1_000,) if quick else (1_000, 10_000):
        for name in WORKLOADS:
            yield measure(name, count)


def measure(name: str, count: int, rounds: int = 5) -> dict[str, float]:
    """One workload: a round is ten changes with the index, and two by scanning."""
    draw = random.Random(name)
    changes = rounds * (10 + 2)
    texts = (WORKLOADS[name](draw) for _ in range(2 * (count + changes)))
    filters = [AttributeFilter(text) for text in dict.fromkeys(texts)][: count + changes]
    for filter in filters:
        _ = filter.normal
    held, fresh = filters[:-changes], iter(filters[-changes:])
    routing = SubscriptionForwarding(
        Nowhere(),
        SubscriptionForwardingParameters(covering=True),
        lambda routing: Strawman(routing, NoParameters()),
    )
    for neighbour in NEIGHBOURS:
        routing.add_neighbour(neighbour)
    started = time.process_time()
    for filter in held:
        routing.insert(SOURCE, filter)
    built = time.process_time() - started
    spent = {CoverIndex: 0.0, Scan: 0.0}
    for _ in range(rounds):
        for kind, times in ((CoverIndex, 10), (Scan, 2)):
            routing.cover_index = kind()
            for filter in held:
                routing.cover_index.add(filter)
            started = time.process_time()
            for filter in (next(fresh) for _ in range(times)):
                at = draw.randrange(len(held))
                routing.delete(SOURCE, held[at])
                routing.insert(SOURCE, filter)
                held[at] = filter
            spent[kind] += (time.process_time() - started) / times / rounds
    routing.cover_index = CoverIndex()
    for filter in held:
        routing.cover_index.add(filter)
    started = time.process_time()
    routing.add_neighbour(NEWCOMER)
    routing.announce_table(NEWCOMER)
    told = time.process_time() - started
    prefix = f"{name}_{len(held)}"
    return {
        f"{prefix}_told": len(routing.announced[NEWCOMER]),
        f"{prefix}_subscribe_microseconds": built / len(held) * 1e6,
        f"{prefix}_change_microseconds": spent[CoverIndex] * 1e6,
        f"{prefix}_change_by_scan_microseconds": spent[Scan] * 1e6,
        f"{prefix}_change_times_faster": spent[Scan] / spent[CoverIndex],
        f"{prefix}_announce_table_milliseconds": told * 1e3,
    }
