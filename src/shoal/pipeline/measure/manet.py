"""Measures of routing on the air (Frey, chapter 16).

The measured interval is the workload's publish window, as in
:mod:`~shoal.pipeline.measure.peer_to_peer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.overlay.maodv_search import REPAIRS
from shoal.pipeline.measure.cases import Value, case, mean
from shoal.pipeline.measure.peer_to_peer import (
    ROUTING,
    measured_traffic,
    per_reconfiguration,
    unit_cost,
    within,
)
from shoal.pipeline.measure.registry import TIDY, Tables, beside, measure, of_kind, over, total
from shoal.pipeline.measure.run_view import Run
from shoal.simulation.topology import distances

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BEACONS = ("hello", "beat", "beacon")
"""Signs of life, which the thesis does not mention among an overlay's messages."""


def _overlay_kinds(beacons: bool) -> Column:
    others = (*ROUTING, "event") if beacons else (*ROUTING, "event", *BEACONS)
    return ~of_kind(others)


def _routing_bytes() -> Column:
    """Bytes of a row that repair tables; those of misrouted events are among them."""
    wasted = F.when(F.col("kind") == "event", F.col("bytes") * F.col("misrouted") / F.col("count"))
    return wasted.when(of_kind(ROUTING), F.col("bytes"))


@over("traffic", unit="messages")
def transmissions() -> Column:
    """Messages of all kinds in the measured interval."""
    return total("count", measured_traffic())


@over("traffic", unit="share")
def overlay_share(kinds: Sequence[str], beacons: bool = True) -> Column:
    """Share of some kinds in the overlay's bytes, with or without the beacons."""
    every = total("bytes", measured_traffic() & _overlay_kinds(beacons))
    return F.try_divide(total("bytes", measured_traffic() & of_kind(kinds)), every)


@over("traffic", unit="ratio")
def overlay_to_routing(beacons: bool = True) -> Column:
    """The overlay's bytes against those that repair tables, misrouted events included."""
    overlay = total("bytes", measured_traffic() & _overlay_kinds(beacons))
    return F.try_divide(overlay, total(_routing_bytes(), measured_traffic()))


@measure(unit="bytes")
def unit_bytes(
    plan: DataFrame, tables: Tables, part: str = "overlay", beacons: bool = True
) -> DataFrame:
    """Bytes of the overlay, or of routing as in :func:`overlay_to_routing`, per reconfiguration."""
    overlay = F.when(_overlay_kinds(beacons), F.col("bytes"))
    return per_reconfiguration(plan, tables, overlay if part == "overlay" else _routing_bytes())


@measure(unit="points")
def informed_advantage(plan: DataFrame, tables: Tables) -> DataFrame:
    """What Informed Link Activation saves more than Timed, in points of Strawman's cost."""
    costs = unit_cost(plan, tables)
    both = beside(costs.where("variant = 'ILA'"), costs.where("variant = 'SM'"), "SM")
    both = beside(both, costs.where("variant = 'TDU'"), "TDU")
    points = F.try_divide(100 * (F.col("TDU") - F.col("value")), F.col("SM"))
    return both.withColumn("value", points).select(*TIDY)


# Run by run


class Replacement(NamedTuple):
    """A lost link and the one that an overlay put in its place."""

    orphan: int
    lost: int
    """The orphan's parent."""
    ends: tuple[int, int]
    """Ends of the new link."""
    took: float
    """Seconds from the loss, as the orphan noticed it, to the new link."""
    path: int | None
    """Links from the orphan to the lost parent, or to its nearest former neighbour if it is gone,
    once the new link is there; None if none leads there."""


def _replacements(run: Run) -> list[Replacement]:
    """The repairs of the measured interval."""
    losses: dict[int, tuple[int, float]] = {}
    counts: dict[int, int] = {}
    for note in sorted(run.notes, key=lambda note: note["time"]):
        if note["what"] == "parent lost":
            node = note["node"]
            counts[node] = counts.get(node, 0) + 1
            losses[node * REPAIRS + counts[node] % REPAIRS] = (note["peer"], note["time"])
    links: dict[int, dict[int, None]] = {}
    before: dict[int, tuple[float, list[int]]] = {}
    found: list[Replacement] = []
    nodes = range(run.configuration["nodes"])
    for change in run.links:
        a, b, time, repair = change["a"], change["b"], change["time"], change["repair"]
        if change["change"] == "down":
            for end in (a, b):  # a node that crashes loses all its links at one instant
                if before.get(end, (-1.0, []))[0] != time:
                    before[end] = (time, list(links.get(end, ())))
            links.get(a, {}).pop(b, None)
            links.get(b, {}).pop(a, None)
            continue
        links.setdefault(a, {})[b] = None
        links.setdefault(b, {})[a] = None
        if repair in losses and within(run, time):
            orphan = repair // REPAIRS
            lost, at = losses[repair]
            targets = [lost] if links.get(lost) else before.get(lost, (0.0, []))[1]
            near = distances([links.get(n, {}) for n in nodes], orphan)
            path = min((near[t] for t in targets if t != orphan and t in near), default=None)
            found.append(Replacement(orphan, lost, (a, b), time - at, path))
    return found


@case("links", "notes", unit="s")
def reconnection_time(run: Run) -> Value:
    """Least number of seconds from the loss of a parent to the link that replaces it."""
    return min((replacement.took for replacement in _replacements(run)), default=None)


@case("links", "notes", unit="share")
def reconnected(run: Run, seconds: float) -> Value:
    """Share of the links that replace a lost one within so many seconds."""
    return mean(replacement.took <= seconds for replacement in _replacements(run))


@case("links", "notes", unit="share")
def shared_ends(run: Run) -> Value:
    """Share of the links that replace another one with which they have an end in common."""
    return mean(r.orphan in r.ends or r.lost in r.ends for r in _replacements(run))


@case("links", "notes", unit="links")
def replacement_path(run: Run) -> Value:
    """Links from one end of a lost link to the other once it is replaced, on average."""
    return mean(r.path for r in _replacements(run) if r.path is not None)
