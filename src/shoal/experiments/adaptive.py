"""Beyond the paper: adaptive routing against fixed settings, in networks of different kinds.

Costa and Picco leave open a mechanism that finds horizon and threshold by itself. Each scenario
runs a grid of fixed settings, and adaptive routing, which is not told which scenario it is in. The
recorded ones need data: name the files in the environment variables ``SHOAL_POSITIONS``
(timestamped positions, as of aircraft) and ``SHOAL_MESH`` (a community mesh, or two: the first
known, the second not); without them they are not run.
"""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.costa_scenarios import MOVING, STATIC
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.measure.graphs import EVERYTHING
from shoal.pipeline.paper import Figure, Panel, Paper, load_experiments, load_labels
from shoal.pipeline.plan.experiment import Experiment

_FILE = Path(__file__).with_name("adaptive.experiments.yaml")
EXPERIMENTS = tuple(load_experiments(_FILE, static=STATIC, moving=MOVING).values())
UNSEEN = (
    *("four", "twelve", "some", "moderate", "hasty", "cars", "vehicles"),
    *("aircraft-later", "mesh-elsewhere"),
)
"""Networks unlike those that its constants were chosen on: in size, degree, density or speed."""
DELIVERY = "deliveries made of those possible"
_HISTORY = (
    "Adaptive routing was developed on this network, among others.",
    "Adaptive routing was not tuned on this network.",
)


def _figure(number: int, experiment: Experiment) -> Figure:
    return Figure(
        str(number),
        experiment.title,
        (
            Panel(experiment.name, "delivery_of_reachable", DELIVERY),
            Panel(
                experiment.name,
                "messages_per_event",
                "messages per event",
                parameters={"kinds": list(EVERYTHING)},
            ),
        ),
        f"{_HISTORY[experiment.name in UNSEEN]} The best fixed setting is the cheapest that "
        "delivers within 1% of the most that any does; adaptive should deliver 99% of that for at "
        "most 1.1 times the messages.",
        (f"A-{experiment.name}",),
    )


PAPER = Paper(
    name="adaptive",
    title="Adaptive routing against fixed settings",
    citation="Beyond Costa and Picco (2005), section 6: their stated goal.",
    speaker="The aim",
    experiments=EXPERIMENTS,
    claims=tuple(
        claim
        for claim in load_claims(Path(__file__).with_name("adaptive.claims.yaml"))
        if claim.experiments() <= {e.name for e in EXPERIMENTS}
    ),
    figures=tuple(_figure(i, e) for i, e in enumerate(EXPERIMENTS, 1)),
    variants=load_labels(_FILE),
)
