"""Who are my neighbours? One overlay per file; importing the package registers them all.

* :mod:`~shoal.overlay.configured`: the links that a node was told to have.
* :mod:`~shoal.overlay.given`: links that a simulation's topology makes and breaks.
* :mod:`~shoal.overlay.graph`: a graph of near constant degree that builds and heals itself.
"""

from shoal.overlay.configured import Configured
from shoal.overlay.given import Given
from shoal.overlay.graph import Graph

__all__ = ["Configured", "Given", "Graph"]
