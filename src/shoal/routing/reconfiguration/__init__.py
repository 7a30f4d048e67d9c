"""How subscription tables follow a changing tree: Frey's protocols, one file each."""

from shoal.routing.reconfiguration.asymmetric import AsymmetricInformed
from shoal.routing.reconfiguration.informed import Informed
from shoal.routing.reconfiguration.notified import Notified
from shoal.routing.reconfiguration.path import ReconfigurationPath
from shoal.routing.reconfiguration.strawman import Strawman
from shoal.routing.reconfiguration.timed import Timed

__all__ = ["AsymmetricInformed", "Informed", "Notified", "ReconfigurationPath", "Strawman", "Timed"]
