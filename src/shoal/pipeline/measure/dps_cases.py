"""Measures of the groups that DPS nodes were in at the end of a run, as they noted them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from math import inf
from typing import Any, TypeAlias

from shoal.content import AttributeFilter
from shoal.pipeline.measure.cases import Value, case
from shoal.pipeline.measure.run_view import Run
from shoal.routing.dps.labels import Label, label, labels_of

Key: TypeAlias = tuple[str, str]
"""A group: its tree's attribute and its label's text."""


class Forest:
    """The groups of a run, and what their leaders know of them."""

    def __init__(self, run: Run) -> None:
        self.rows: list[tuple[int, int, dict[str, Any]]] = [
            (note["node"], note["peer"], json.loads(note["value"]))
            for note in run.notes
            if note["what"] == "group"
        ]
        if not self.rows:
            raise ValueError("no group was noted; record the table 'notes'")
        self.joined: list[tuple[float, int, int, Key]] = [
            (note["time"], note["node"], note["peer"], _key(note["value"]))
            for note in sorted(run.notes, key=lambda note: float(note["time"]))
            if note["what"] == "joined"
        ]
        """When, who, its leader and the group, in order."""
        self.leaders: dict[Key, list[tuple[int, dict[str, Any]]]] = {}
        self.members: dict[Key, list[int]] = {}
        for node, leader, group in self.rows:
            key = (group["attribute"], group["text"])
            self.members.setdefault(key, []).append(node)
            if node == leader:
                self.leaders.setdefault(key, []).append((node, group))

    def owners(self) -> dict[str, list[int]]:
        """Per tree the nodes that lead its root."""
        led = {name: self.leaders.get((name, ""), []) for name in self.labels()}
        return {name: [node for node, _ in some] for name, some in led.items()}

    def labels(self) -> dict[str, list[Label]]:
        """Per tree the labels of its groups."""
        found: dict[str, list[Label]] = defaultdict(list)
        for attribute, text in self.leaders:
            found[attribute].append(label(attribute, text))
        return found

    def joiners(self) -> dict[Key, list[int]]:
        """Per group who joined it, in order."""
        found: dict[Key, list[int]] = defaultdict(list)
        for _, node, _, key in self.joined:
            found[key].append(node)
        return found

    def edges(self) -> list[tuple[str, str, str]]:
        """Attribute, predecessor and group."""
        return [
            (attribute, group["predview"][0][0] if group["predview"] else "?", text)
            for (attribute, text), leaders in self.leaders.items()
            for _, group in leaders
            if text
        ]


def _key(joined: str) -> Key:
    attribute, _, text = joined.partition(" ")
    return attribute, text


@case("notes", unit="groups")
def doubled_groups(run: Run) -> Value:
    """Groups of the same label beyond the first."""
    return sum(len(leaders) - 1 for leaders in run.seen_as(Forest).leaders.values())


@case("notes", unit="trees")
def doubled_trees(run: Run) -> Value:
    """Attributes that do not have exactly one tree and one owner."""
    return sum(1 for owners in run.seen_as(Forest).owners().values() if len(owners) != 1)


@case("notes", unit="trees")
def wrong_owners(run: Run) -> Value:
    """Trees whose owner is not the first that joined a group of theirs."""
    forest = run.seen_as(Forest)
    first: dict[str, int] = {}
    for _, node, _, (attribute, _) in forest.joined:
        first.setdefault(attribute, node)
    return sum(owners != [first[name]] for name, owners in forest.owners().items())


def _edges(run: Run) -> Iterator[tuple[str, str, Label, list[Label]]]:
    """Per edge its attribute, the text above, the label below, and all labels of that tree."""
    forest = run.seen_as(Forest)
    labels = forest.labels()
    for attribute, above, text in forest.edges():
        yield attribute, above, label(attribute, text), labels[attribute]


@case("notes", unit="edges")
def wrong_edges(run: Run) -> Value:
    """Edges that are no immediate inclusions."""
    wrong = 0
    for attribute, above, mine, labels in _edges(run):
        if above == "?":
            wrong += 1
            continue
        upper = label(attribute, above)
        between = any(upper.precedes(one) and one.precedes(mine) for one in labels)
        wrong += between or not upper.precedes(mine)
    return wrong


@case("notes", unit="edges")
def wrong_closest(run: Run) -> Value:
    """Equalities that are not below the closest "greater than" that includes them."""
    wrong = 0
    for _, above, mine, labels in _edges(run):
        if mine.interval and mine.low == mine.high:
            greater = [one for one in labels if one.interval and one.low > -inf and one.high == inf]
            if wider := [one for one in greater if one.precedes(mine)]:
                wrong += above != max(wider, key=lambda one: (one.low, one.low_open)).text
    return wrong


@case("notes", unit="subscriptions")
def wrong_members(run: Run) -> Value:
    """Memberships by a label that the subscription does not have."""
    wrong = 0
    for _, _, group in run.seen_as(Forest).rows:
        for text in group["filters"]:
            wrong += (group["attribute"], group["text"]) not in set().union(*_offers(text))
    return wrong


def _offers(text: str) -> list[set[Key]]:
    """Per disjunct of a filter the groups that it may join."""
    return [{(o.attribute, o.text) for o in some} for some in labels_of(AttributeFilter(text))]


@case("notes", unit="subscriptions")
def joined_otherwise_than_once(run: Run) -> Value:
    """Subscriptions that are not in exactly one tree; with OR, in one for each disjunct."""
    joins: dict[tuple[int, str], list[Key]] = defaultdict(list)
    for node, _, group in run.seen_as(Forest).rows:
        for text in group["filters"]:
            joins[node, text].append((group["attribute"], group["text"]))
    wrong = 0
    for node, text in subscriptions(run):
        held = joins.pop((node, text), [])
        offers = _offers(text)
        wrong += any(offer.isdisjoint(held) for offer in offers) or len(held) > len(offers)
    return wrong + len(joins)  # what is left was joined and not subscribed to


def subscriptions(run: Run) -> dict[tuple[int, str], None]:
    """Who subscribed to what."""
    return {(n["node"], n["value"]): None for n in run.notes if n["what"] == "subscribed"}


@case("notes", unit="subscriptions")
def subscriptions_made(run: Run, which: str = "each") -> Value:
    """Subscriptions of each node, -1 if nodes differ; or of all nodes."""
    made = Counter(n["node"] for n in run.notes if n["what"] == "subscribed")
    if which == "all":
        return made.total()
    counts = set(made.values())
    return counts.pop() if len(counts) == 1 and len(made) == run.configuration["nodes"] else -1


@case("notes", unit="share")
def duplicate_creations(run: Run, since: float = 0.0) -> Value:
    """Groups created though one with the label was there, of all that were created since a time."""
    seen: set[Key] = set()
    created = again = 0
    for time, node, leader, key in run.seen_as(Forest).joined:
        if node != leader or not key[1]:
            continue  # a root is no group that a subscriber asks for
        if time >= since:
            created += 1
            again += key in seen
        seen.add(key)
    return again / created if created else None


@case("notes", unit="share")
def groups_reachable(run: Run) -> Value:
    """Groups that pointers to live nodes lead to from the owners, of all there are."""
    forest = run.seen_as(Forest)
    here = {(node, group["attribute"], group["text"]): group for node, _, group in forest.rows}
    reached = {key for key in here if not key[2]}
    ahead = list(reached)
    while ahead:
        _, attribute, text = key = ahead.pop()
        group = here[key]
        ways = [(node, attribute, text) for node in (*group["known"], *group["members"])]
        ways += [(n, attribute, t) for view in group["succviews"].values() for t, n in view]
        for way in ways:
            if way in here and way not in reached:
                reached.add(way)
                ahead.append(way)
    found = {key[1:] for key in reached}
    return len(found) / len(forest.members)


@case("notes", unit="trees")
def trees_not_entered(run: Run) -> Value:
    """Trees that events should have entered by their attributes and did not, and the reverse."""
    exist = run.seen_as(Forest).labels()
    entered: dict[tuple[int, int], set[str]] = defaultdict(set)
    wanted: dict[tuple[int, int], set[str]] = {}
    for note in run.notes:
        if note["what"] not in ("entered", "published"):
            continue
        said = json.loads(note["value"])
        event = (note["node"], said["event"])
        if note["what"] == "entered":
            entered[event].add(said["tree"])
        else:
            wanted[event] = {tree for tree in said["trees"] if tree in exist}
    if not wanted:
        raise ValueError("no event was noted; record the table 'notes'")
    return sum(len(trees ^ entered[event]) for event, trees in wanted.items())


@case("notes", unit="views")
def wrong_views(run: Run) -> Value:
    """Views that are longer than K, out of order, or missing for a successor."""
    most = run.configuration["routing"]["view"]
    wrong = 0
    for node, leader, group in run.seen_as(Forest).rows:
        views = [group["predview"], *group["succviews"].values()] if node == leader else []
        wrong += sum(1 for view in views if len(view) > most or not _ordered(group, view))
        wrong += sum(1 for text, view in group["succviews"].items() if view[0][0] != text)
    return wrong


def _ordered(group: dict[str, Any], view: list[list[Any]]) -> bool:
    """Whether a view goes away from its group level by level."""
    labels = [label(group["attribute"], text) for text, _ in view]
    return all(
        one.text == other.text or one.covers(other) or other.covers(one)
        for one, other in zip(labels[:1] * len(labels[1:]), labels[1:], strict=True)
    )


@case("notes", unit="nodes")
def wrong_roles(run: Run) -> Value:
    """Nodes that play another role in their group than their turn gives them.

    The creator of a group leads it, and the next K_c that join are its co-leaders. These know the
    whole group; other members know them, and nobody else. Where two trees of an attribute were
    created at once either owner may lead a group that both have created.
    """
    kept = run.configuration["routing"]["coleaders"]
    forest = run.seen_as(Forest)
    joiners = forest.joiners()
    creators = {(node, key) for _, node, leader, key in forest.joined if node == leader}
    wrong = 0
    for node, leader, group in forest.rows:
        key = (group["attribute"], group["text"])
        if not key[1]:
            continue  # a root has no members, but a staff of leaders below it
        staff = set(joiners[key][: kept + 1])
        creates = leader == joiners[key][0] or {(leader, key), (leader, (key[0], ""))} <= creators
        right = creates and {leader, *group["coleaders"]} == staff
        whole = set(forest.members[key]) - {node, leader} if node in staff else set()
        views = bool(group["predview"] or group["succviews"]) and node not in staff
        wrong += not right or set(group["members"]) != whole or views
    return wrong


@case("notes", unit="nodes")
def neighbours_kept(run: Run) -> Value:
    """Distinct nodes that a node keeps in its views, on average."""
    kept: dict[int, set[int]] = defaultdict(set)
    for node, leader, group in run.seen_as(Forest).rows:
        named = {leader, *group["coleaders"], *group["known"]}
        named |= {pointer[1] for pointer in group["predview"]}
        named |= {pointer[1] for view in group["succviews"].values() for pointer in view}
        kept[node] |= named - {node}
    return sum(map(len, kept.values())) / len(kept) if kept else None


@case("notes", unit="0 or 1")
def is_below(run: Run, above: str, text: str, attribute: str = "a") -> Value:
    """Whether a group has another one as its predecessor."""
    return int((attribute, above, text) in run.seen_as(Forest).edges())


@case("notes", unit="nodes")
def group_size(run: Run, text: str, attribute: str = "a") -> Value:
    """Members of a group."""
    return len(run.seen_as(Forest).members.get((attribute, text), ()))


@case("notes", unit="node")
def group_leader(run: Run, text: str, attribute: str = "a") -> Value:
    """The leader of a group; -1 if there are none or several."""
    leaders = run.seen_as(Forest).leaders.get((attribute, text), ())
    return leaders[0][0] if len(leaders) == 1 else -1


@case("notes", unit="nodes")
def coleaders_known(run: Run, text: str, attribute: str = "a") -> Value:
    """Co-leaders that every member of a group knows of, the same ones; -1 if these differ."""
    forest = run.seen_as(Forest)
    known = {
        (leader, *sorted(group["coleaders"]))
        for _, leader, group in forest.rows
        if (group["attribute"], group["text"]) == (attribute, text)
    }
    return len(known.pop()) - 1 if len(known) == 1 else -1


@case("notes", unit="edges")
def wrong_one_sided(run: Run) -> Value:
    """Edges of a tree of ``>``, ``<`` and ``=`` that are not the only ones its labels allow."""
    wrong = 0
    for _, above, mine, labels in _edges(run):
        wider = [one for one in labels if one.text and one.precedes(mine)]
        greater = [one for one in wider if one.high == inf]
        closest = max(greater, key=lambda one: one.low, default=None)
        if closest is None:
            closest = min(wider, key=lambda one: one.high, default=None)
        wrong += above != ("" if closest is None else closest.text)
    return wrong


@case("publications", unit="nodes")
def receivers_of(run: Run, event: int) -> Value:
    """Nodes that an event was delivered to, by its place in the order of publication."""
    rows = sorted(run.publications, key=lambda row: row["time"])
    return int(rows[event]["received"])
