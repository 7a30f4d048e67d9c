"""Radios that share the air: a channel with carrier sense, collisions and acknowledgements.

* :mod:`~shoal.simulation.air.topologies`: ``air``, ``air-tracks`` and ``air-mesh``, by name;
* :mod:`~shoal.simulation.air.parameters`: what can be set, with the values of 802.11b;
* :mod:`~shoal.simulation.air.host` and :mod:`~shoal.simulation.air.medium`: what a node sends and
  hears;
* :mod:`~shoal.simulation.air.channel`: the channel itself, compiled, on the arrays of
  :mod:`~shoal.simulation.air.state`. Its parts: ``queueing`` (a node's queue and its access to the
  channel), ``reception`` (bit errors), ``movement`` (positions and who senses whom), ``timers``;
* :mod:`~shoal.simulation.air.flood`: floods that the channel forwards without objects, and
  :mod:`~shoal.simulation.air.flooding`: what the recorder is told of them.
"""
