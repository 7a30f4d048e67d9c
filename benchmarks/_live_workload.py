"""What is subscribed to and published in ``shoal bench live``."""

from __future__ import annotations

import random
from typing import Any

from shoal.content import AttributeFilter
from shoal.content.index import MatchIndex

SUBSCRIBERS = 100
FILTERS = 10_000


def mixed_filters(chance: random.Random) -> list[str]:
    """Equalities, ranges, prefixes and alternatives over five attributes."""
    found = []
    for i in range(FILTERS):
        symbol, low = f"S{chance.randrange(500):03}", chance.uniform(0, 100)
        found.append(
            [
                f"symbol = '{symbol}' AND price BETWEEN {low:.2f} AND {low + 20:.2f}",
                f"symbol = '{symbol}' AND volume > {chance.randint(800, 990)}",
                f"symbol LIKE '{symbol}%' AND price > {50 + low / 2:.2f} AND side = 'buy'",
                f"price BETWEEN {low:.2f} AND {low + 0.5:.2f} AND venue = 'V{i % 100}'",
            ][i % 4]
        )
    return found


def mixed_event(chance: random.Random) -> dict[str, Any]:
    return {
        "symbol": f"S{chance.randrange(500):03}",
        "price": round(chance.uniform(0, 110), 2),
        "volume": chance.randrange(1000),
        "side": chance.choice(["buy", "sell"]),
        "venue": f"V{chance.randrange(100)}",
    }


def equality_values(number: int) -> tuple[str, str, int]:
    chance = random.Random(number)
    return f"S{chance.randrange(1000)}", f"V{chance.randrange(10)}", number


def equality_filters() -> list[str]:
    """What a headers exchange can express: all of several attributes are equal."""
    found = []
    for number in range(FILTERS):
        symbol, venue, lot = equality_values(number)
        found.append(f"symbol = '{symbol}' AND venue = '{venue}' AND lot = {lot}")
    return found


def equality_event(chance: random.Random) -> dict[str, Any]:
    symbol, venue, lot = equality_values(chance.randrange(FILTERS))
    return {"symbol": symbol, "venue": venue, "lot": lot}


def topic_event(chance: random.Random) -> dict[str, Any]:
    return {"topic": f"t{chance.randrange(100)}"}


def deliveries(filters: list[str], contents: list[dict[str, Any]]) -> list[int]:
    """How many subscribers get each event, if they take turns at subscribing to these filters."""
    index = MatchIndex()
    index.insert_many(AttributeFilter(text).normal for text in filters)
    return [len({handle % SUBSCRIBERS for handle in index.match(values)}) for values in contents]


def idle_filter(number: int) -> str:
    """A filter like no other, of words that others use too."""
    return f"symbol = 'S{number % 1000}' AND price > {number // 1000} AND volume < {number % 7}"


def idle_event(chance: random.Random) -> dict[str, Any]:
    """An event that no idle subscription wants."""
    return {"symbol": f"S{chance.randrange(1000)}", "price": -1, "volume": 9}


def index_bytes(filters: int) -> int:
    """Bytes that the index alone takes for such filters."""
    index = MatchIndex()
    for at in range(filters):
        index.insert(AttributeFilter(idle_filter(at)).normal)
    return index.nbytes
