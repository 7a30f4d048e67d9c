"""Measure: from recorded tables to one number per run.

:mod:`~shoal.pipeline.measure.registry` says what a measure is, and
:mod:`~shoal.pipeline.measure.compute` computes all that are asked for. The measures themselves:

* :mod:`~shoal.pipeline.measure.runs`: what a run sends and delivers, what a changing tree costs.
* :mod:`~shoal.pipeline.measure.graphs`: routing on a graph.
* :mod:`~shoal.pipeline.measure.recovery`: what a recovery brings back, and what it costs.
* :mod:`~shoal.pipeline.measure.messages`: what only runs that recorded every message can tell.
* :mod:`~shoal.pipeline.measure.cases`: what needs the shape of the tree, run by run in Python.

:mod:`~shoal.pipeline.measure.live` measures live and simulated runs side by side.
"""
