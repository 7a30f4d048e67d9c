"""How a node of LSTree finds a parent (Frey, section 10.1, figure 10.1).

Step 1, a parent is needed; 2, choose a candidate from the first strategy that has one; 3, send it a
PARENTREQUEST; 4, it decides (:mod:`~shoal.overlay.lstree_member`); 5, attach to it, or try another;
6, if none is left, be root.
"""

from __future__ import annotations

from typing import Final, cast

from mypy_extensions import mypyc_attr

from shoal.overlay.lstree_caches import ASKED, NAMED, SIGHTED, SILENT, Busy, Search
from shoal.overlay.lstree_member import Member
from shoal.overlay.lstree_messages import (
    Accept,
    Attach,
    Drop,
    Leave,
    LSTreeParameters,
    ParentRequest,
    Ping,
    Refuse,
)
from shoal.overlay.lstree_relation import BLANK, DEEPEST, LONGEST, can_connect
from shoal.overlay.lstree_strategies import NAMES
from shoal.stack.host import LOCAL, Host, NodeId, Timer, key_of, remember
from shoal.stack.layer import Reconfiguration, Routing
from shoal.stack.message import Contact, Message

REPAIRS: Final = 2**20
"""Numbers of repairs per node; the next repair has the first number again."""
PER_LIFE: Final = 2**10
"""Numbers of repairs per life of a node: the next life begins behind them."""
OVERDUE: Final = 64
"""Requests without an answer in time that are remembered, as it may still come."""
CALM: Final = 0.9
"""Factor by which an answer in time shortens the wait for the next ones."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Searcher(Member):
    """The requester's half of the protocol."""

    def __init__(self, host: Host, parameters: LSTreeParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.merges = "G" in parameters.instance
        """Whether roots look for other trees."""
        self.contacts: tuple[Contact, ...] = ()
        """The nodes to begin with."""
        self.unmet: dict[str, None] = {}
        """Addresses of contacts under which nobody has answered so far."""
        self._retry: Timer | None = None
        """Set while some contacts are to be tried again."""
        self._met_until = -1.0
        """Time until which contacts are tried again although all have answered."""
        self.last: Search | None = None
        """The search that ended last, but for those that found no other tree."""
        self._requests = 0
        self._asked_at = 0.0
        """When the latest request was sent."""
        self._overdue: dict[int, float] = {}
        """When those requests were sent that nobody answered in time."""
        self.wait = parameters.request_timeout
        """Seconds to wait for an answer: longer after answers that came too late."""
        self._repairs = host.epoch * PER_LIFE
        self._coloured = 0.0
        """When this root took its colour."""
        self._growing: Timer | None = None
        """Calls :meth:`grow` while this node is root."""

    def merge(self) -> None:
        """Look for other trees."""
        raise NotImplementedError

    def grow(self) -> None:
        """Look for other trees, and recolour, now and then."""
        raise NotImplementedError

    # Step 1: a parent is needed

    def lose_parent(self, why: str) -> None:
        """The link to the parent is gone: look for another."""
        lost = self.parent
        self.parent = LOCAL
        repair = self.next_repair()
        self.link_down(lost, Reconfiguration(repair))
        self.parent_changed(LOCAL)
        if self.host.watched:
            self.host.note("parent lost", lost, why)
        self._seek("lost", lost, repair, why)

    def next_repair(self) -> int:
        """Number of the reconfiguration that begins."""
        self._repairs += 1
        return self.node * REPAIRS + self._repairs % REPAIRS

    def _seek(self, cause: str, lost: NodeId, repair: int, why: str = "") -> None:
        """Begin a search."""
        self._end_search("replaced by another search")
        self.search = Search(cause, self.host.now(), lost, repair)
        self.search.why = why
        self._ask_next()

    def _end_search(self, outcome: str) -> None:
        search = self.search
        if search is not None:
            if search.timer is not None:
                search.timer.cancel()
            self._let_go(search)
            self.search = None
            if search.cause != "merge" or self.parent != LOCAL:
                self.last = search
                for cache in (search.refused, search.sighted, search.asked, search.busy):
                    cache.clear()  # what it found is kept, not where it looked
                search.outcome = f"{outcome}, after {self.host.now() - search.started:.3f} s"

    def _let_go(self, search: Search) -> None:
        """Close the connection that the candidate of a search may have opened."""
        candidate = search.candidate
        search.candidate = None
        if candidate is not None:
            node = candidate.node
            if node in self.heard and not self.tied(node):
                self.forget_early(node)
                self.host.send(node, Leave(search.request))
                self._close(node)

    # Step 2: a candidate

    def _ask_next(self) -> None:
        """Ask the next candidate; nobody left: step 6."""
        search = self.search
        assert search is not None
        search.timer = None
        self._let_go(search)
        for step in "" if search.meeting else self.parameters.instance:
            if (search.silent < SILENT or step not in NAMED) and self._ask_from(step, search):
                return
        if search.cause != "lost":
            for contact in (*search.sighted.values(), *self.contacts):
                if self._ask_new("C", search, contact):
                    return
        self._nobody(search)

    def _ask_from(self, step: str, search: Search) -> bool:
        """Ask a candidate of one strategy, or wait for a busy one; False if it has none."""
        cache = search.refused.get(step)
        if step == "M" or step == "m":
            if not cache:
                return False
            self._ask(step, search, cache.pop(next(iter(cache))))  # with the limit lifted
            return True
        if step == "R" or step == "A":
            if self._ask_regional(step, search):
                return True
        elif step == "D" or step == "U":
            while cache:
                contact = cache.pop(next(iter(cache)))
                if self._ask_new(step, search, contact):
                    return True
        else:
            for contact in self._anybody():
                if self._ask_new(step, search, contact):
                    return True
        return self._await_busy(step, search)

    def _ask_regional(self, step: str, search: Search) -> bool:
        """The nearest ancestor or a sibling; which of the two, chance decides."""
        above = [c for c in self.ancestors if self._is_new(search, c)]
        beside = [c for c in self.siblings if self._is_new(search, c)] if step == "R" else []
        if above and beside:
            upwards = self.dice.uniform() < self.parameters.ancestor_probability
        else:
            upwards = bool(above)
        if upwards:
            return self._ask_new(step, search, above[0])
        if beside:
            return self._ask_new(step, search, beside[self.dice.below(len(beside))])
        return False

    def _anybody(self) -> list[Contact]:
        """The Global cache, from a random place on and round."""
        entries = self.known.contacts
        place = self.dice.below(len(entries)) if entries else 0
        return entries[place:] + entries[:place]

    def _is_new(self, search: Search, contact: Contact) -> bool:
        """Whether a node can be asked: another one, not linked or lost, and not asked before."""
        node = contact.node
        if node >= 0 and (node == self.node or node == search.lost or self.tied(node)):
            return False
        return key_of(contact) not in search.asked and len(search.asked) < ASKED

    def _ask_new(self, step: str, search: Search, contact: Contact) -> bool:
        """Ask a node if it is new to this search; False if it is not."""
        if not self._is_new(search, contact):
            return False
        search.asked[key_of(contact)] = None
        self._ask(step, search, contact)
        return True

    def _await_busy(self, step: str, search: Search) -> bool:
        """Ask a busy candidate of this strategy again, once its time has come."""
        for busy in search.busy.values():
            if busy.strategy == step:
                search.next_busy = busy
                wait = max(0.0, busy.ready_at - self.host.now())
                search.timer = self.host.after(wait, self._ask_busy)
                return True
        return False

    def _ask_busy(self) -> None:
        search = self.search
        if search is not None and search.next_busy is not None:
            self._ask(search.next_busy.strategy, search, search.next_busy.contact)

    # Step 3: the request

    def _ask(self, step: str, search: Search, contact: Contact) -> None:
        """PARENTREQUEST."""
        self._requests += 1
        search.candidate = contact
        search.strategy = step
        search.request = self._requests
        self._asked_at = self.host.now()
        search.timer = self.host.after(self.wait, self._unanswered)
        request = ParentRequest(
            *(self.me, self.host.epoch, self._requests, self.colour, self.depth),
            *(step == "M", step == "m" or step == "M"),
        )
        self.host.send_direct(contact, request)

    def opened(self, peer: Contact) -> None:
        """The candidate has opened a connection: it accepts, so its answer is worth waiting for."""
        super().opened(peer)
        search = self.search
        if search is None or search.candidate is None or search.timer is None:
            return
        if key_of(search.candidate) in (peer.node, peer.address):
            search.timer.cancel()
            left = self._asked_at + 2 * self.wait - self.host.now()
            search.timer = self.host.after(max(0.0, left), self._unanswered)

    def _unanswered(self) -> None:
        """A candidate is dead, or out of reach."""
        search = self.search
        if search is None or search.candidate is None:
            return
        self._answered(search, "no answer")
        remember(self._overdue, search.request, self._asked_at, OVERDUE)
        search.silent += 1
        key = key_of(search.candidate)
        search.busy.pop(key, None)
        self.known.purge(key)
        if search.strategy == "R":  # a young node knows no others: they may be cut off, not dead
            self.known.remember(search.candidate)
        self._ask_next()

    def _learn(self, request: int) -> None:
        """An answer has come: wait longer from now on if it was late, else somewhat less.

        So nodes far from each other find together, and a liar delays nobody for long.
        """
        asked = self._overdue.pop(request, None)
        if asked is not None:
            self.wait = min(max(self.wait, 2 * (self.host.now() - asked)), self.timeout)
        elif request == self._requests:
            took = self.host.now() - self._asked_at
            self.wait = max(self.parameters.request_timeout, 2 * took, CALM * self.wait)

    def _answered(self, search: Search, answer: str) -> None:
        assert search.candidate is not None
        search.trail.append((search.strategy, key_of(search.candidate), answer))

    def on_refuse(self, sender: NodeId, message: Message) -> None:
        """Steps 4 and 5, refused: the reason fills caches, and the search goes on."""
        refuse = cast("Refuse", message)
        self._learn(refuse.request)
        search = self.search
        if search is None or search.candidate is None or refuse.request != search.request:
            return
        contact = search.candidate
        if contact.node >= 0 and contact.node != sender:
            return
        if search.timer is not None:
            search.timer.cancel()
        if contact.node < 0:  # met by its address: now it has an id
            self._met(search, contact, sender)
            contact = Contact(sender, contact.address)
        self._answered(search, refuse.reason)
        key = key_of(contact)
        busy = search.busy.pop(key, None)
        if refuse.reason == "busy":
            if busy is None:
                busy = Busy(contact, search.strategy)
            if busy.retries < self.parameters.busy_retries:
                busy.retries += 1
                busy.ready_at = self.host.now() + self.parameters.busy_wait
                search.busy[key] = busy
        elif refuse.reason == "full":
            search.fill("M", (contact,))
            search.fill("D", refuse.candidates)
        elif refuse.reason == "leaf":
            search.fill("m", (contact,))
            search.fill("U", refuse.candidates)
        elif search.silent < SILENT:  # it stops, and names nodes around it
            for named in refuse.candidates[: max(0, SIGHTED - len(search.sighted))]:
                search.sighted[key_of(named)] = named
        self._ask_next()

    def _met(self, search: Search, contact: Contact, node: NodeId) -> None:
        """Note which node answers under an address; forget this node's own address."""
        search.asked[node] = None
        self.met_at(contact.address)
        self.known.drop(contact.address)
        self.known.remembered.pop(contact.address, None)
        met = Contact(node, contact.address)
        if node == self.node:
            self.contacts = tuple([c for c in self.contacts if c.address != contact.address])
        else:
            self.known.insert(met)
            self.known.remember(met)

    def met_at(self, address: str) -> None:
        """Somebody answers under an address, at last: whose tree it is may not be settled yet."""
        if self.unmet.pop(address, address) is None:
            self._met_until = self.host.now() + self.parameters.merge_period

    # Step 5: accepted

    def on_accept(self, sender: NodeId, message: Message) -> None:
        """Attach over the connection that the candidate has opened, if that is safe and in time."""
        accept = cast("Accept", message)
        search = self.search
        if accept.parent.node != sender or sender not in self.heard:
            return
        self._learn(accept.request)
        late = (
            search is None
            or search.candidate is None
            or accept.request != search.request
            or accept.epoch != self.host.epoch
        )
        if late or sender in self.children:
            if sender != self.parent:
                self.host.send(sender, Leave(accept.request))
                if not self.tied(sender):
                    self._close(sender)
            return
        assert search is not None
        assert search.candidate is not None
        if search.timer is not None:
            search.timer.cancel()
        if search.candidate.node < 0:
            self._met(search, search.candidate, sender)
        search.candidate = accept.parent
        safe = can_connect(self.colour, self.depth, accept.colour, accept.depth)
        if not safe or accept.depth >= DEEPEST:
            self._answered(search, "no longer safe")
            self._ask_next()
        elif self.parent == LOCAL:
            self._attach(search, accept)
        else:
            self.move_to(search, accept)

    def move_to(self, search: Search, accept: Accept) -> None:
        """A node with a parent, which stops, is accepted by another one."""
        raise NotImplementedError

    def _attach(self, search: Search, accept: Accept) -> None:
        """Be the candidate's child."""
        parent = accept.parent.node
        self.follow(search, accept)
        self.host.send(parent, Attach(accept.request, search.repair))
        repair = None if search.repair < 0 else Reconfiguration(search.repair)
        self.link_up(parent, repair)
        self.parent_changed(parent)
        if repair is not None:
            self.link_replaced(search.lost, self.node, parent, repair)
        self.attached(search, parent)

    def follow(self, search: Search, accept: Accept) -> None:
        """Make the candidate that has accepted the parent, before there is a link to it."""
        self._answered(search, "accepted")
        self.parent = accept.parent.node
        self.parent_epoch = accept.parent_epoch
        self.root = False
        self._end_search(f"attached to {self.parent} by {NAMES[search.strategy]}")
        self.adopt(accept.parent, accept.colour, accept.depth, accept.ancestors)
        self.siblings = accept.siblings
        for contact in accept.known:
            self.known.insert(contact)

    def attached(self, search: Search, parent: NodeId) -> None:
        """There is a link to the parent: all below must know where they are."""
        if self.host.watched:
            took = self.host.now() - search.started
            how = f"{search.cause} {search.strategy} {took:.6f} {len(search.trail)} {search.lost}"
            self.host.note("attached", parent, how)
        self.push()
        self._meet_later()

    # Step 6: nobody accepts

    def _nobody(self, search: Search) -> None:
        """Be root: for the first time, or still."""
        self._end_search("no candidate is left: root")
        self._meet_later()
        if search.cause == "merge" or self.parent != LOCAL:
            return
        if self.colour[0] >= LONGEST:
            self.begin_anew()
        else:
            self.be_root(search.lost, search.cause)

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

    def _meet_later(self) -> None:
        """Try contacts again soon: they may be about to start, or their tree to merge with this."""
        again = bool(self.unmet) or (self.root and self.host.now() < self._met_until)
        if again and self._retry is None:
            wait = self.parameters.early_merge or self.parameters.merge_period
            self._retry = self.host.after(wait, self._meet)

    def _meet(self) -> None:
        """Try the contacts again, and nobody else.

        Below a root, ask who is there: it may be that nobody else of this tree was told of them.
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

    def _recolour(self) -> None:
        """Extend the colour by this node, at depth 0, and tell all below."""
        self.colour = (self.colour[0] + 1, self.node, self.host.epoch)
        self.depth = 0.0
        self._coloured = self.host.now()
        self.push()

    def begin_anew(self) -> None:
        """A liar has used up the colours: all below part, as after a crash, and join again."""
        for node in list(self.children):
            self.host.send(node, Drop(True))
            self._forget_child(node)
            self._close(node)
        self.colour = BLANK
        self.depth = 0.0
        self._seek("join", LOCAL, -1)
