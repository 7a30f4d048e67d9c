"""Measures that need the shape of the tree: run by run, in Python, on Spark's workers.

SQL counts and joins; it does not walk trees. A case is a function of one run's tables that gives a
number (or one per point of an axis of its own); most count how often something that must not happen
did. Runs that record what cases need are few and small.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from shoal.pipeline.measure.registry import Measure, Question, find_measure
from shoal.pipeline.measure.run_view import Edge, Entry, Repair, Run, links_spanning, tree_path
from shoal.stack.host import LOCAL

if TYPE_CHECKING:
    import pyarrow as pa

Value: TypeAlias = float | None
Outcome: TypeAlias = "Value | Iterable[tuple[float, Value]]"


PLAN = "plan"
"""The table that says of which experiments and variants a run is."""
ENTRIES = "entries"
"""The notes on entries of routing tables, read apart: where there are any, most notes are those."""


class Case(Measure):
    """A registered case; call it with a run."""

    given = 1

    def __init__(self, function: Callable[..., Any], unit: str, *parts: str) -> None:
        tables = ("notes" if part == ENTRIES else part for part in parts)
        super().__init__(function, unit, *dict.fromkeys(tables))
        self.parts = parts
        """What it reads: tables, and :data:`ENTRIES`. Its ``notes`` are all other notes."""


def case(*parts: str, unit: str = "") -> Callable[[Callable[..., Outcome]], Case]:
    """Register a case under its function's name."""
    return lambda function: Case(function, unit, *parts)


def evaluate(
    batches: Iterable[pa.RecordBatch], wanted: Mapping[str, Sequence[Question]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Spark's side of it: sorted rows of runs in, rows of values out, one run at a time."""
    import pyarrow as pa

    import shoal.pipeline.measure.compute  # noqa: F401  # a worker has not registered the cases yet

    for tables in _run_by_run(batches):
        planned = tables.pop(PLAN)
        run = Run(json.loads(planned[0]["configuration"]), tables)
        rows: list[dict[str, Any]] = []
        for row in planned:  # several experiments may have the same run
            about = {name: row[name] for name in ("experiment", "variant", "seed")}
            for want in wanted[row["experiment"]]:
                points = _points(want, run, row["variant"], row["x"])
                rows += [
                    {"measure": want.key, **about, "x": x, "value": value} for x, value in points
                ]
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _run_by_run(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, list[Any]]]:
    """The rows of each run by table; a run may go on in the next batch."""
    current = None
    tables: dict[str, list[Any]] = {}
    for batch in batches:
        keys = zip(batch["run_id"].to_pylist(), batch["table"].to_pylist(), strict=True)
        start = 0
        for (run, table), same in itertools.groupby(keys):
            length = sum(1 for _ in same)
            if run != current:
                if current is not None:
                    yield tables
                current, tables = run, {}
            tables.setdefault(table, []).extend(batch[table].slice(start, length).to_pylist())
            start += length
    if current is not None:
        yield tables


def _points(
    want: Question, run: Run, variant: str, x: float | None
) -> list[tuple[float | None, Value]]:
    """A case's value at the run's x, or its values at points of its own, as (x, value)."""
    try:
        outcome = find_measure(want.measure)(run, **want.parameters)
        if outcome is None or isinstance(outcome, int | float):
            return [(x, outcome)]
        return list(outcome)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0]
        raise RuntimeError(f"'{want.measure}' of variant '{variant}': {why}") from error


def summed(counts: Iterable[float]) -> Value:
    """The sum; None where there was nothing to count."""
    counted = list(counts)
    return sum(counted) if counted else None


def mean(values: Iterable[float]) -> Value:
    """The mean; None where there are no values."""
    found = list(values)
    return sum(found) / len(found) if found else None


def percentile_of(values: Sequence[float], share: float) -> Value:
    """The least value that at least such a share of the values does not exceed."""
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


# Subscriptions and the pattern tree (Frey, section 5.2, observation 1)


def _acts(run: Run) -> Iterator[tuple[str, int, set[int], set[int]]]:
    """Subscriptions and unsubscriptions of the only pattern, in order.

    Each with the kind of its messages, their number, and the subscribers before and after it.
    """
    acts = sorted((n["time"], n["node"], n["what"]) for n in run.entry_notes if n["peer"] == LOCAL)
    sent = sorted((m["time"], m["kind"]) for m in run.messages if m["kind"] in ("sub", "unsub"))
    subscribers: set[int] = set()
    for i, (time, node, what) in enumerate(acts):
        end = acts[i + 1][0] if i + 1 < len(acts) else float("inf")
        kind = "sub" if what == "entry added" else "unsub"
        count = sum(1 for at, k in sent if time <= at < end and k == kind)
        before = set(subscribers)
        subscribers ^= {node}
        yield kind, count, before, set(subscribers)


