"""The slowest filters that are accepted, on the slowest events: seconds of CPU.

For each way to be slow, a filter is repeated until its cost is just within the budget, and asked
about the largest event, filled with the text that is worst for it. What is printed is how long that
takes, and how many nanoseconds a step of the cost really takes: the budget promises one or less.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from shoal.content import AttributeFilter, FilterError
from shoal.content.index import MatchIndex
from shoal.content.language import EVENT_BYTES, MAX_COST

Event = dict[str, object]

_LATIN = "abcdefghijklmno"
FAMILIES: dict[str, tuple[str, str, str, str]] = {
    # name: one part of the filter, what joins parts, the filter around them, the text
    "contains": ("x LIKE '%{a10}b{a10}%'", " OR ", "{}", "a"),
    "contains wide text": ("x LIKE '%{a10}b{a10}%'", " OR ", "{}", "\U0001f600a"),
    "one unknown character": ("x LIKE '%a_b%'", " OR ", "{}", "a"),
    "unknown characters": (f"x LIKE '%{_LATIN}_b%'", " OR ", "{}", _LATIN + "a"),
    "unknown wide characters": ("x LIKE '%世界_b%'", " OR ", "{}", "世界a"),
    "many segments": ("x LIKE '{segments}'", " OR ", "{}", "a"),
    "lower": ("LOWER(x) = 'a'", " OR ", "{}", "\u0130"),
    "upper": ("UPPER(x) = 'a'", " OR ", "{}", "\u0390"),
    "nested lower": ("LOWER(LOWER(LOWER(x))) = 'a'", " OR ", "{}", "\u0130"),
    "trim": ("TRIM(x) = 'a'", " OR ", "{}", "\u2003"),
    "concat": ("x", ", ", "LENGTH(CONCAT({})) < 0", "a"),
    "concat with": ("x", ", ", "LENGTH(CONCAT_WS(x, {})) < 0", "\U0001f600"),
    "substring": ("SUBSTRING(x, 2) = 'a'", " OR ", "{}", "a"),
    "contains another": ("CONTAINS(x, LEFT(x, 9000))", " AND ", "{} AND FALSE", "a"),
    "compare texts": ("x != x", " OR ", "{}", "a"),
    "numbers": ("x < 0", " OR ", "{}", "number"),
    "large numbers": ("x = ''", " OR ", "{}", "large"),
    "small parts": ("a=b", " OR ", "{}", "a"),
}


def event_of(text: str) -> Event:
    """The largest event, made of one text."""
    if text == "number":
        return {"x": "0" * 1023 + "1"}
    if text == "large":
        return {"x": 1.7e308}
    room = EVENT_BYTES // len(text.encode())
    return {"x": text * room, "a": "a", "b": "b"}


def worst(part: str, join: str, around: str) -> AttributeFilter:
    """As many parts as are accepted."""
    part = part.replace("{a10}", "a" * 10).replace("{segments}", "%" + "a_%" * 100 + "b_%")
    low, high, found = 1, 8192, AttributeFilter(around.format(part))
    while low < high - 1:
        middle = (low + high) // 2
        try:
            found, low = AttributeFilter(around.format(join.join([part] * middle))), middle
        except FilterError:
            high = middle
    return found


def run(*, quick: bool = False) -> Iterator[dict[str, float]]:
    """Every family alone, and in the matching index."""
    slowest = step = 0.0
    for name, (part, join, around, text) in FAMILIES.items():
        filter, event = worst(part, join, around), event_of(text)
        index = MatchIndex()
        index.insert(filter)
        alone = _least(lambda: filter.matches(event), 1 if quick else 3)  # noqa: B023  # called at once
        indexed = _least(lambda: index.match(event), 1 if quick else 3)  # noqa: B023  # called at once
        label = name.replace(" ", "_")
        yield {f"{label}_seconds": alone, f"{label}_indexed_seconds": indexed}
        slowest = max(slowest, alone, indexed)
        step = max(step, max(alone, indexed) / filter.cost() * 1e9)
    yield {
        "slowest_accepted_filter_seconds": slowest,
        "nanoseconds_a_step_at_most": step,
        "budget_million_steps": MAX_COST / 1e6,
    }


def _least(work: object, repeats: int) -> float:
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()  # type: ignore[operator]  # a function without arguments
        found.append(time.process_time() - begun)
    return min(found)
