"""Measures of trees that copy a reference tree (Frey, section 11.3), run by run.

Hosts and their keys follow from a run's configuration; what is looked at are its links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from shoal.overlay.reference_tree import Owner, Owners, ReferenceTree, children_of, parent_of
from shoal.pipeline.measure.cases import Value, case, mean
from shoal.pipeline.measure.run_view import Edge, Run, links_spanning, neighbours_of
from shoal.simulation.reference import ReferenceParameters, positions_of
from shoal.simulation.topology import ways_to


class Hosts(NamedTuple):
    """The hosts at the end of a run."""

    tree: ReferenceTree
    owners: dict[int, Owner]
    """Per host its keys."""


def _hosts(run: Run) -> Hosts:
    """Hosts at the end of the run: those with a link (a single host has none)."""
    settings: dict[str, Any] = dict(run.configuration["topology"])
    settings.pop("name")
    parameters = msgspec.convert(settings, ReferenceParameters)
    nodes = run.configuration["nodes"]
    positions = positions_of(parameters, nodes, run.configuration["seed"])
    present = sorted({n for link in run.final_links for n in link}, key=positions.__getitem__)
    owners = {
        node: Owner(node, positions[present[place - 1]], positions[node])
        for place, node in enumerate(present)
    }
    return Hosts(ReferenceTree(parameters.fan_out, parameters.levels), owners)


def _children(run: Run) -> tuple[Hosts, Counter[int]]:
    """How many children each host has: its links, but for the one to its parent."""
    hosts = _hosts(run)
    top, keys = hosts.tree.root.key, hosts.tree.keys
    root = next(node for node, owner in hosts.owners.items() if owner.has(top, keys))
    count: Counter[int] = Counter({node: -1 for node in hosts.owners if node != root})
    count.update(node for link in run.final_links for node in link)
    return hosts, count


@case("links", unit="children")
def most_children(run: Run) -> Value:
    """The most children that a host has at the end."""
    return max(_children(run)[1].values())


@case("links", unit="share")
def more_children(run: Run, than: int) -> Value:
    """Share of the hosts that have more than so many children at the end."""
    hosts, count = _children(run)
    return sum(children > than for children in count.values()) / len(hosts.owners)


@case("links", unit="share")
def inner_with_children(run: Run, exactly: int) -> Value:
    """Share of the inner hosts that have exactly so many children at the end."""
    inner = [children for children in _children(run)[1].values() if children > 0]
    return mean(children == exactly for children in inner)


@case("links", unit="links")
def links_off_a_tree(run: Run) -> Value:
    """By how many links the final network differs from a tree over its hosts, or is split."""
    nodes = {node for link in run.final_links for node in link}
    reached = ways_to(neighbours_of(run.final_links), min(nodes))
    return abs(len(run.final_links) - (len(nodes) - 1)) + len(nodes - reached.keys())


def _known(hosts: Hosts, node: int) -> Owners:
    """Keys that a host knows in a settled network: those of all hosts."""
    owners = Owners(hosts.tree, hosts.owners[node])
    for owner in hosts.owners.values():
        owners.learn(owner)
    return owners


@case("links", unit="errors")
def search_disagreements(run: Run) -> Value:
    """Hosts whose search for a parent, or for children, finds others than their links lead to."""
    hosts = _hosts(run)
    linked = neighbours_of(run.final_links)
    errors = 0
    for node in hosts.owners:
        known = _known(hosts, node)
        parent = parent_of(known)
        found = {child.host for child in children_of(known)}
        errors += found | (set() if parent is None else {parent.host}) != linked[node].keys()
    return errors


@case("links", unit="errors")
def roots_beside_the_owner(run: Run) -> Value:
    """Hosts without a parent other than the owner of the root key; and that one, if it has one."""
    hosts = _hosts(run)
    errors = 0
    for node, owner in hosts.owners.items():
        owns = owner.has(hosts.tree.root.key, hosts.tree.keys)
        errors += owns != (parent_of(_known(hosts, node)) is None)
    return errors


@case("links", unit="links")
def links_off_the_reference(run: Run) -> Value:
    """Links in which the network differs from the reference tree, where every key has a host."""
    hosts = _hosts(run)
    at = {owner.upto: node for node, owner in hosts.owners.items()}
    due = set()
    for key, node in at.items():
        path = hosts.tree.path(key)
        if len(path) > 1:
            due.add(frozenset((at[path[-2].key], node)))
    return len(due ^ {frozenset(link) for link in run.final_links})


@case("links", unit="links")
def links_beside(run: Run, links: Sequence[Sequence[int]], at: float) -> Value:
    """Links, at a time, in which the network differs from those given (by the hosts' keys)."""
    keys = run.configuration["topology"]["positions"]
    present = set[frozenset[int]]()
    for change in run.links:
        if change["time"] <= at:
            present ^= {frozenset((keys[change["a"]], keys[change["b"]]))}
    return len(present ^ {frozenset(link) for link in links})


@case("links", unit="links")
def links_changed_at(run: Run, hosts: Sequence[int], since: float, until: float) -> Value:
    """Links of some hosts (by their keys) that change in a span of time."""
    keys = run.configuration["topology"]["positions"]
    changes = [change for change in run.links if since <= change["time"] < until]
    return sum(keys[c["a"]] in hosts or keys[c["b"]] in hosts for c in changes)


class Reconfiguration(NamedTuple):
    """A host came or went: the links made and dropped, and the tree after that."""

    joins: bool
    made: list[Edge]
    dropped: list[Edge]
    tree: list[Edge]


def _reconfigurations(run: Run) -> Iterator[Reconfiguration]:
    """The changes of a run in order, each at an instant of its own."""
    tree = dict.fromkeys(run.initial_links)
    nodes = {node for link in tree for node in link}
    later = [change for change in run.links if change["time"] > 0]
    for _, group in groupby(later, key=lambda change: change["time"]):
        changes = list(group)
        made = [(c["a"], c["b"]) for c in changes if c["change"] == "up"]
        dropped = [(c["a"], c["b"]) for c in changes if c["change"] == "down"]
        for a, b in dropped:
            tree.pop((a, b), None)
            tree.pop((b, a), None)
        tree |= dict.fromkeys(made)
        after = {node for link in tree for node in link}
        yield Reconfiguration(len(after) > len(nodes), made, dropped, list(tree))
        nodes = after


@case("links", unit="links")
def links_per_change(run: Run, joins: bool) -> Value:
    """Links made when a host joins, or dropped when one leaves, on average."""
    return mean(
        len(change.made if joins else change.dropped)
        for change in _reconfigurations(run)
        if change.joins == joins
    )


@case("links", unit="links")
def changed_area(run: Run, joins: bool) -> Value:
    """Links of the subtree that joins the ends of changed links, on average per join or leave."""
    sizes = []
    for change in _reconfigurations(run):
        if change.joins == joins:
            there = {node for link in change.tree for node in link}
            ends = {node for link in change.made + change.dropped for node in link} & there
            sizes.append(len(links_spanning(change.tree, ends)) if len(ends) > 1 else 0)
    return mean(sizes)
