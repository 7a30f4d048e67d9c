"""Reconfiguration Path (Frey, section 6.3): repair only what lies between the old and new link.

The path leads from the first end of the old link (the initiator A) along the *head* to the near end
of the new link (C), across it to D, and along the *tail* to the other old end (B). One REC message
walks it and rewrites the tables on its way, in strict sequence:

1. On the head, entries that led back to the old link go (P_del) and entries that lead on to the new
   one come (P_add); RECACK confirms each hop, and until then an UNSUB that contradicts an entry
   just added is ignored.
2. C announces its table over the new link, then passes REC on.
3. D unsubscribes across the new link what of P_add nobody on its side wants any more.
4. At B the entries of the old link go as in Strawman; FLUSH follows these unsubscriptions up the
   tail, and tells D to announce across the new link what is new on its side since P_add was made.

The sequence is what makes it cheap, and what makes it break: reconfigurations whose paths overlap
are not supported. They are detected where they show and counted (``overlaps``).
"""

from __future__ import annotations

from typing import ClassVar, cast

from shoal.content import AnyFilter, Filter
from shoal.routing.messages import Carries
from shoal.routing.reconfiguration.notified import Flush
from shoal.routing.subscription_forwarding import ReconfigurationProtocol, SubscriptionForwarding
from shoal.stack import Message, NodeId, Reconfiguration, register
from shoal.stack.layer import Handler
from shoal.stack.registry import NoParameters


class Rec(Carries, frozen=True, tag="rec"):
    """REC(rId, P_add, P_del, RP): the reconfiguration as it walks the path."""

    reconfiguration: int
    add: tuple[AnyFilter, ...]
    delete: tuple[AnyFilter, ...]
    head: tuple[NodeId, ...]
    tail: tuple[NodeId, ...]

    def carried(self) -> int:
        return len(self.add) + len(self.delete)

    def size(self) -> int:
        """Size with four bytes per node of the path."""
        return super().size() + 4 * (len(self.head) + len(self.tail))


class RecAck(Message, frozen=True, tag="recack"):
    """RECACK(rId): REC has been handled at the next dispatcher of the head."""

    reconfiguration: int

    def weight(self) -> float:
        """Small and of fixed size (Frey, Table 7.2)."""
        return 0.1


class PathFlush(Flush, frozen=True, tag="path-flush"):
    """FLUSH(rId, RP): walks the tail back to D behind the unsubscriptions."""

    KIND: ClassVar[str] = "flush"

    tail: tuple[NodeId, ...]


