"""What must hold in every simulation; checked while it runs, not only in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.simulation.kernel import Channel
from shoal.stack.host import LOCAL, NodeId

if TYPE_CHECKING:
    from shoal.content import Filter


class InvariantViolation(AssertionError):  # noqa: N818  # it says what happened
    """A protocol or the simulator broke a promise; the message says which, where and when."""


def check_acyclic(channels: list[dict[NodeId, Channel]], a: NodeId, b: NodeId, now: float) -> None:
    """Before a link comes up: its ends must not be connected already."""
    seen = {a}
    frontier = [a]
    while frontier:
        node = frontier.pop()
        for neighbour in channels[node]:
            if neighbour == b:
                raise InvariantViolation(f"link {a}-{b} at {now:.6f} s closes a cycle")
            if neighbour not in seen:
                seen.add(neighbour)
                frontier.append(neighbour)


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
