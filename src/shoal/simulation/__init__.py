"""A deterministic simulator: the same protocol code, in a world of its own. Needs no Spark.

>>> from shoal.simulation import RunConfig, simulate
>>> result = simulate(RunConfig(nodes=30, reconfiguration={"name": "strawman"}))
"""

from shoal.simulation.config import RunConfig, parse_config, run_id
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.run import RunResult, Simulation, simulate

__all__ = [
    "InvariantViolation",
    "RunConfig",
    "RunResult",
    "Simulation",
    "parse_config",
    "run_id",
    "simulate",
]
