"""Measures of publish/subscribe trees: what notes say of them, and whether runs keep the rules.

The notes are those of :mod:`shoal.simulation.static_tree`. A case that counts faults compares what
was recorded with what follows from places and intervals. Trees that nodes build by messages:
:mod:`shoal.pipeline.measure.shopping`.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from math import hypot
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.overlay.shopparent_costs import actions
from shoal.pipeline.measure.cases import ENTRIES, Value, case, event_of
from shoal.pipeline.measure.registry import over, setting
from shoal.pipeline.measure.run_view import Run
from shoal.simulation.radio_range import event_numbers
from shoal.simulation.static_tree import StaticTreeParameters
from shoal.simulation.topology import adjacency, distances

if TYPE_CHECKING:
    from pyspark.sql import Column


@over("notes", unit="as noted")
def mean_note(what: str, node: int | None = None) -> Column:
    """The mean of what a run notes under a name, of all nodes or one."""
    wanted = F.col("what") == what
    if node is not None:
        wanted &= F.col("node") == node
    return F.mean(F.when(wanted, F.expr("try_cast(value AS double)")))


@over("notes", unit="share")
def notes_within(what: str, low: float, high: float) -> Column:
    """The share of what a run notes under a name that lies between two numbers."""
    value = F.expr("try_cast(value AS double)")
    inside = F.when(value.between(low, high), 1.0).otherwise(0.0)
    return F.mean(F.when(F.col("what") == what, inside))


@over("notes", unit="0 or 1")
def mean_within(what: str, low: float, high: float) -> Column:
    """1 if the mean of what a run notes under a name lies between two numbers, 0 if not."""
    mean = F.mean(F.when(F.col("what") == what, F.expr("try_cast(value AS double)")))
    return F.when(mean.between(low, high), 1.0).otherwise(0.0)


@over("runs", unit="as configured")
def configured(key: str) -> Column:
    """A number of the configuration."""
    return setting(key)


# A static tree, as its notes tell


class _Tree:
    """Places, intervals and parents of a static tree, from its notes."""

    def __init__(self, run: Run) -> None:
        self.parent: dict[int, int] = {}
        self.hops: dict[int, int] = {}
        self.places: dict[int, tuple[float, float]] = {}
        self.intervals: dict[int, tuple[float, float]] = {}
        self.values: dict[str, dict[int, float]] = defaultdict(dict)
        self.edges: set[tuple[int, int]] = set()
        for note in run.notes:
            node, what, peer, value = (note[k] for k in ("node", "what", "peer", "value"))
            if what == "hops":
                self.parent[node], self.hops[node] = peer, int(float(value))
            elif what in ("place", "interval"):
                x, y = map(float, value.split())
                (self.places if what == "place" else self.intervals)[node] = (x, y)
            elif what == "edge":
                self.edges.add((node, peer))
            elif what in ("inherent", "overhead", "cost"):
                self.values[what][node] = float(value)
        self.nodes = len(self.parent)
        self.settings = run.configuration["topology"]

    def wants(self, node: int, number: float) -> bool:
        """Whether a node wants a number itself."""
        if node not in self.intervals:
            return False
        low, high = self.intervals[node]
        return low <= number <= high

    def children(self, node: int) -> list[int]:
        return [child for child, parent in self.parent.items() if parent == node]

    def wanted_below(self, number: float) -> set[int]:
        """The nodes with a descendant that wants a number."""
        found: set[int] = set()
        for node in self.parent:
            if self.wants(node, number):
                above = self.parent[node]
                while above >= 0 and above not in found:
                    found.add(above)
                    above = self.parent[above]
        return found


@case("links", "notes", unit="errors")
def tree_faults(run: Run) -> Value:
    """Nodes whose parent is no neighbour, or that are not one hop below it; links that differ."""
    tree = _Tree(run)
    root = tree.settings["root"]
    faults = int(tree.parent[root] >= 0)
    for node, parent in tree.parent.items():
        if node != root:
            edge = (min(node, parent), max(node, parent))
            faults += edge not in tree.edges or tree.hops[node] != tree.hops.get(parent, -9) + 1
    links = {tuple(sorted(link)) for link in run.final_links}
    return float(faults + (len(links) != tree.nodes - 1) + len(links - tree.edges))


@case("notes", unit="nodes")
def detours(run: Run) -> Value:
    """Nodes that are farther from the root in the tree than in the graph."""
    tree = _Tree(run)
    near = distances(adjacency(tree.nodes, sorted(tree.edges)), tree.settings["root"])
    return float(sum(tree.hops[node] != hops for node, hops in near.items()))


@case("notes", unit="errors")
def graph_faults(run: Run) -> Value:
    """Pairs of nodes that are neighbours though out of range, or the other way round."""
    tree = _Tree(run)
    reach = tree.settings["range"]
    faults = 0
    for a, b in itertools.combinations(sorted(tree.places), 2):
        (ax, ay), (bx, by) = tree.places[a], tree.places[b]
        faults += (hypot(ax - bx, ay - by) < reach) != ((a, b) in tree.edges)
    return float(faults)


@case("notes", unit="nodes")
def unreachable_nodes(run: Run) -> Value:
    """Nodes that no path of neighbours joins to the root."""
    tree = _Tree(run)
    found = distances(adjacency(tree.nodes, sorted(tree.edges)), tree.settings["root"])
    return float(tree.nodes - len(found))


@case("notes", unit="errors")
def cost_faults(run: Run) -> Value:
    """Nodes whose cost less overhead is not (r + p) times what they want themselves."""
    tree = _Tree(run)
    alone = tree.settings["receive"] + tree.settings["process"]
    faults = 0
    for node, overhead in tree.values["overhead"].items():
        owed = alone * tree.values["inherent"][node]
        faults += abs(tree.values["cost"][node] - overhead - owed) > 1e-9 * max(1.0, owed)
    return float(faults)


@case("notes", unit="errors")
def error_faults(run: Run) -> Value:
    """Overheads with an error that are not the true ones times (1 + error), or 0 if below."""
    faults = 0
    for note in run.notes:
        if note["what"] == "terms":
            true, used, error = map(float, note["value"].split())
            faults += abs(used - max(0.0, true * (1 + error))) > 1e-9 * max(1.0, true)
    return float(faults)


# Events on a static tree


def _numbers(run: Run, tree: _Tree) -> list[float]:
    known = {k: v for k, v in tree.settings.items() if k != "name"}
    parameters = msgspec.convert(known, StaticTreeParameters)
    intervals = [tree.intervals.get(node) for node in range(tree.nodes)]
    return event_numbers(parameters, intervals, run.configuration["seed"])


def _transmissions(run: Run) -> dict[int, list[tuple[int, int]]]:
    """Per event who sent it to whom."""
    sent: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for message in run.messages:
        if message["kind"] == "event":
            _, sequence = event_of(message["content"])
            sent[sequence].append((message["source"], message["target"]))
    return sent


def _done(run: Run) -> Iterator[tuple[int, int, tuple[bool, bool], tuple[bool, bool, bool]]]:
    """Per event and node: who wants it (itself, those below), and what the node did with it."""
    tree = _Tree(run)
    sent, root = _transmissions(run), tree.settings["root"]
    processed = {(d["sequence"], d["node"]) for d in run.deliveries}
    for event, number in enumerate(_numbers(run, tree)):
        below = tree.wanted_below(number)
        receivers = {target for _, target in sent[event]}
        forwarders = {source for source, _ in sent[event]}
        for node in range(tree.nodes):
            wanted = (tree.wants(node, number), node in below)
            received = node in receivers or (node == root and any(wanted))
            did = (received, (event, node) in processed, node in forwarders)
            yield event, node, wanted, did


@case("messages", "deliveries", "notes", unit="errors")
def action_faults(run: Run) -> Value:
    """Events and nodes whose actions are not those of Table 1."""
    return float(sum(did != actions(*wanted) for _, _, wanted, did in _done(run)))


@case("messages", "deliveries", "notes", unit="code")
def action(run: Run, node: int, event: int) -> Value:
    """What a node did with an event: 4 if received, and 2 if processed, and 1 if forwarded."""
    for number, at, _, (received, processed, forwarded) in _done(run):
        if (number, at) == (event, node):
            return 4.0 * received + 2.0 * processed + 1.0 * forwarded
    return None


@case("messages", "deliveries", "notes", unit="errors")
def overhead_faults(run: Run) -> Value:
    """Nodes whose counted work for others is not the formula's, over the events published."""
    settings = run.configuration["topology"]
    receive, forward = settings["receive"], settings["forward"]
    counted: dict[int, float] = defaultdict(float)
    formula: dict[int, float] = defaultdict(float)
    for _, node, (own, proxied), (received, processed, forwarded) in _done(run):
        counted[node] += forward * forwarded + receive * (received and not processed)
        formula[node] += forward * proxied + receive * (proxied and not own)
    return float(sum(abs(counted[n] - formula[n]) > 1e-9 for n in formula))


