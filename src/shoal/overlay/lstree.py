"""LSTree (Frey, chapter 10): a tree of bounded degree that builds and heals itself.

A node searches for a parent when it joins and when it loses the one it has: it chooses candidates
from its caches, strategy by strategy (:mod:`~shoal.overlay.lstree_strategies`), and sends each a
PARENTREQUEST until one accepts. If none does, it declares itself root, under a new colour. A root
looks for other trees soon after it became one, and periodically; of two trees one joins the other.

* A request and a refusal travel out of band. A candidate that accepts opens a connection and sends
  ACCEPT over it; the requester *attaches*, or sends LEAVE if that is late or no longer safe.
* A candidate that is itself searching and would have to lower its depth is *busy*; it is asked
  again up to ``busy_retries`` times before the search goes on to the next strategy.
* A root *recolours* its tree every ``recolour`` seconds, so that depths are drawn anew.
* Nodes that no longer answer are remembered and pinged now and then: through them the trees of a
  network that was partitioned find each other.

How a node searches: :mod:`~shoal.overlay.lstree_search`. How it leaves without a loss:
:mod:`~shoal.overlay.lstree_leave`. How a candidate answers, and the rule that prevents cycles:
:mod:`~shoal.overlay.lstree_member`. Here: its life, roots and merging, the Global cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.lstree_caches import SIGHTED, Search
from shoal.overlay.lstree_leave import Leaver
from shoal.overlay.lstree_member import PLACES, Member
from shoal.overlay.lstree_messages import (
    AGREE,
    Accept,
    Attach,
    Beat,
    Drop,
    Heir,
    Leave,
    LSTreeParameters,
    ParentRequest,
    Ping,
    Pong,
    Refuse,
    Regional,
    Sighting,
    Update,
    Welcome,
)
from shoal.overlay.lstree_relation import BLANK, Colour, precedes
from shoal.overlay.lstree_strategies import NAMES
from shoal.stack.host import LOCAL, Host, NodeId, Timer, key_of
from shoal.stack.layer import Handler, Layer, Routing
from shoal.stack.message import Contact, Message
from shoal.stack.registry import register

SIGHTINGS: Final = 1.0
"""Seconds between two sightings of other trees that a node passes on."""
TRIES: Final = 2
"""Remembered nodes without an answer that each search for other trees asks again."""


@mypyc_attr(allow_interpreted_subclasses=True)
class LSTree(Leaver):
    """A tree of bounded degree without cycles at any instant."""

    def __init__(self, host: Host, parameters: LSTreeParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.beats = parameters.heartbeat > 0
        self.fanout = parameters.global_fanout
        self.repropagation = parameters.global_repropagation
        silence = parameters.heartbeat * parameters.patience
        self.heals_within = silence + 4 * (parameters.merge_period + parameters.global_period)
        self.merges = "G" in parameters.instance
        """Whether roots look for other trees."""
        self._sighted = -1e9
        """When this node last passed on a sighting."""
        self._pong: Pong | None = None
        """The answer to pings, made anew when the colour changes."""
        self._tried = 0
        """Place of the remembered node that was asked last."""
        self._retry: Timer | None = None
        """Set while some contacts are to be asked again."""
        self._coloured = 0.0
        """When this root took its colour."""
        self._growing: Timer | None = None
        """Calls :meth:`grow` while this node is root."""

    def handlers(self) -> dict[type[Message], Handler]:
        """Requests and answers, regional and global data."""
        return {
            **super().handlers(),
            ParentRequest: self.on_request,
            Accept: self.on_accept,
            Refuse: self.on_refuse,
            Attach: self.on_attach,
            Leave: self.on_leave,
            Drop: self.on_drop,
            Welcome: self.on_welcome,
            Heir: self.on_heir,
            Regional: self.on_regional,
            Sighting: self.on_sighting,
            Update: self.on_update,
            Ping: self.on_ping,
            Pong: self.on_pong,
            Beat: self.on_beat,
        }

    def receive(self, sender: NodeId, message: Any) -> None:
        """Note a sign of life of a neighbour, and handle its message, if it is not just a beat."""
        if self.beats and sender in self.heard:
            self.heard[sender] = self.host.now()
        kind = type(message)
        if kind is Update:  # the common types need no table of handlers
            self.on_update(sender, message)
        elif kind is Ping:
            self.on_ping(sender, message)
        elif kind is Pong:
            self.on_pong(sender, message)
        elif kind is Regional:
            self.on_regional(sender, message)
        elif kind is not Beat:
            super().receive(sender, message)

    # Life

    def start(self) -> None:
        """Begin to beat and to update the Global cache, each node at another moment."""
        p = self.parameters
        self.me = self.host.contact()
        phase = self.dice.uniform()
        if p.heartbeat:
            self.host.every(p.heartbeat, self.beat, phase * p.heartbeat)
        if self.merges:
            self.host.every(p.global_period, self.update, phase * p.global_period)

    def join(self, contacts: tuple[Contact, ...]) -> None:
        """Look for a parent among the nodes to begin with."""
        self.contacts = contacts
        for contact in contacts:
            if contact.node < 0 and contact.address != self.me.address:
                self.unmet[contact.address] = None
            self.known.insert(contact)
            self.known.remember(contact)
        self._seek("join", LOCAL, -1)

    # A root

    def be_root(self, lost: NodeId, cause: str) -> None:
        """Take a new colour, and look for other trees from now on."""
        self.root = True
        self.ancestors = ()
        self.siblings = ()
        self._recolour()
        if self.host.watched:
            self.host.note("root", lost, cause)
        if self.merges and self.parameters.early_merge:
            self.host.after(self.parameters.early_merge, self.merge)
        if self._growing is None:
            self._growing = self.host.every(self.parameters.merge_period, self.grow)

    def _recolour(self) -> None:
        """Extend the colour by this node, at depth 0, and inform all below."""
        self.colour = (self.colour[0] + 1, self.node, self.host.epoch)
        self.depth = 0.0
        self._coloured = self.host.now()
        self.push()

    def begin_anew(self) -> None:
        """A liar made the colour as long as can be: drop all children, and join under a new one."""
        for node in list(self.children):
            self.host.send(node, Drop(True))
            self._forget_child(node)
            self._close(node)
        self.colour = BLANK
        self.depth = 0.0
        self._seek("join", LOCAL, -1)

    # Merging trees

    def grow(self) -> None:
        """A root looks for other trees now and then, and recolours once in a long while."""
        if not self.root and self._growing is not None:
            self._growing.cancel()
            self._growing = None
        if self.stopping:
            return
        if self.root and self.host.now() - self._coloured >= self.parameters.recolour:
            self._recolour()
        self.merge()

    def merge(self) -> None:
        """A root asks the nodes that it knows whether they are of another tree."""
        if self.root and self.search is None and self.merges and not self.stopping:
            self.search = Search("merge", self.host.now(), LOCAL, -1)
            kept = list(self.known.remembered.values())
            for _ in range(min(TRIES, len(kept))):
                self._tried += 1
                contact = kept[self._tried % len(kept)]
                self.search.sighted[key_of(contact)] = contact
            self._ask_next()

    def sighted(self, contact: Contact, colour: Colour) -> None:
        """A node of a tree that this one can join: the root is to ask it."""
        if not self.merges or self.stopping or not precedes(self.colour, colour):
            return
        if self.root:
            if self.search is None:
                self.search = Search("merge", self.host.now(), LOCAL, -1)
                self.search.asked[key_of(contact)] = None
                self._ask("C", self.search, contact)
            elif len(self.search.sighted) < SIGHTED and key_of(contact) not in self.search.asked:
                self.search.sighted[key_of(contact)] = contact
        elif self.parent != LOCAL and self.host.now() - self._sighted >= SIGHTINGS:
            self._sighted = self.host.now()
            self.host.send(self.parent, Sighting(contact, colour))

    def on_sighting(self, sender: NodeId, message: Message) -> None:
        """Pass a sighting by a node below on towards the root."""
        sighting = cast("Sighting", message)
        if sender in self.children:
            self.sighted(sighting.contact, sighting.colour)

    def _meet_later(self) -> None:
        """Ask contacts again soon: they may be about to start, or their tree to merge with this."""
        again = bool(self.unmet) or (self.root and self.host.now() < self._met_until)
        if again and self._retry is None:
            wait = self.parameters.early_merge or self.parameters.merge_period
            self._retry = self.host.after(wait, self._meet)

    def _meet(self) -> None:
        """Ask the contacts again, and nobody else.

        A node with a parent pings those never met: perhaps no other node of its tree knows them.
        """
        self._retry = None
        if self.stopping:
            return
        if self.root and self.search is None:
            self.search = Search("merge", self.host.now(), LOCAL, -1)
            self.search.meeting = True
            self._ask_next()
        elif self.parent != LOCAL and self.merges:
            for address in self.unmet:
                self.host.send_direct(Contact(-1, address), Ping(self.me, self.colour))
            self._meet_later()

    # The Global cache

    def update(self) -> None:
        """Send a few nodes some entries of the Global cache, and ping others."""
        if self.colour != BLANK:
            named = self.known.some(self.parameters.references, self.dice.below(PLACES))
            self._send_update(Update((self.me, *named)))
        if self.parameters.pings:
            ping = Ping(self.me, self.colour)
            for contact in self.known.to_ping(self.parameters.pings):
                self.host.send_direct(contact, ping)

    def _send_update(self, update: Update) -> None:
        for contact in self.known.some(self.fanout, self.dice.below(PLACES)):
            self.host.send_direct(contact, update)

    def on_update(self, sender: NodeId, message: Message) -> None:
        """Add the named nodes to the Global cache; pass the update on with some probability."""
        update = cast("Update", message)
        for contact in update.known:
            self.known.insert(contact)
        if self.dice.uniform() < self.repropagation:
            self._send_update(update)

    def on_ping(self, sender: NodeId, message: Message) -> None:
        """Answer; a stranger's colour may be that of a tree to join."""
        ping = cast("Ping", message)
        contact = ping.contact
        if contact.node == sender:
            pong = self._pong
            if pong is None or pong.colour != self.colour:
                pong = self._pong = Pong(self.me, self.colour)
            self.host.send_direct(contact, pong)
            if ping.colour != self.colour:
                self.sighted(contact, ping.colour)

    def on_pong(self, sender: NodeId, message: Message) -> None:
        """A node that was pinged is there."""
        pong = cast("Pong", message)
        contact = pong.contact
        if contact.node == sender:
            self.met_at(contact.address)
            self.known.answered(contact)
            if pong.colour != self.colour:
                self.sighted(contact, pong.colour)

    # For those who watch

    def broken_promise(self, running: Mapping[NodeId, Layer]) -> str | None:
        """There is one root, and each node has the parent's colour and is not above its limit."""
        if self.search is not None and self.search.cause != "merge":
            return "it looks for a parent"
        if self.parent == LOCAL:
            others = [n for n, layer in running.items() if cast("Member", layer).root]
            return None if others == [self.node] else f"it is root, beside {others}"
        above = cast("Member", running[self.parent])
        if self.colour != above.colour:
            return f"its colour is {self.colour}, that of its parent {above.colour}"
        if above.depth >= self.depth:
            return f"its depth is {self.depth}, that of its parent {above.depth}"
        return None

    def describe(self) -> dict[str, Any]:
        seen = super().describe()
        search = self.search
        if search is None or search.cause == "merge":
            search = self.last
        if search is not None:
            steps = [f"{NAMES[step]} {who}: {answer}" for step, who, answer in search.trail]
            outcome = "under way" if search is self.search else search.outcome
            cause = f"parent {search.lost} lost ({search.why})" if search.why else search.cause
            seen["last search"] = "; ".join([cause, *steps[-6:], outcome])
        return seen


register(
    "overlay",
    "lstree",
    LSTree,
    LSTreeParameters,
    needs={"reach"},
    provides={"links", "tree", "root", "association"},
    agree=AGREE,
    summary="A tree of bounded degree that builds and heals itself, without cycles at any instant.",
)
