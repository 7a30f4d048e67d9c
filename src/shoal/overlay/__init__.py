"""Who are my neighbours? One overlay per file; importing the package registers them all.

* :mod:`~shoal.overlay.beacons`: on the air, whoever is in range.
* :mod:`~shoal.overlay.configured`: the links that a node was told to have.
* :mod:`~shoal.overlay.given`: links that a simulation's topology makes and breaks.
* :mod:`~shoal.overlay.dhtree`: a tree that copies a reference tree, over a hash table.
* :mod:`~shoal.overlay.graph`: a graph of near constant degree that builds and heals itself.
* :mod:`~shoal.overlay.lstree`: a tree of bounded degree that builds and heals itself.
* :mod:`~shoal.overlay.lstree_observed`: the same, with notes on what it does and why.
* :mod:`~shoal.overlay.maodv`: a tree over radios that move.
* :mod:`~shoal.overlay.overcast`: a tree that repairs itself with ancestors only.
* :mod:`~shoal.overlay.shopparent`: a tree in which each node shops for the parent that costs least.
* :mod:`~shoal.overlay.witree`: a tree over radios that any node below a lost link can repair.
"""

from shoal.overlay.beacons import Beacons
from shoal.overlay.configured import Configured
from shoal.overlay.dhtree import DHTree
from shoal.overlay.given import Given
from shoal.overlay.graph import Graph
from shoal.overlay.lstree import LSTree
from shoal.overlay.lstree_observed import ObservedLSTree
from shoal.overlay.maodv import MAODV
from shoal.overlay.overcast import Overcast, OvercastG
from shoal.overlay.shopparent import ShopParent
from shoal.overlay.witree import WiTree

__all__ = [
    "MAODV",
    "Beacons",
    "Configured",
    "DHTree",
    "Given",
    "Graph",
    "LSTree",
    "ObservedLSTree",
    "Overcast",
    "OvercastG",
    "ShopParent",
    "WiTree",
]
