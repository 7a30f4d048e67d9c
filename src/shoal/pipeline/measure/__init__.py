"""Measure: from recorded tables to one number per run.

:mod:`~shoal.pipeline.measure.registry` says what a measure is, and
:mod:`~shoal.pipeline.measure.compute` computes all that are asked for. The measures themselves:

* ``runs``: what a run sends and delivers, and what a changing tree costs; ``messages``: the same in
  detail, from runs that recorded every message.
* ``graphs``, ``recovery``, ``air``: routing on a graph, event recovery, the radio medium.
* ``peer_to_peer``, ``manet``: routing on trees that build themselves, by wire and by radio.
* ``cases``: measures computed run by run in Python, as they need the shape of the tree; beside it
  ``overlays``, ``lstree_notes`` and ``reference_trees`` (LSTree and DHTree), ``trees`` and
  ``shopping`` (ShopParent), ``dps`` and ``dps_…``.
* ``live``: all of these over live and simulated runs side by side.
"""
