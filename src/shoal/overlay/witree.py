"""WiTree (Frey, section 14.1.2; Mottola, Cugola, Picco): a tree over radios, repaired by any node.

As :mod:`~shoal.overlay.maodv`, with two improvements:

* The node that lost its parent need not be an end of the new link. A node that hears the request
  (RREQ) from its own parent passes it on, and so do all nodes below the requester. A node ahead of
  the requester replies (RREP) to the node from which it heard the request; the reply climbs the
  tree to the requester. The requester hands its role as root over, child by child, to the node at
  the new link. On the links between them parent and child change places.
* The activation (MACT) crosses the new link only, from the node beside it.

Trees merge in the same way: a leader that hears of a tree that prevails sends a request, which its
whole tree passes on.
"""

from __future__ import annotations

from typing import cast

from mypy_extensions import mypyc_attr

from shoal.overlay.maodv import DEEPEST, MAODV
from shoal.overlay.maodv_member import REMEMBERED
from shoal.overlay.maodv_messages import Grph, MaodvParameters, Rrep, Rreq
from shoal.overlay.maodv_search import preference
from shoal.stack.host import LOCAL, Host, NodeId, remember
from shoal.stack.layer import Routing
from shoal.stack.message import Message
from shoal.stack.registry import register


@mypyc_attr(allow_interpreted_subclasses=True)
class WiTree(MAODV):
    """A tree in which any node below a lost link may find the new one."""

    def __init__(self, host: Host, parameters: MaodvParameters, routing: Routing) -> None:
        super().__init__(host, parameters, routing)
        self.passed: dict[NodeId, Rrep | None] = {}
        """Best reply so far, per requester whose latest request was passed on."""

    def on_rreq(self, sender: NodeId, message: Message) -> None:
        """RREQ: from the parent, pass it on; otherwise answer as in MAODV."""
        request = cast("Rreq", message)
        if sender != self.parent:
            super().on_rreq(sender, message)
        elif request.requester != self.node and self.is_news(request):
            self.note_answered(request)
            remember(self.passed, request.requester, None, REMEMBERED)
            self.pass_on(request)

    def on_rrep(self, sender: NodeId, message: Message) -> None:
        """RREP to another node: pass it on towards that one, if it is the best so far."""
        reply = cast("Rrep", message)
        requester = reply.requester
        if requester == self.node:
            super().on_rrep(sender, message)
            return
        if (
            requester not in self.passed
            or self.answered.get(requester) != reply.number
            or self.parent in (LOCAL, sender)
            or len(reply.path) >= DEEPEST
        ):
            return
        best = self.passed[requester]
        if best is None or preference(best) < preference(reply):
            self.passed[requester] = reply
            path = (*reply.path, self.node)
            onward = Rrep(requester, reply.number, reply.far, reply.offer, reply.label, path)
            self.host.send(self.parent, onward)

    def foreign(self, sender: NodeId, message: Grph) -> None:
        """A leader that hears of a tree that prevails looks for a way into it."""
        self.sighted = self.leading


register(
    "overlay",
    "witree",
    WiTree,
    MaodvParameters,
    needs={"air"},
    provides={"links", "tree", "root", "association"},
    summary="A tree over radios that move; any node below a lost link may find the new one.",
)
