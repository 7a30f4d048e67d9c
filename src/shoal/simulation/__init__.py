"""A deterministic simulator: the same protocol code, in a world of its own. Needs no Spark.

>>> from shoal.simulation import RunConfig, simulate
>>> result = simulate(RunConfig(nodes=30, reconfiguration={"name": "strawman"}))

* ``config``, ``run``: a run and its settings; ``result``, ``summary``: its outcome.
* ``kernel``: the queue of events; ``network``, ``host``, ``channels``, ``connections``: nodes, and
  what their messages pass through.
* Topologies: ``tree``, ``graph``, ``radio``, ``full_mesh`` (with ``churn`` and ``latency``),
  ``static_tree``, ``radio_range``, ``reference``; the package ``air`` has radios on one channel.
* ``workload``, ``publications``, ``contents``: what applications do; ``player`` lets them do it.
* ``recorder``: the tables. ``oracle``, ``invariants``: what must hold.
* The packages ``dataplane``, events on arrays, and ``chaos``, random trouble.
"""

from shoal.simulation.config import RunConfig, parse_config, run_id
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.result import RunResult
from shoal.simulation.run import Simulation, simulate

__all__ = [
    "InvariantViolation",
    "RunConfig",
    "RunResult",
    "Simulation",
    "parse_config",
    "run_id",
    "simulate",
]
