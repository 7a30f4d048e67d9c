"""Overcast (Jannotti et al., OSDI 2000) as Frey compares it with LSTree (section 10.4.1).

An orphan asks its ancestors, nearest first, and nobody limits its degree. With ``overcast-g`` it
asks nodes of a Global cache when no ancestor is left, as LSTree does, and separate trees merge.
"""

from __future__ import annotations

from math import inf
from typing import Annotated

import msgspec
from mypy_extensions import mypyc_attr

from shoal.overlay.lstree import LSTree
from shoal.overlay.lstree_messages import LSTreeParameters, Seconds
from shoal.stack.host import Host
from shoal.stack.layer import Routing
from shoal.stack.registry import register


class OvercastParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of LSTree that Overcast has, with the same meaning."""

    ancestors: Annotated[int, msgspec.Meta(ge=1, le=64)] = 3
    """Ancestors that a node knows and asks, nearest first."""
    request_timeout: Seconds = 0.5
    """Seconds after which a candidate that does not answer is given up."""
    heartbeat: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 1.0
    """Seconds between signs of life; 0 where the driver tells of every failure."""
    patience: Annotated[float, msgspec.Meta(ge=2, le=1000)] = 4.0
    """Heartbeats after which a silent neighbour is taken for dead."""
    global_size: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 10
    """Entries of the Global cache, where there is one."""
    global_period: Seconds = 30.0
    """Seconds between updates of the Global cache."""
    pings: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 4
    """Nodes that are pinged in a period: entries of the Global cache in turn, and in place of one
    of them a node that no longer answered, if there is one."""
    early_merge: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 1.0
    """Seconds after which a new root looks for another tree once, early; 0 for not at all."""
    merge_period: Seconds = 10.0
    """Seconds between a root's attempts to find another tree."""

    def instance(self, strategies: str) -> LSTreeParameters:
        """The parameters of the instance that this is."""
        return LSTreeParameters(instance=strategies, max_degree=0, **msgspec.structs.asdict(self))


@mypyc_attr(allow_interpreted_subclasses=True)
class Overcast(LSTree):
    """A tree whose orphans ask their ancestors; it falls apart where too many fail at once."""

    def __init__(self, host: Host, parameters: OvercastParameters, routing: Routing) -> None:
        super().__init__(host, parameters.instance("A"), routing)
        self.heals_within = inf  # who has lost all its ancestors stays alone


@mypyc_attr(allow_interpreted_subclasses=True)
class OvercastG(LSTree):
    """A tree whose orphans ask their ancestors, then nodes anywhere."""

    def __init__(self, host: Host, parameters: OvercastParameters, routing: Routing) -> None:
        super().__init__(host, parameters.instance("AG"), routing)


for name, make in (("overcast", Overcast), ("overcast-g", OvercastG)):
    register(
        "overlay",
        name,
        make,
        OvercastParameters,
        needs={"reach"},
        provides={"links", "tree", "root", "association"},
        agree={"heartbeat", "patience"},
    )
