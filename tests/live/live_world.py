"""What the tests of the live network share."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from patience import CONDITION, STORY
from shoal.live.broker import Broker
from shoal.live.status import Status
from shoal.stack import LOCAL

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end."""

    async def bounded() -> T:
        async with asyncio.timeout(STORY):
            return await work

    return asyncio.run(bounded())


async def until(holds: Callable[[], bool] | Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until something holds; if it never does, say what."""
    try:
        async with asyncio.timeout(CONDITION):
            while True:
                answer = holds()
                if answer if isinstance(answer, bool) else await answer:
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"after {CONDITION:g} s still not so: {what}") from None


def tree_tables(
    links: dict[int, set[int]], wants: dict[int, set[str]]
) -> dict[int, set[tuple[int, str, int]]]:
    """The oracle for subscription forwarding: (n, f) iff a subscriber of f lies beyond n."""
    tables: dict[int, set[tuple[int, str, int]]] = {}
    for node in links:
        table = {(LOCAL, f, 0) for f in wants.get(node, ())}
        for neighbour in links[node]:
            for other in reachable(links, neighbour, without=node):
                table |= {(neighbour, f, 0) for f in wants.get(other, ())}
        tables[node] = table
    return tables


def reachable(links: dict[int, set[int]], start: int, without: int) -> set[int]:
    """The nodes on a neighbour's side of a tree."""
    seen, frontier = {start, without}, [start]
    while frontier:
        for node in links[frontier.pop()] - seen:
            seen.add(node)
            frontier.append(node)
    return seen - {without}


def graph_tables(
    links: dict[int, set[int]], wants: dict[int, set[str]], horizon: int
) -> dict[int, set[tuple[int, str, int]]]:
    """The oracle for semi-probabilistic routing: the fixed point of its announcement rule.

    Over a link is announced the best distance of all *other* sources plus one, up to the horizon.
    """
    filters = sorted({f for wanted in wants.values() for f in wanted})
    tables: dict[int, set[tuple[int, str, int]]] = {node: set() for node in links}
    for filter in filters:
        entries: dict[int, dict[int, int]] = {
            node: ({LOCAL: 0} if filter in wants.get(node, ()) else {}) for node in links
        }
        work = deque(links)
        while work:
            node = work.popleft()
            for neighbour in links[node]:
                others = [d for s, d in entries[node].items() if s != neighbour and d < horizon]
                told = min(others) + 1 if others else None
                held = entries[neighbour].get(node)
                if told != held:
                    if told is None:
                        del entries[neighbour][node]
                    else:
                        entries[neighbour][node] = told
                    work.append(neighbour)
        for node, found in entries.items():
            tables[node] |= {(source, filter, d) for source, d in found.items()}
    return tables


def links_of(states: Iterable[Status]) -> dict[int, set[int]]:
    """Who is linked to whom; both ends must agree."""
    links = {state.node: {link.node for link in state.links} for state in states}
    for node, neighbours in links.items():
        for neighbour in neighbours:
            assert neighbour in links, f"{node} is linked to {neighbour}, which is not there"
            assert node in links[neighbour], f"{neighbour} does not know of its link to {node}"
    return links


def tables_of(states: Iterable[Status]) -> dict[int, set[tuple[int, str, int]]]:
    """The routing tables as they are."""
    return {state.node: set(state.table or []) for state in states}


def at_rest(brokers: Iterable[Broker]) -> bool:
    """Whether every routing message that brokers of this process sent has arrived."""
    peers = [peer for broker in brokers for peer in broker.links.values()]
    return sum(peer.sent for peer in peers) == sum(p.received_count - p.beats for p in peers)


def states_of(brokers: Iterable[Broker]) -> list[Status]:
    """The brokers of this process, looked over."""
    return [broker.status(tables=True) for broker in brokers]