@case("messages", "deliveries", "notes", "publications", unit="errors")
def delivery_faults(run: Run) -> Value:
    """Second copies, copies not from the parent, wrong or missing deliveries, other publishers."""
    tree = _Tree(run)
    faults = sum(event["publisher"] != tree.settings["root"] for event in run.publications)
    for transmissions in _transmissions(run).values():
        receivers = [target for _, target in transmissions]
        faults += len(receivers) - len(set(receivers))
        faults += sum(tree.parent[target] != source for source, target in transmissions)
    processed = {(d["sequence"], d["node"]) for d in run.deliveries}
    for event, number in enumerate(_numbers(run, tree)):
        for node in range(tree.nodes):
            faults += tree.wants(node, number) != ((event, node) in processed)
    return float(faults)


@case("notes", ENTRIES, unit="errors")
def subscription_faults(run: Run) -> Value:
    """Routing tables that are not the effective subscriptions of the children."""
    tree = _Tree(run)
    held: dict[tuple[int, int], set[str]] = defaultdict(set)
    for node, source, text in run.entries():
        held[node, source].add(text)
    effective: dict[int, set[str]] = {}
    for node in sorted(tree.parent, key=lambda n: -tree.hops[n]):
        below = [effective[child] for child in tree.children(node)]
        effective[node] = held[node, -1].union(*below)
    faults = sum(
        held[tree.parent[n], n] != effective[n] for n in tree.parent if tree.parent[n] >= 0
    )
    return float(faults + sum((n in tree.intervals) != bool(held[n, -1]) for n in tree.parent))
