"""What must hold in every simulation; checked while it runs, not only in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.stack.host import LOCAL, NodeId

if TYPE_CHECKING:
    from shoal.content import Filter


class InvariantViolation(AssertionError):  # noqa: N818  # it says what happened
    """A protocol or the simulator broke a promise; the message says which, where and when."""


def delivered_twice(publisher: int, sequence: int, node: NodeId, now: float) -> InvariantViolation:
    """An application was handed an event that it had."""
    return InvariantViolation(
        f"event {publisher}/{sequence} delivered twice to node {node} at {now:.6f} s; where links "
        "are replaced faster than events cross the tree, one can overtake itself: raise repair_time"
    )


def not_handled(kind: str) -> InvariantViolation:
    """A protocol sends messages of a type that it named in no ``handlers``."""
    return InvariantViolation(
        f"a node sends {kind} messages, which no layer handles; name {kind} in a layer's handlers()"
    )


def check_acyclic(links: list[dict[NodeId, None]], a: NodeId, b: NodeId, now: float) -> None:
    """Before a link comes up: its ends must not be connected already.

    Searches from both ends in turn, so that the cost is that of the smaller part.
    """
    seen, frontier = {a}, [a]
    others, waiting = {b}, [b]
    while frontier and waiting and a != b:
        for neighbour in links[frontier.pop()]:
            if neighbour in others:
                raise InvariantViolation(f"link {a}-{b} at {now:.6f} s closes a cycle")
            if neighbour not in seen:
                seen.add(neighbour)
                frontier.append(neighbour)
        seen, frontier, others, waiting = others, waiting, seen, frontier
    if a == b:
        raise InvariantViolation(f"link {a}-{b} at {now:.6f} s closes a cycle")


def check_table(
    expected: set[tuple[NodeId, Filter]],
    node: NodeId,
    table: set[tuple[NodeId, Filter]],
    now: float,
    covering: bool = False,
) -> None:
    """At rest: a node's table is the oracle's.

    With covering nothing may be there that is not due, and all that is due must be covered.
    """
    missing = expected - table
    if covering:
        missing = {
            (source, filter)
            for source, filter in missing
            if not any(s == source and held.covers(filter) for s, held in table)
        }
    undue = table - expected
    if missing or undue:
        raise InvariantViolation(
            f"at rest ({now:.6f} s) the table of node {node} is wrong: "
            f"missing {_entries(missing)}; not due {_entries(undue)}"
        )


def _entries(entries: set[tuple[NodeId, Filter]]) -> str:
    if not entries:
        return "nothing"
    named = sorted(f"{'LOCAL' if s == LOCAL else s}: {f}" for s, f in entries)
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    return ", ".join(named[:5]) + more