class ReconfigurationPath(ReconfigurationProtocol):
    """One message walks the reconfiguration path and repairs the tables on it."""

    def __init__(self, routing: SubscriptionForwarding, parameters: NoParameters) -> None:
        super().__init__(routing)
        self.ignore: dict[tuple[NodeId, Filter], int] = {}
        """Entries just added for the next dispatcher, by the reconfiguration that added them."""
        self.replaced: dict[NodeId, int] = {}
        """Lost neighbours whose entries wait for REC, by reconfiguration."""
        self.overlaps = 0

    def handlers(self) -> dict[type[Message], Handler]:
        return {Rec: self.on_rec, RecAck: self.on_recack, PathFlush: self.on_flush}

    # Links

    def link_down(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """A replaced link's entries wait for REC; any other break is a Strawman's."""
        for key in [key for key in self.ignore if key[0] == neighbour]:
            del self.ignore[key]  # the reconfiguration that the link carried cannot finish
            self._overlap(neighbour)
        self.routing.drop_neighbour(neighbour)
        if reconfiguration is None:
            self.remove_entries(neighbour)
        else:
            self.replaced[neighbour] = reconfiguration.id

    def _overlap(self, neighbour: NodeId) -> None:
        self.overlaps += 1
        self.host.note("overlap", neighbour, "")

    def link_up(self, neighbour: NodeId, reconfiguration: Reconfiguration | None) -> None:
        """Raise the link; what is announced over one that replaces another is decided by REC."""
        if neighbour in self.replaced:
            del self.replaced[neighbour]  # linked again before the old entries were repaired
            self._overlap(neighbour)
            self.remove_entries(neighbour)
        self.routing.add_neighbour(neighbour)
        if reconfiguration is None:
            self.routing.announce_table(neighbour)

    def link_replaced(
        self, old: NodeId, near: NodeId, far: NodeId, reconfiguration: Reconfiguration
    ) -> None:
        """``substituteLinkTo``: the initiator starts as if REC had come from the lost neighbour."""
        path = reconfiguration.path
        if path[0] != self.host.node:
            return
        split = path.index(far)
        patterns = tuple(self.routing.table.filters_of(old))
        self.replaced.pop(old, None)
        rec = Rec(reconfiguration.id, patterns, patterns, path[:split], path[split:])  # type: ignore[arg-type]  # wire union
        self.on_rec(old, rec)

    # The walk

    def on_rec(self, sender: NodeId, message: Message) -> None:
        """REC from the dispatcher before this one on the path."""
        rec = cast("Rec", message)
        if self.host.node in rec.head:
            self._on_head(sender, rec)
        else:
            self._on_tail(sender, rec)

    def _on_head(self, sender: NodeId, rec: Rec) -> None:
        """Turn this dispatcher's routes from the old link to the new one, and pass REC on."""
        routing, me = self.routing, self.host.node
        at = rec.head.index(me)
        first, last = at == 0, at == len(rec.head) - 1
        onward = rec.tail[0] if last else rec.head[at + 1]
        for filter in rec.delete:
            routing.remove_entry(sender, filter)
        if not first:
            routing.assume_announced(sender, rec.add)
        if last:
            routing.announce_table(onward)
            passed: tuple[Filter, ...] = ()
        else:
            passed = tuple(f for f in rec.delete if not routing.table.wanted_beside(f, onward))
            for filter in rec.add:
                self.ignore[onward, filter] = rec.reconfiguration
            routing.assume_retracted(onward, passed)
        if onward not in routing.neighbours:
            self._overlap(onward)
        self.host.send(onward, Rec(rec.reconfiguration, rec.add, passed, rec.head, rec.tail))  # type: ignore[arg-type]  # wire union
        for filter in rec.add:
            routing.add_entry(onward, filter)
        if not first:
            self.host.send(sender, RecAck(rec.reconfiguration))

    def on_recack(self, sender: NodeId, message: Message) -> None:
        """From now on UNSUBs of the next dispatcher are believed again."""
        number = cast("RecAck", message).reconfiguration
        for key in [k for k, r in self.ignore.items() if k[0] == sender and r == number]:
            del self.ignore[key]

    def ignores_unsubscription(self, sender: NodeId, filter: Filter) -> bool:
        """While REC is unacknowledged, entries just added for the next dispatcher stay."""
        return (sender, filter) in self.ignore

    def _on_tail(self, sender: NodeId, rec: Rec) -> None:
        """Reconcile at D, pass on along the tail, finish at B."""
        routing, me = self.routing, self.host.node
        at = rec.tail.index(me)
        if at == 0:
            routing.assume_announced(sender, rec.add)
            for filter in rec.add:
                if not routing.table.wanted_beside(filter, sender):
                    routing.retract(sender, filter)
        if at < len(rec.tail) - 1:
            onward = rec.tail[at + 1]
            if onward not in routing.neighbours:
                self._overlap(onward)
            self.host.send(onward, Rec(rec.reconfiguration, (), (), rec.head, rec.tail))
            return
        old = rec.head[0]
        if self.replaced.get(old) == rec.reconfiguration:
            del self.replaced[old]
            self.remove_entries(old)
        self._pass_flush(PathFlush(rec.reconfiguration, rec.tail))

    def on_flush(self, sender: NodeId, message: Message) -> None:
        """FLUSH on its way up the tail."""
        self._pass_flush(cast("PathFlush", message))

    def _pass_flush(self, flush: PathFlush) -> None:
        """Pass FLUSH on towards D; at D announce what is new on this side."""
        at = flush.tail.index(self.host.node)
        if at:
            self.host.send(flush.tail[at - 1], flush)
            return
        # announce_table tells each neighbour only what it has not been told; P_add counts as told.
        for neighbour in self.routing.neighbours:
            self.routing.announce_table(neighbour)


register(
    "reconfiguration",
    "path",
    ReconfigurationPath,
    NoParameters,
    needs={"links", "tables", "symmetric", "association", "path"},
    provides={"reconfiguration"},
)