@case("links", "messages", ENTRIES, unit="errors")
def subscription_errors(run: Run, act: str) -> Value:
    """Acts of one sort that send other messages than those to the nearest node of the tree."""
    links = run.initial_links
    everyone = len(links)
    errors = acts = 0
    for kind, count, before, after in _acts(run):
        (node,) = before ^ after
        rest = after if kind == "unsub" else before
        if not rest:
            what, expected = ("last" if kind == "unsub" else "first"), everyone
        else:
            # The way to a tree is what the tree grows by when the node joins it.
            expected = len(links_spanning(links, rest | {node})) - len(links_spanning(links, rest))
            what = "leave" if kind == "unsub" else "further" if expected else "inner"
        if what == act:
            acts += 1
            errors += count != expected
    return errors if acts else None


@case("links", "messages", ENTRIES, unit="messages")
def kth_subscription(run: Run) -> Iterable[tuple[float, Value]]:
    """Messages for the k-th subscription to a pattern; x is k."""
    kinds = [(kind, count) for kind, count, _, _ in _acts(run)]
    return [(k + 1, count) for k, (kind, count) in enumerate(kinds) if kind == "sub"]


@case("links", ENTRIES, unit="errors")
def route_errors(run: Run) -> Value:
    """Entries at rest other than: both ways in the pattern tree, only towards it outside."""
    table = run.entries()
    patterns = {pattern for _, _, pattern in table}
    expected: set[Entry] = set()
    for pattern in patterns:
        subscribers = {n for n, peer, p in table if p == pattern and peer == LOCAL}
        expected |= {(n, LOCAL, pattern) for n in subscribers}
        inside = links_spanning(run.final_links, subscribers)
        for a, b in run.final_links:
            if (a, b) in inside:
                expected |= {(a, b, pattern), (b, a, pattern)}
            elif run.reaches(a, b, subscribers):
                expected.add((a, b, pattern))
            else:
                expected.add((b, a, pattern))
    return len(table ^ expected)


@case("links", "messages", ENTRIES, "publications", unit="errors")
def event_span_errors(run: Run, since: float) -> Value:
    """Events on the final tree that take other links than those that span their receivers."""
    subscribers = {node for node, peer, _ in run.entries() if peer == LOCAL}
    sent = Counter(event_of(m["content"]) for m in run.messages if m["kind"] == "event")
    errors = events = 0
    for publication in run.publications:
        if publication["time"] >= since:
            events += 1
            publisher = publication["publisher"]
            span = links_spanning(run.final_links, subscribers | {publisher}) if subscribers else ()
            errors += sent[publisher, publication["sequence"]] != len(span)
    return errors if events else None


def event_of(content: str) -> tuple[int, int]:
    """Publisher and sequence number, from the text of an event on its way."""
    found = re.search(r"publisher=(\d+), sequence=(\d+)", content)
    if found is None:
        raise ValueError(f"no event in '{content}'")
    return int(found[1]), int(found[2])


# The reconfiguration path (Frey, section 5.2, observation 3)


@case("links", unit="errors")
def path_errors(run: Run, path: Sequence[int]) -> Value:
    """Dispatchers in which the first reconfiguration's path differs from the given one."""
    repair = next(iter(run.repairs), None)
    if repair is None:
        return None
    return sum(a != b for a, b in zip(repair.path, path, strict=False)) + abs(
        len(repair.path) - len(path)
    )


@case("links", ENTRIES, unit="errors")
def entry_change_errors(
    run: Run, added: Sequence[Sequence[int]], removed: Sequence[Sequence[int]]
) -> Value:
    """Entries (dispatcher, next hop) that the first repair changes otherwise than given."""
    for repair in run.repairs:
        change = run.change_of(repair)
        come = {(node, peer) for (node, peer, _), net in change.items() if net > 0}
        gone = {(node, peer) for (node, peer, _), net in change.items() if net < 0}
        due_in, due_out = {(a, b) for a, b in added}, {(a, b) for a, b in removed}
        return len(come ^ due_in) + len(gone ^ due_out)
    return None


@case("links", ENTRIES, unit="errors")
def changes_off_path(run: Run) -> Value:
    """Dispatchers off the reconfiguration path whose table differs before and after."""
    return summed(
        len({node for node, _, _ in run.change_of(repair)} - set(repair.path))
        for repair in run.repairs
    )


@case("links", ENTRIES, unit="errors")
def changes_on_wrong_side(run: Run) -> Value:
    """Entries gained that do not lead on along the head, or back along the tail, of the path."""

    def astray(repair: Repair) -> int:
        head, tail = repair.head, repair.tail
        onward = set(zip(head, [*head[1:], tail[0]], strict=True))
        back = set(zip(tail, [head[-1], *tail], strict=False))
        gained = {(n, peer) for (n, peer, _), net in run.change_of(repair).items() if net > 0}
        return len(gained - onward - back)

    return summed(astray(repair) for repair in run.repairs)


