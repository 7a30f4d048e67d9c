"""Event forwarding and flooding on arrays: over all links but the one that an event came by."""

from __future__ import annotations

from shoal.routing import EventForwarding, Flooding
from shoal.simulation.dataplane.forwarding import Forwarding, forwards

forwards(EventForwarding, Forwarding("event_forwarding", floods=True))
forwards(Flooding, Forwarding("flooding", remembers=True, floods=True))
