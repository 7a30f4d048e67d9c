"""Forwarding events on arrays: the data plane.

Nearly all simulated messages are events being forwarded, and between two control events (a link
change, a subscription, a repair message) the tables they go by stand still. So all events in flight
advance together in a compiled kernel up to the next control event. It follows the same rules as the
routings' objects, in the same order and with the same draws of chance: recorded tables are equal.

* ``state``: the arrays; ``initial`` makes them.
* ``forwarding``: what a rule for the choice of links is. The rules: ``flooding``, ``tables``,
  ``semiprobabilistic``.
* ``engine``: the queue and the loop over events; ``rules``: helpers that it shares with the rules.
* ``mirror``: notes changes of the objects' tables and links; ``changes`` carries them out on the
  arrays, and ``reach`` works out who reaches whom.
* ``plane``: runs control and data plane in step.
"""
