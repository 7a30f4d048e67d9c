"""Who are my neighbours? One overlay per file; importing the package registers them all.

* :mod:`~shoal.overlay.given`: links that a simulation's topology makes and breaks.
* :mod:`~shoal.overlay.graph`: a graph of near constant degree that builds and heals itself.
* :mod:`~shoal.overlay.shopparent`: a tree in which each node shops for the parent that costs least.
"""

from shoal.overlay.given import Given
from shoal.overlay.graph import Graph
from shoal.overlay.shopparent import ShopParent

__all__ = ["Given", "Graph", "ShopParent"]
