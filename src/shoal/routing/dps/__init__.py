"""DPS, the self-organising semantic overlay of Anceaume et al. (ICDCS 2006), one file per concern.

* :mod:`~.labels`: what a group's members have in common, and which precedes which (section 3).
* :mod:`~.views`, :mod:`~.states`: groupview, predview, succviews (section 4).
* :mod:`~.trees`: one tree per attribute, its owner, contact points (sections 3 and 4.1).
* :mod:`~.searches`: what subscriptions and groups look for, and the requests sent for them.
* :mod:`~.traversal`, :mod:`~.creation`: FIND_GROUP, SUBSCRIBE_TO, CREATE_GROUP (section 4.1).
* :mod:`~.publishing`, :mod:`~.epidemic`: PUBLISH and PUBLISH_GROUP (sections 4.1 and 4.2).
* :mod:`~.leadership`: leaders and co-leaders, takeover, merging (sections 4.2.1 and 4.3).
* :mod:`~.healing`, :mod:`~.departures`: signs of life, unsubscription (section 4.3).
* :mod:`~.choice`: which attribute of a subscription is joined.
* :mod:`~.promises`: what holds once the network has healed.
"""

from shoal.routing.dps.dps import Dps
from shoal.routing.dps.parameters import DpsParameters
from shoal.stack.registry import register

register(
    "routing",
    "dps",
    Dps,
    DpsParameters,
    needs={"reach"},
    summary="Subscribers form one tree of groups per attribute, by what they want, and heal it.",
)

__all__ = ["Dps", "DpsParameters"]
