"""Forwarding events on arrays: the data plane.

Nearly all simulated messages are events being forwarded. Between two control events (a link change,
a subscription, a repair message) tables do not change. So all events in flight advance together in
a compiled kernel up to the next control event. The kernel follows the same rules as the routings'
objects, in the same order and with the same draws of chance: recorded tables are equal.

* ``state``: the arrays; ``initial`` makes them.
* ``forwarding``: what a rule for the choice of links is. The rules: ``flooding``, ``tables``,
  ``semiprobabilistic``.
* ``engine``: the queue and the loop over events; ``kernels``: what it shares with the rules.
* ``mirror``: notes changes of the objects' tables and links; ``changes`` carries them out on the
  arrays, and ``reach`` works out who reaches whom.
* ``plane``: runs control and data plane in step.
"""
