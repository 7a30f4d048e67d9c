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
    Leave,
    LSTreeParameters,
    ParentRequest,
    Refuse,
)
from shoal.overlay.lstree_relation import DEEPEST, LONGEST, can_connect
from shoal.overlay.lstree_strategies import NAMES
from shoal.stack.host import LOCAL, Host, NodeId, key_of, remember
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
        self.contacts: tuple[Contact, ...] = ()
        """The nodes to begin with."""
        self.unmet: dict[str, None] = {}
        """Addresses of contacts at which no node has answered so far."""
        self._met_until = -1.0
        """Time until which contacts are asked again although all have answered."""
        self.last: Search | None = None
        """The search that ended last, except those of roots that found no other tree."""
        self._requests = 0
        self._asked_at = 0.0
        """When the latest request was sent."""
        self._overdue: dict[int, float] = {}
        """When each request without an answer in time was sent."""
        self.wait = parameters.request_timeout
        """Seconds to wait for an answer: longer after answers that came too late."""
        self._repairs = host.epoch * PER_LIFE

    def be_root(self, lost: NodeId, cause: str) -> None:
        """Take a new colour, and look for other trees from now on."""
        raise NotImplementedError

    def _meet_later(self) -> None:
        """Ask contacts again soon, if their tree may not be this one."""
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
                    cache.clear()  # only its course is kept
                search.outcome = f"{outcome}, after {self.host.now() - search.started:.3f} s"

    def _let_go(self, search: Search) -> None:
        """End the connection that the candidate of a search may have opened."""
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
            for contact in self._global_entries():
                if self._ask_new(step, search, contact):
                    return True
        return self._await_busy(step, search)

    def _ask_regional(self, step: str, search: Search) -> bool:
        """Ask the nearest ancestor or a random sibling; which of the two is drawn."""
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

    def _global_entries(self) -> list[Contact]:
        """The entries of the Global cache, from a random place on."""
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
        """The candidate has opened a connection: it accepts, so wait longer for its answer."""
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
        self._note_answer(search, "no answer")
        remember(self._overdue, search.request, self._asked_at, OVERDUE)
        search.silent += 1
        key = key_of(search.candidate)
        search.busy.pop(key, None)
        self.known.purge(key)
        if search.strategy == "R":  # a young node knows no others: they may be cut off, not dead
            self.known.remember(search.candidate)
        self._ask_next()

    def _adapt_wait(self, request: int) -> None:
        """Lengthen the wait for answers after one that came late, else shorten it somewhat.

        So nodes far from each other can join, and a liar delays no node for long.
        """
        asked = self._overdue.pop(request, None)
        if asked is not None:
            self.wait = min(max(self.wait, 2 * (self.host.now() - asked)), self.timeout)
        elif request == self._requests:
            took = self.host.now() - self._asked_at
            self.wait = max(self.parameters.request_timeout, 2 * took, CALM * self.wait)

    def _note_answer(self, search: Search, answer: str) -> None:
        assert search.candidate is not None
        search.trail.append((search.strategy, key_of(search.candidate), answer))

    def on_refuse(self, sender: NodeId, message: Message) -> None:
        """Steps 4 and 5, refused: the reason fills caches, and the search goes on."""
        refuse = cast("Refuse", message)
        self._adapt_wait(refuse.request)
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
        self._note_answer(search, refuse.reason)
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
        """Note which node answers at an address; forget this node's own address."""
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
        """A node answers at an address for the first time: its tree may be about to merge."""
        if self.unmet.pop(address, address) is None:
            self._met_until = self.host.now() + self.parameters.merge_period

    # Step 5: accepted

    def on_accept(self, sender: NodeId, message: Message) -> None:
        """Attach over the connection that the candidate has opened, if that is safe and in time."""
        accept = cast("Accept", message)
        search = self.search
        if accept.parent.node != sender or sender not in self.heard:
            return
        self._adapt_wait(accept.request)
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
            self._note_answer(search, "no longer safe")
            self._ask_next()
        elif self.parent == LOCAL:
            self._attach(search, accept)
        else:
            self.move_to(search, accept)

    def move_to(self, search: Search, accept: Accept) -> None:
        """Move from a parent that stops to the node that has accepted this one."""
        raise NotImplementedError

    def _attach(self, search: Search, accept: Accept) -> None:
        """Become the candidate's child."""
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
        """Make the accepting candidate this node's parent, before there is a link to it."""
        self._note_answer(search, "accepted")
        self.parent = accept.parent.node
        self.parent_epoch = accept.parent_epoch
        self.root = False
        self._end_search(f"attached to {self.parent} by {NAMES[search.strategy]}")
        self.adopt(accept.parent, accept.colour, accept.depth, accept.ancestors)
        self.siblings = accept.siblings
        for contact in accept.known:
            self.known.insert(contact)

    def attached(self, search: Search, parent: NodeId) -> None:
        """There is a link to the parent: inform all below."""
        if self.host.watched:
            took = self.host.now() - search.started
            how = f"{search.cause} {search.strategy} {took:.6f} {len(search.trail)} {search.lost}"
            self.host.note("attached", parent, how)
        self.push()
        self._meet_later()

    # Step 6: nobody accepts

    def _nobody(self, search: Search) -> None:
        """End the search: an orphan becomes root; a root, or a node with a parent, remains so."""
        self._end_search("no candidate is left: root")
        self._meet_later()
        if search.cause == "merge" or self.parent != LOCAL:
            return
        if self.colour[0] >= LONGEST:
            self.begin_anew()
        else:
            self.be_root(search.lost, search.cause)
