"""How subscription tables follow a changing tree: Frey's reconfiguration protocols, one file each."""

from shoal.routing.reconfiguration.strawman import Strawman

__all__ = ["Strawman"]
