"""Forwarding events on arrays: the data plane.

Nearly all simulated messages are events being forwarded, and between two control events (a link
change, a subscription, a repair message) the tables they go by stand still. So all events in flight
advance together in a compiled kernel up to the next control event. It follows the same rules as the
routings' objects, in the same order and with the same draws of chance: recorded tables are equal.

* :mod:`~shoal.simulation.dataplane.state`: the arrays.
* :mod:`~shoal.simulation.dataplane.rules`: the choice of links.
* :mod:`~shoal.simulation.dataplane.engine`: the queue and the loop.
* :mod:`~shoal.simulation.dataplane.mirror`: keeps the arrays equal to the objects' tables.
* :mod:`~shoal.simulation.dataplane.plane`: runs control and data plane in step.
"""
