"""Searches: what a node's subscriptions and groups look for, and the requests sent for them.

A subscription looks for its group (Request). The leader of a group looks for the group's place
(PlaceGroup): when its predecessor is lost, when it is told to move, and periodically as a check.
How a request finds its way: :mod:`~shoal.routing.dps.traversal`.

A request without an answer is repeated after a growing delay. After MISSES requests the owner of
the tree is probed; if it is silent, the searching node creates the tree anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from shoal.routing.dps.labels import ROOT, Label
from shoal.routing.dps.messages import PlaceGroup, Pointer, Request

if TYPE_CHECKING:
    from shoal.content import Filter
    from shoal.routing.dps.dps import Dps
    from shoal.routing.dps.views import Group
    from shoal.stack.host import Timer
    from shoal.stack.message import Contact

PATIENCE: Final = 6.0
"""Timeouts to wait for the first answer; doubled with each repetition, up to 16 times as many."""
MISSES: Final = 3
"""Requests without an answer after which the owner of a tree is probed."""


class Seeking:
    """A subscriber, or a group, on the way to its place."""

    def __init__(self, wanted: Label) -> None:
        self.label = wanted
        self.filters: dict[Filter, None] = {}
        """Subscriptions that wait for the place; empty if a whole group looks for its place."""
        self.start: Pointer | None = None
        """Node to begin at, above the place; None: a contact point or the owner."""
        self.attempts = 0
        self.timer: Timer | None = None


class Searches:
    """One node's subscriptions and groups on the way to their places."""

    def __init__(self, node: Dps) -> None:
        self.node = node
        self.joining: dict[tuple[str, str], Seeking] = {}
        """Groups that this node is about to join."""
        self.placing: dict[tuple[str, str], Seeking] = {}
        """Groups that this node leads, and whose place is being looked for."""

    # What is looked for

    def want(self, wanted: Label, filter: Filter) -> None:
        """A subscription joins a group, which this node may be in already."""
        key = (wanted.attribute, wanted.text)
        group = self.node.groups.get(key)
        if group is not None:
            subscribed = bool(group.filters)
            group.filters[filter] = None
            if not subscribed and not self.node.leads(group):
                self.node.healing.beat(group)
            return
        seeking = self.joining.get(key)
        if seeking is not None:
            seeking.filters[filter] = None
            return
        seeking = Seeking(wanted)
        seeking.filters[filter] = None
        self.joining[key] = seeking
        self._seek(seeking)

    def unwant(self, wanted: Label, filter: Filter) -> None:
        """A subscription ends that may not have found its group yet."""
        key = (wanted.attribute, wanted.text)
        seeking = self.joining.get(key)
        if seeking is not None:
            seeking.filters.pop(filter, None)
            if not seeking.filters:
                self._end(self.joining, seeking)

    def place(self, group: Group, start: Pointer | None) -> None:
        """Look for a group's place, from a node or from the root."""
        key = (group.label.attribute, group.text)
        if key not in self.placing:
            seeking = Seeking(group.label)
            seeking.start = start
            self.placing[key] = seeking
            self._seek(seeking)

    def settled(self, group: Group) -> None:
        """End the search for a group that this node has joined; move its subscriptions there."""
        seeking = self.joining.get((group.label.attribute, group.text))
        if seeking is not None:
            group.filters.update(seeking.filters)
            self._end(self.joining, seeking)

    def forget(self, group: Group) -> None:
        """A group's place is found, or no longer this node's to find."""
        seeking = self.placing.get((group.label.attribute, group.text))
        if seeking is not None:
            self._end(self.placing, seeking)

    def _end(self, table: dict[tuple[str, str], Seeking], seeking: Seeking) -> None:
        table.pop((seeking.label.attribute, seeking.label.text), None)
        if seeking.timer is not None:
            seeking.timer.cancel()
            seeking.timer = None

    # Requests

    def _seek(self, seeking: Seeking) -> None:
        """Ask for the first time: a walk finds the tree if this node has not heard of it."""
        attribute = seeking.label.attribute
        trees = self.node.trees
        if (
            seeking.start is None
            and attribute not in self.node.owned
            and attribute not in trees.roots
        ):
            trees.look_for(attribute)
        else:
            self._ask(seeking)

    def found(self, attribute: str, exists: bool) -> None:
        """A walk in search of a tree has ended."""
        for table in (self.joining, self.placing):
            for seeking in list(table.values()):
                if seeking.label.attribute == attribute and seeking.timer is None:
                    if not exists and seeking.attempts == 0:
                        self._make_tree(attribute)
                        exists = True
                    if table.get((attribute, seeking.label.text)) is seeking:
                        self._ask(seeking)

    def _ask(self, seeking: Seeking) -> None:
        attribute, text = seeking.label.attribute, seeking.label.text
        seeking.attempts += 1
        if seeking.attempts > MISSES and attribute not in self.node.owned:
            root = self.node.trees.roots.get(attribute)
            if root is None:
                self._make_tree(attribute)
                seeking.attempts = 1
            else:
                self.node.trees.ask(root)
        if seeking.filters and (attribute, text) in self.node.groups:
            return
        delay = PATIENCE * self.node.timeout * 2.0 ** min(seeking.attempts - 1, 4)
        later = self.node.host.after if seeking.filters else self.node.later
        seeking.timer = later(delay, lambda: self._again(seeking))
        leading = self.node.groups.get((attribute, text)) if not seeking.filters else None
        term = 0 if leading is None else leading.term
        at, contact = self._start(seeking)
        if contact is not None:
            origin = self.node.host.contact()
            make = PlaceGroup if term else Request
            down = seeking.start is not None
            self.node.send(contact, make(attribute, at, text, origin, term, 1, down))

    def _again(self, seeking: Seeking) -> None:
        """Repeat a request from the root; meanwhile ask others whether the tree has a new owner."""
        seeking.timer = None
        seeking.start = None
        attribute = seeking.label.attribute
        if attribute not in self.node.owned:
            self.node.trees.doubt(attribute)
        self._ask(seeking)

    def tree_lost(self, attribute: str) -> None:
        """The owner of a tree is silent: create the tree anew if a search has waited for long."""
        for table in (self.joining, self.placing):
            for seeking in list(table.values()):
                if seeking.label.attribute == attribute and seeking.attempts > MISSES:
                    self._make_tree(attribute)
                    seeking.attempts = 0
                    if seeking.timer is not None:
                        seeking.timer.cancel()
                    if table.get((attribute, seeking.label.text)) is seeking:
                        self._again(seeking)

    def _start(self, seeking: Seeking) -> tuple[str, Contact | None]:
        """Where a request begins."""
        attribute = seeking.label.attribute
        if seeking.start is not None:
            return seeking.start.text, seeking.start.contact
        if attribute in self.node.owned:
            return ROOT, self.node.host.contact()
        if self.node.generic and seeking.filters and seeking.attempts == 1:
            point = self.node.trees.point(attribute)  # at random: it may be in the wanted group
            if point is not None:
                return ROOT, point
            for group in self.node.by_tree.get(attribute, {}).values():
                return group.text, group.leader
        root = self.node.trees.roots.get(attribute)
        return ROOT, None if root is None else root.owner

    def _make_tree(self, attribute: str) -> None:
        if attribute not in self.node.owned:
            self.node.leadership.give_up(attribute)
            self.node.trees.create(attribute)
