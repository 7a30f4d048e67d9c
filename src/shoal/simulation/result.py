"""What a run leaves behind: its result, its fingerprint, and its row in the table ``runs``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.simulation.config import RunConfig, canonical_json, code_version, run_id
from shoal.simulation.summary import Summary, percent, summarise

if TYPE_CHECKING:
    from shoal.simulation.run import Simulation


@dataclass(frozen=True, repr=False)
class RunResult:
    """What a run leaves behind: its tables, and what is known of the run as a whole."""

    run_id: str
    tables: dict[str, pa.Table]
    fingerprint: str
    nodes: int
    reconfigurations: int
    messages: int
    lost: int
    diameter: int | None
    acyclic: bool
    """Whether links had to form a forest at every instant, which was checked."""
    canonical: bool | None
    """Whether the tables at rest were right; None where the routing keeps none."""
    wall_seconds: float

    def summary(self) -> Summary:
        """The run in a few numbers; ``print`` it, or show it in a notebook."""
        return summarise(self)

    def __repr__(self) -> str:
        summary = self.summary()
        share = "" if summary.delivery is None else f", {percent(summary.delivery)} delivered"
        events = "" if summary.events is None else f", {summary.events:,} events{share}"
        return (
            f"<RunResult {self.run_id}: {self.nodes:,} nodes{events}, {self.messages:,} messages>"
        )

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def fingerprint(simulation: Simulation) -> str:
    """A hash of the trajectory: every publication, what it reached, all traffic and link changes.

    Equal for equal runs under any hash seed, on every machine, compiled or not.
    """
    recorder = simulation.recorder
    digest = hashlib.blake2b(digest_size=16)
    if simulation.plane is not None:
        simulation.plane.digest(digest.update)
    else:
        width = 8 * ((recorder.nodes + 63) // 64)
        for name in ("time", "publisher", "sequence"):
            values = [getattr(record, name) for record in recorder.publications]
            digest.update(np.array(values, np.int64).tobytes())
        for record in recorder.publications:
            digest.update(record.owed.to_bytes(width, "little"))
            digest.update(record.received.to_bytes(width, "little"))
    for row in recorder.traffic:
        digest.update(repr(row).encode())
    for change in recorder.links:
        digest.update(repr(change).encode())
    kernel = simulation.kernel
    digest.update(b"%d,%d,%d" % (kernel.now, kernel.handled, kernel.lost))
    return digest.hexdigest()


def run_row(config: RunConfig, result: RunResult | None, error: str | None) -> dict[str, object]:
    """The row of the ``runs`` table for a run that went well, or did not."""
    return {
        "run_id": run_id(config),
        "seed": config.seed,
        "configuration": canonical_json(config),
        "code": code_version(),
        "status": "error" if error else "done",
        "error": error,
        "fingerprint": result.fingerprint if result else None,
        "nodes": config.nodes,
        "reconfigurations": result.reconfigurations if result else None,
        "messages": result.messages if result else None,
        "lost": result.lost if result else None,
        "diameter": result.diameter if result else None,
        "canonical": result.canonical if result else None,
        "wall_seconds": result.wall_seconds if result else None,
    }
