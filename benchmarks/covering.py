"""The covering poset under change: microseconds of CPU an insertion and a removal.

A poset of many filters is built for each workload, then random ones are removed and inserted. The
filters and their normal forms are made beforehand.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

from shoal.content import AttributeFilter
from shoal.content.poset import CoveringPoset


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
    """W4: three of fifty attributes, all operators, some disjunctions."""

    def part() -> str:
        name = f"a{min(int(draw.paretovariate(0.6)), 50)}"
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

    one = " AND ".join(part() for _ in range(draw.randint(2, 4)))
    return one if draw.random() < 0.9 else f"({one}) OR ({part()} AND {part()})"


WORKLOADS: dict[str, Callable[[random.Random], str]] = {
    "W1_stock": stock,
    "W2_halves": halves,
    "W3_nested": nested,
    "W4_general": general,
}


def run(quick: bool = False) -> Iterator[dict[str, float]]:
    """Every workload."""
    CoveringPoset(AttributeFilter(f"x = {i} AND y > {i}") for i in range(200))  # compile
    for name in WORKLOADS:
        yield measure(name, 10_000 if quick else 100_000)


def measure(name: str, count: int, changes: int = 5_000) -> dict[str, float]:
    """One workload."""
    draw = random.Random(name)
    make = WORKLOADS[name]
    texts = dict.fromkeys(make(draw) for _ in range(count + changes))
    started = time.process_time()
    filters = [AttributeFilter(text) for text in texts]
    for filter in filters:
        _ = filter.normal
    made = time.process_time() - started
    held, fresh = filters[:-changes], filters[-changes:]
    started = time.process_time()
    poset = CoveringPoset(held)
    built = time.process_time() - started
    inserting = removing = 0.0
    for filter in fresh:
        at = draw.randrange(len(held))
        started = time.process_time()
        poset.remove(held[at])
        removing += time.process_time() - started
        started = time.process_time()
        poset.insert(filter)
        inserting += time.process_time() - started
        held[at] = filter
    return {
        f"{name}_filters": len(poset),
        f"{name}_maximal": len(poset.maximal()),
        f"{name}_parse_microseconds": made / len(filters) * 1e6,
        f"{name}_build_microseconds": built / count * 1e6,
        f"{name}_insert_microseconds": inserting / changes * 1e6,
        f"{name}_remove_microseconds": removing / changes * 1e6,
    }
