"""Protocols under random trouble, held to the oracle.

A *history* is a small network with one stack, and a log of the steps that were done to it, each a
line of text. Steps overlap freely. Then the trouble ends, the network heals and comes to rest, and
:meth:`~shoal.simulation.chaos.history.History.check` compares it with what should be.

* :mod:`~shoal.simulation.chaos.history`: what all histories share: applications, and the oracle.
* :mod:`~shoal.simulation.chaos.tree`: a tree whose links are replaced, for every routing and
  reconfiguration protocol.
* :mod:`~shoal.simulation.chaos.mesh`: nodes that start, crash and are cut off, for every overlay
  that builds itself and every routing on it.
* :mod:`~shoal.simulation.chaos.dps`: the same for DPS, with filters of every kind.
* :mod:`~shoal.simulation.chaos.air`: radios that fail and fade, for every overlay on the air.
* :mod:`~shoal.simulation.chaos.recovery`: links that lose events, for every recovery on every
  routing and overlay.
* :mod:`~shoal.simulation.chaos.trials`: all stacks there are; random histories, and shorter ones.
"""

from shoal.simulation.chaos.history import History, Subject, failure
from shoal.simulation.chaos.trials import (
    describe,
    play,
    read,
    recovery_subjects,
    shrink,
    subjects,
    trial,
)

__all__ = [
    "History",
    "Subject",
    "describe",
    "failure",
    "play",
    "read",
    "recovery_subjects",
    "shrink",
    "subjects",
    "trial",
]