@case("links", "messages", unit="errors")
def work_off_path(run: Run, kinds: Sequence[str]) -> Value:
    """Messages of some kinds handled by dispatchers off the reconfiguration path."""

    def strays(repair: Repair) -> int:
        during = (m for m in run.messages if repair.begins <= m["time"] < repair.ends)
        return sum(m["kind"] in kinds and m["target"] not in repair.path for m in during)

    return summed(strays(repair) for repair in run.repairs)


# Reconfiguration Path (Frey, section 6.3.1)


class Step(NamedTuple):
    """One REC message: over which link, and with which patterns."""

    time: float
    source: int
    target: int
    add: set[str]
    delete: set[str]


_REC = re.compile(r"Rec\(reconfiguration=(\d+), add=\((.*?)\), delete=\((.*?)\), head=")


def _walks(run: Run) -> dict[int, list[Step]]:
    """The REC messages of each reconfiguration, in order."""
    walks: dict[int, list[Step]] = defaultdict(list)
    for message in run.messages:
        if message["kind"] == "rec":
            found = _REC.match(message["content"])
            if found is None:
                raise ValueError(f"no REC in '{message['content']}'")
            add, delete = (set(re.findall(r"number=\d+", found[i])) for i in (2, 3))
            step = Step(message["time"], message["source"], message["target"], add, delete)
            walks[int(found[1])].append(step)
    return {number: sorted(walk, key=lambda step: step.time) for number, walk in walks.items()}


@case("links", "messages", unit="errors")
def rec_content_errors(run: Run) -> Value:
    """REC messages with changed additions, more removals, or anything at all on the tail."""
    walks = _walks(run)

    def errors(repair: Repair) -> int:
        wrong, walk = 0, walks.get(repair.number, [])
        for before, step in zip([walk[0], *walk], walk, strict=False) if walk else ():
            if step.source in repair.head:
                crossing = step.target == repair.tail[0]
                wrong += step.add != walk[0].add or not step.delete <= before.delete
                wrong += crossing and bool(step.delete)
            else:
                wrong += bool(step.add or step.delete)
        return wrong

    return summed(errors(repair) for repair in run.repairs) if walks else None


@case("links", ENTRIES, unit="errors")
def entries_after_last_rec(run: Run) -> Value:
    """Entries that the end of the tail gets only after its unsubscriptions began."""

    def late(repair: Repair) -> int:
        end, old = repair.path[-1], repair.path[0]
        mine = [
            n
            for n in run.entry_notes
            if n["node"] == end and repair.begins <= n["time"] < repair.ends
        ]
        gone = [n["time"] for n in mine if n["what"] == "entry removed" and n["peer"] == old]
        start = min(gone, default=float("inf"))
        return sum(n["what"] == "entry added" and n["time"] > start for n in mine)

    return summed(late(repair) for repair in run.repairs)


# Chapter 2 and 3


@case("links", unit="errors")
def crash_errors(run: Run) -> Value:
    """Links lost by a crash that are not those of the crashed node, each once."""
    crashed = {node for _, node in run.configuration["topology"]["crashes"]}
    due = Counter(_sorted(e) for e in run.initial_links if crashed & set(e))
    lost = Counter(_sorted((c["a"], c["b"])) for c in run.links if c["change"] == "down")
    return sum(((due - lost) + (lost - due)).values())


def _sorted(edge: Edge) -> Edge:
    return (min(edge), max(edge))


@case("links", "messages", ENTRIES, "publications", unit="errors")
def hierarchical_route_errors(run: Run) -> Value:
    """Events of the only pattern that do not climb to the root and fork down where they should."""
    subscribers = {node for node, peer, _ in run.entries() if peer == LOCAL}
    settled = max((n["time"] for n in run.entry_notes), default=0.0)
    sent: dict[tuple[int, int], Counter[Edge]] = defaultdict(Counter)
    for m in run.messages:
        if m["kind"] == "event":
            sent[event_of(m["content"])][m["source"], m["target"]] += 1
    errors = events = 0
    for publication in run.publications:
        if publication["time"] <= settled:
            continue
        events += 1
        climb = tree_path(run.final_links, publication["publisher"], 0)
        due = set(itertools.pairwise(climb))
        for subscriber in subscribers:
            down = tree_path(run.final_links, 0, subscriber)
            fork = max(i for i, node in enumerate(down) if node in climb)
            due |= set(itertools.pairwise(down[fork:]))
        event = (publication["publisher"], publication["sequence"])
        errors += sent[event] != Counter(due)
    return errors if events else None
