"""A node's place in a ShopParent tree, and the advertisements that tell others of it.

An advertisement (PARENT-ADVERTISE) says what a node costs as a parent: its route, what it wants
itself, and what each of its children wants. By radio everybody in range hears it. With peer
sampling the node's children get it, and those that ask; samples of known nodes travel with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.graph_messages import Known
from shoal.overlay.handover import NOBODY, Handover
from shoal.overlay.sampling import View
from shoal.overlay.shopparent_interests import BySample, Interests, OnAxis
from shoal.overlay.shopparent_messages import (
    Advertise,
    Child,
    Hop,
    Probe,
    ShopParentParameters,
    Wanted,
)
from shoal.stack.host import LOCAL, Host, NodeId
from shoal.stack.layer import Routing
from shoal.stack.message import Contact, Message

if TYPE_CHECKING:
    from shoal.content import Event

SAMPLE: Final = 12
"""Nodes told to another with an advertisement or a probe: each may be the better parent."""
LOST: Final = 32
"""Most lost nodes that are remembered; the oldest is forgotten first."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Member(Handover):
    """Parent, children and route of a node; the advertisements that it sends and keeps."""

    def __init__(self, host: Host, parameters: ShopParentParameters, routing: Routing) -> None:
        super().__init__(host, routing, parameters.timeout)
        self.radio = parameters.discovery == "radio"
        self.collect = parameters.collect
        self.probes = parameters.probes
        self.most = parameters.children
        """Most children of this node; 0: any number."""
        self.interests: Interests = (
            OnAxis(parameters.attribute, parameters.merge == "hull")
            if parameters.overlap == "axis"
            else BySample()
        )
        if parameters.overlap == "sample":
            routing.watching = self
        self.rank = NOBODY
        """The current root's position in the list of root and heirs (0 is the root itself);
        NOBODY without a route to a root."""
        self.route: tuple[Hop, ...] = ()
        """Hops from the root to the parent; empty at the root."""
        self.adverts: dict[NodeId, Advertise] = {}
        """The latest PARENT-ADVERTISE of each neighbour."""
        self.advertised: dict[NodeId, float] = {}
        """Time of the latest PARENT-ADVERTISE of each neighbour."""
        self.view = View(host, parameters.forget, SAMPLE)
        self.lost: dict[tuple[NodeId, str], Contact] = {}
        """Nodes not heard of for long, or never, to be asked again (with sampling)."""
        self.saving = 0.0
        """Estimated units of work per event that this parent saves against the first one."""
        self.saved = 0.0
        """Estimated units of work saved so far: ``saving``, summed over events."""
        self._chance = host.chance("parent")
        self._draws = 0
        self._telling = False
        self._told: Advertise | None = None
        """Last advertisement of this node."""

    def child_nodes(self) -> list[NodeId]:
        return [n for n in self.neighbours if n != self.parent and n not in self._parting]

    def child_moved(self, child: NodeId) -> None:
        self._news()

    def stop(self) -> None:
        """Hand over the children; a root cannot: they have no other tree while it is there."""
        self.stopping = True
        if self.parent == LOCAL:
            self.close_all()
        else:
            self.hand_over()

    def _has_room(self) -> bool:
        """Whether this node accepts one more child."""
        staying = [child for child in self.child_nodes() if child not in self.departing]
        return not self.most or len(staying) < self.most

    # PARENT-ADVERTISE

    def advertisement(self, new: NodeId = NOBODY) -> Advertise:
        """The PARENT-ADVERTISE of this node; ``new`` is about to be a child."""
        routing, interests = self.routing, self.interests
        children = tuple(
            Child(child, interests.wanted(routing.filters_from(child)))
            for child in self.child_nodes()
        )
        if new != NOBODY and new not in self.neighbours:
            children = (*children, Child(new, Wanted()))
        known: tuple[Known, ...] = () if self.radio else self.view.sample(NOBODY)
        own = interests.wanted(routing.filters())
        return Advertise(self.rank, self.route, own, children, self._has_room(), known)

    def advertise(self) -> None:
        """PARENT-ADVERTISE to all neighbours; with sampling, to all children."""
        message = self.advertisement()
        self._told = message
        if self.radio:
            self.host.broadcast(message)
        else:
            self.host.send_all(tuple(self.child_nodes()), message)

    def _news(self) -> None:
        """What this node advertises may have changed: advertise soon, not in a period."""
        if not self._telling:
            self._telling = True
            self.host.after(self.collect, self._advertise_news)

    def _advertise_news(self) -> None:
        self._telling = False
        if self.rank < 0:
            return
        now, told = self.advertisement(), self._told
        if (
            told is None
            or now.children != told.children
            or now.route != told.route
            or now.own != told.own
            or now.room != told.room
        ):
            self.advertise()

    def on_probe(self, sender: NodeId, message: Message) -> None:
        """Answer, if this node has a route to the root."""
        known = cast("Probe", message).known
        self._hear(sender, known)
        if self.rank >= 0 and not self.stopping:
            contact = known[0][0] if known else Contact(sender)
            if self.host.watched:
                self.host.note("answer", sender, str(len(self.route)))
            self.host.send_direct(contact, self.advertisement())

    def _forget(self, node: NodeId) -> None:
        self.adverts.pop(node, None)
        self.advertised.pop(node, None)

    def routed(self, event: Event) -> None:
        """Keep the event in the sample by which interests are compared."""
        self.interests.observe(event.content)
        self.saved += self.saving

    def for_others(self) -> tuple[float, float]:
        """Shares of the sampled events: wanted by children; wanted by children only."""
        routing, interests = self.routing, self.interests
        own = interests.wanted(routing.filters())
        wanted = [interests.wanted(routing.filters_from(child)) for child in self.child_nodes()]
        proxied = interests.merged(wanted)
        space = interests.space([own, proxied])
        forwarded = interests.interest(space, proxied)
        foreign = forwarded & ~interests.interest(space, own)
        return space.phi(forwarded), space.phi(foreign)

    # Peer sampling

    def _sample(self) -> None:
        """Ask some nodes known by peer sampling for their advertisements."""
        view = self.view
        view.alive(self.neighbours)
        before = {node: entry.contact for node, entry in view.entries.items()}
        view.forget_old()
        for node, contact in before.items():
            if node not in view.entries:
                self._lose(contact)
        self._draws += 1
        known = list(view.entries)
        count = min(self.probes, len(known))
        asked = self._chance.sample(known, count, self.host.node, self._draws)
        contacts = [view.entries[node].contact for node in asked]
        if self.lost:
            contacts.append(list(self.lost.values())[view.below(len(self.lost))])
        for contact in contacts:
            self.host.send_direct(contact, Probe(view.sample(contact.node)))

    def _hear(self, sender: NodeId, known: tuple[Known, ...]) -> None:
        """Remember the nodes that another one knows (with sampling)."""
        if known:
            address = known[0][0].address
            for node in (sender, NOBODY):  # of a lost contact perhaps only the address was known
                self.lost.pop((node, address), None)
            self.view.hear(known, self.neighbours)

    def _lose(self, contact: Contact) -> None:
        """Remember a node that is not heard of any more: the network may be cut."""
        self.lost[contact.node, contact.address] = contact
        if len(self.lost) > LOST:
            del self.lost[next(iter(self.lost))]
