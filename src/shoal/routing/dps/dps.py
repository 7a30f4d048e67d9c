"""DPS: subscribers that organise themselves by what they want (Anceaume et al., ICDCS 2006).

Subscribers of one attribute form a tree of groups. A group holds those who joined by the same
label; its predecessor is the tightest group whose label includes its own. An event goes down each
tree of its attributes as far as labels match. There is no overlay below: the groups are the routes.
This class is the node as its neighbours in the stack see it; the rules are in the other modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from shoal.routing.dps import messages
from shoal.routing.dps.choice import Choosing
from shoal.routing.dps.creation import Creations
from shoal.routing.dps.departures import Departures
from shoal.routing.dps.epidemic import Epidemic
from shoal.routing.dps.healing import Healing
from shoal.routing.dps.labels import ROOT, Label, LabelError, exact, labels_of, trees_of
from shoal.routing.dps.leadership import Leadership
from shoal.routing.dps.messages import Pointer, Root
from shoal.routing.dps.promises import broken_promise, described, json
from shoal.routing.dps.publishing import Publishing
from shoal.routing.dps.searches import Searches
from shoal.routing.dps.states import EpidemicStates, States
from shoal.routing.dps.traversal import Traversal
from shoal.routing.dps.trees import Trees
from shoal.routing.seen import Seen
from shoal.routing.table import SubscriptionTable
from shoal.stack.host import LOCAL, Host, NodeId, Timer
from shoal.stack.layer import Handler, Layer, Reconfiguration, Routing
from shoal.stack.message import Contact, Message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from shoal.content import Event, Filter
    from shoal.routing.dps.parameters import DpsParameters
    from shoal.routing.dps.views import Group

PUBLISH: Final = messages.Publish
PUBLISH_GROUP: Final = messages.PublishGroup
FEW: Final = 16
"""Subscriptions that are tried one by one."""
HEALING: Final = 60.0
"""Longest intervals between signs of life after which all is in order again, whatever happened."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Dps(Routing):
    """Subscribers form one tree of groups per attribute, by what they want, and heal it."""

    def __init__(self, host: Host, parameters: DpsParameters) -> None:
        super().__init__(host)
        self.generic = parameters.traversal == "generic"
        self.epidemic = parameters.communication == "epidemic"
        self.coleaders = parameters.coleaders
        self.view = parameters.view
        self.groupview = parameters.groupview
        self.fanout = parameters.fanout
        self.next_level = parameters.next_level
        self.subscription_fanout = parameters.subscription_fanout
        self.decay = parameters.decay
        self.filter_at_sender = parameters.filter_at_sender
        self.interval = parameters.interval
        self.timeout = parameters.timeout
        self.shuffle_period = parameters.shuffle
        self.table = SubscriptionTable(host)
        """Subscriptions of this node's application."""
        self.joined: dict[Filter, list[Label]] = {}
        """Labels of the groups that a subscription joins, one per disjunct."""
        self.offers: dict[Filter, list[list[Label]]] = {}
        """Labels that a subscription could join by, per disjunct; an event must match all."""
        self.exact: dict[Filter, bool] = {}
        """Whether those labels are equivalent to the whole subscription."""
        self.groups: dict[tuple[str, str], Group] = {}
        """Groups that this node is in, by attribute and text of the label."""
        self.by_tree: dict[str, dict[str, Group]] = {}
        """Groups that this node is in, by tree and text of the label."""
        self.owned: dict[str, Group] = {}
        """The roots that this node leads."""
        self.delivered = Seen()
        self.shown = Seen()
        """Events that the recovery above has been shown."""
        self.choosing = Choosing(host, parameters.attribute)
        self.states: States = EpidemicStates(self) if self.epidemic else States(self)
        self.trees = Trees(self)
        self.searches = Searches(self)
        self.traversal = Traversal(self)
        self.creation = Creations(self)
        self.publishing: Publishing = Epidemic(self) if self.epidemic else Publishing(self)
        self.leadership = Leadership(self)
        self.departures = Departures(self)
        self.healing = Healing(self)
        self.heals_within = HEALING * self.interval[1]
        self._chance = host.chance("dps")
        self._draws = 0
        self._round: Timer | None = None

    def handlers(self) -> dict[type[Message], Handler]:
        """Each message with the module that has its rule."""
        trees, traversal, creation = self.trees, self.traversal, self.creation
        publishing, healing = self.publishing, self.healing
        leadership, departures = self.leadership, self.departures
        return {
            messages.Shuffle: trees.on_shuffle,
            messages.Where: trees.on_where,
            messages.Here: trees.on_here,
            messages.Owner: trees.on_owner,
            messages.Probe: trees.on_probe,
            messages.FindGroup: traversal.on_find_group,
            messages.Request: traversal.on_find_group,
            messages.PlaceGroup: traversal.on_find_group,
            messages.SubscribeTo: traversal.on_subscribe_to,
            messages.CreateGroup: creation.on_create_group,
            messages.Created: creation.on_created,
            messages.Cede: creation.on_cede,
            messages.Ceded: creation.on_ceded,
            messages.Adopted: creation.on_adopted,
            messages.Placed: traversal.on_placed,
            messages.GossipSub: publishing.on_gossip_sub,
            messages.Publish: publishing.on_publish,
            messages.PublishGroup: publishing.on_publish_group,
            messages.Leader: leadership.on_leader,
            messages.Sync: leadership.on_sync,
            messages.Handover: departures.on_handover,
            messages.Leave: departures.on_leave,
            messages.Left: departures.on_left,
            messages.Gone: departures.on_gone,
            messages.Beat: healing.on_beat,
            messages.BeatAnswer: healing.on_beat_answer,
            messages.Report: healing.on_report,
            messages.ReportAnswer: healing.on_report_answer,
        }

    def receive(self, sender: NodeId, message: Any) -> None:
        """Handle a message; one with a malformed label, from a faulty node, is dropped."""
        try:
            if type(message) is PUBLISH:  # most messages: called without a table
                self.publishing.on_publish(sender, message)
                return
            if type(message) is PUBLISH_GROUP:
                self.publishing.on_publish_group(sender, message)
                return
            handlers = self._handlers
            if handlers is None:
                handlers = self._handlers = self.handlers()
            handlers[type(message)](sender, message)
        except LabelError as error:
            self.host.note("dps refused", sender, str(error))

    # Life

    def start(self) -> None:
        """Begin to beat and to exchange contact points."""
        self._schedule()
        phase = self.draw() % 1024 / 1024
        self.host.every(self.shuffle_period, self.trees.shuffle, phase * self.shuffle_period)

    def _schedule(self) -> None:
        low, high = self.interval
        delay = low + (high - low) * (self.draw() % 16) / 15  # whole steps from 10 to 25
        self._round = self.host.every(delay, self._next_round)

    def _next_round(self) -> None:
        """Each interval is drawn anew; a periodic timer lets a simulation come to rest."""
        assert self._round is not None
        self._round.cancel()
        self._schedule()
        self.healing.round()

    def later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back once, without keeping a simulation from rest."""
        timer: list[Timer] = []

        def call() -> None:
            timer[0].cancel()
            callback()

        timer.append(self.host.every(delay, call))
        return timer[0]

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """Begin with these nodes."""
        self.trees.join(contacts)

    def stop(self) -> None:
        """Leave every group in good order."""
        for group in list(self.groups.values()):
            group.filters.clear()
            if not self.leads(group):
                self.departures.leave(group)
            else:
                self.departures.retire(group)

    def broken_promise(self, running: Mapping[NodeId, Layer]) -> str | None:
        """See :mod:`.promises`."""
        others = {n: layer for n, layer in running.items() if isinstance(layer, Dps)}
        return broken_promise(self, others)

    def inventory(self) -> None:
        for group in self.groups.values():
            self.host.note("group", group.leader.node, described(group))

    def certain(self) -> bool:
        """Gossip may miss somebody."""
        return not self.epidemic

    # The application

    def publish(self, event: Event) -> None:
        """Deliver it here if it is wanted, and enter the tree of each attribute."""
        self.saw(event)
        self.offer(event, 0)
        trees = trees_of(event.content)
        if self.host.watched:
            self.host.note("published", LOCAL, json({"event": event.sequence, "trees": trees}))
        for attribute in trees:
            self.publishing.enter(attribute, event)

    def subscribe(self, filter: Filter) -> None:
        """Join one group per disjunct, by the label that is chosen among its attributes."""
        if self.host.watched:
            self.host.note("subscribed", LOCAL, str(filter))
        if not self.table.add(LOCAL, filter):
            return
        offers = labels_of(filter)
        chosen = [self.choosing.choose(labels) for labels in offers]
        self.offers[filter] = offers
        self.exact[filter] = exact(filter)
        self.joined[filter] = chosen
        for label in chosen:
            self.searches.want(label, filter)

    def unsubscribe(self, filter: Filter) -> None:
        """Leave the groups that no other subscription needs."""
        if not self.table.remove(LOCAL, filter):
            return
        del self.offers[filter], self.exact[filter]
        for label in self.joined.pop(filter):
            group = self.groups.get((label.attribute, label.text))
            self.searches.unwant(label, filter)
            if group is not None and filter in group.filters:
                del group.filters[filter]
                if not group.filters:
                    self.departures.unsubscribed(group)

    def offer(self, event: Event, hops: int) -> None:
        """Deliver an event that matches a subscription, once."""
        self.choosing.saw(event)
        if self.delivered.first(event.id) and self._wants(event):
            self.deliver(event, hops)

    def _wants(self, event: Event) -> bool:
        """Whether a subscription matches; an index is worth its while for many only."""
        content = event.content
        if len(self.joined) > FEW:
            return bool(self.table.match(content))
        for filter, disjuncts in self.offers.items():
            for labels in disjuncts:
                for label in labels:
                    if not label.matches(content):
                        break
                else:  # labels are quickly compared
                    if self.exact[filter] or filter.matches(content):
                        return True
                    break
        return False

    def saw(self, event: Event) -> None:
        """An event has come to this node, wanted here or not."""
        if self.recovery is not None and self.shown.first(event.id):
            self.recovery.seen(event)

    def filters(self) -> list[Filter]:
        return list(self.joined)

    def linked(self) -> list[NodeId]:
        """The nodes that this one knows: it has no other neighbours."""
        return list(self.trees.peers)

    def send_to_neighbour(self, neighbour: NodeId, message: Message) -> None:
        """Out of band, as everything here."""
        known = self.trees.peers.get(neighbour)
        self.host.send_direct(Contact(neighbour) if known is None else known[0], message)

    def next_hops(self, filter: Filter) -> list[NodeId]:
        """The leaders of the groups that a filter is in."""
        found: dict[NodeId, None] = {}
        for label in self.joined.get(filter, ()):
            group = self.groups.get((label.attribute, label.text))
            if group is not None and not self.leads(group):
                found[group.leader.node] = None
        return list(found)

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """There is no overlay below."""

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """There is no overlay below."""

    def found(self, attribute: str, root: Root | None) -> None:
        """A walk in search of a tree has ended."""
        self.searches.found(attribute, root is not None)
        self.publishing.found(attribute, attribute in self.trees.roots)

    # Groups

    def leads(self, group: Group) -> bool:
        """Whether this node is a group's leader."""
        return group.leader.node == self.host.node

    def add_group(self, group: Group) -> None:
        """Add a group that this node is in from now on."""
        attribute, text = group.label.attribute, group.text
        self.groups[attribute, text] = group
        self.by_tree.setdefault(attribute, {})[text] = group
        if text == ROOT and self.leads(group):
            self.owned[attribute] = group
        self.searches.settled(group)
        if self.host.watched:
            self.host.note("joined", group.leader.node, f"{attribute} {text}")

    def remove_group(self, group: Group) -> None:
        """Remove a group that this node is no longer in."""
        attribute, text = group.label.attribute, group.text
        self.searches.forget(group)
        del self.groups[attribute, text]
        del self.by_tree[attribute][text]
        if not self.by_tree[attribute]:
            del self.by_tree[attribute]
        if text == ROOT:
            self.owned.pop(attribute, None)
            self._not_owner(attribute)

    def set_leader(self, group: Group, leader: Contact) -> None:
        """A group has another leader."""
        group.leader = leader
        if group.is_root():
            if self.leads(group):
                self.owned[group.label.attribute] = group
            else:
                self.owned.pop(group.label.attribute, None)
                self._not_owner(group.label.attribute)
                self.trees.hear(Root(group.label.attribute, group.term, leader))

    def _not_owner(self, attribute: str) -> None:
        root = self.trees.roots.get(attribute)
        if root is not None and root.owner.node == self.host.node:
            del self.trees.roots[attribute]

    def acting(self, attribute: str, bits: int) -> Contact:
        """Who acts for a random group that this node is in: its leader, or any member by gossip."""
        groups = list(self.by_tree[attribute].values())
        return self.host.contact() if self.epidemic else groups[bits % len(groups)].leader

    def group_for(self, attribute: str, text: str) -> Group | None:
        """The group that a message is for; what is for the root, any other group can pass on."""
        tree = self.by_tree.get(attribute)
        if tree is None:
            return None
        group = tree.get(text)
        if group is None and text == ROOT:
            led = [one for one in tree.values() if self.leads(one)]
            group = led[0] if led else next(iter(tree.values()))
        return group

    def group(self, attribute: str, text: str) -> Group | None:
        """This node's group of a label; quicker than by a key that is made for the question."""
        tree = self.by_tree.get(attribute)
        return None if tree is None else tree.get(text)

    def staff(self, group: Group) -> int:
        """Co-leaders that a group should have; each node of an epidemic root needs views."""
        return self.groupview if self.epidemic and group.is_root() else self.coleaders

    # The world

    def send(self, to: Contact, message: Message) -> None:
        """Send to a node, which may be this one."""
        if to.node == self.host.node:
            self.receive(to.node, message)
        else:
            self.host.send_direct(to, message)

    def draw(self) -> int:
        """64 random bits."""
        self._draws += 1
        return self._chance.bits(self.host.node, self.host.epoch, self._draws)

    def pick(self, view: tuple[Pointer, ...]) -> Pointer:
        """A random pointer of the nearest level."""
        nearest = [pointer for pointer in view if pointer.text == view[0].text]
        return nearest[self.draw() % len(nearest)]
