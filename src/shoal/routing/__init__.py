"""Who wants this event? One routing per file; importing the package registers them all.

* :mod:`~shoal.routing.event_forwarding`, :mod:`~shoal.routing.flooding`,
  :mod:`~shoal.routing.air_flooding`: no tables.
* :mod:`~shoal.routing.semiprobabilistic`: on a graph, nearby subscriptions and random links;
  :mod:`~shoal.routing.adaptive` finds its parameters by itself,
  :mod:`~shoal.routing.broadcast` is the variant for radio.
* :mod:`~shoal.routing.subscription_forwarding`: tables, repaired by a protocol of
  :mod:`shoal.routing.reconfiguration` when links change. Its kin
  :mod:`~shoal.routing.hierarchical_forwarding` and :mod:`~shoal.routing.advertisement_forwarding`
  restrict where subscriptions travel.
* :mod:`~shoal.routing.dps`: no overlay below; subscribers form trees of groups by what they want.
"""

import shoal.routing.reconfiguration  # noqa: F401  # registers the reconfiguration protocols
from shoal.routing.adaptive import Adaptive
from shoal.routing.advertisement_forwarding import AdvertisementForwarding
from shoal.routing.air_flooding import AirFlooding
from shoal.routing.broadcast import Broadcast
from shoal.routing.dps import Dps
from shoal.routing.event_forwarding import EventForwarding
from shoal.routing.flooding import Flooding
from shoal.routing.hierarchical_forwarding import HierarchicalForwarding
from shoal.routing.messages import Forward, Subscribe, Unsubscribe
from shoal.routing.semiprobabilistic import SemiProbabilistic
from shoal.routing.subscription_forwarding import ReconfigurationProtocol, SubscriptionForwarding

__all__ = [
    "Adaptive",
    "AdvertisementForwarding",
    "AirFlooding",
    "Broadcast",
    "Dps",
    "EventForwarding",
    "Flooding",
    "Forward",
    "HierarchicalForwarding",
    "ReconfigurationProtocol",
    "SemiProbabilistic",
    "Subscribe",
    "SubscriptionForwarding",
    "Unsubscribe",
]
