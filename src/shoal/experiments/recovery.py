"""Event recovery, evaluated as Costa, Migliavacca, Picco and Cugola did (ICDCS 2004).

The five algorithms as published (a fixed period, no comparisons, no bound on what gossip costs), no
recovery, and combined pull as it is by default here, on a tree whose links lose events or are
replaced. Swept: the loss, buffers, the period, P_f, what subscribers want, how many there are, and
the size of the network. Frey's thesis, which outlines this layer, states no result; the claims are
our own expectations, each with its reason.

Real losses need data: name the files in ``SHOAL_MESH`` (a community mesh with the quality of each
link) and ``SHOAL_POSITIONS`` (timestamped positions, as of aircraft); without them these are not
run.
"""

from __future__ import annotations

from pathlib import Path

from shoal.pipeline.judge.claims import load_claims, read_yaml
from shoal.pipeline.measure.recovery import DIGESTS
from shoal.pipeline.paper import Figure, Panel, Paper, load_experiments, load_labels
from shoal.pipeline.plan.experiment import Experiment

_FILE = Path(__file__).with_name("recovery.experiments.yaml")
EXPERIMENTS = tuple(load_experiments(_FILE).values())
DELIVERED = "deliveries made of those owed"


def _figure(number: int, experiment: Experiment, says: str, claims: tuple[str, ...]) -> Figure:
    """Delivery, delay and cost side by side."""
    return Figure(
        str(number),
        experiment.title,
        (
            Panel(experiment.name, "delivery", DELIVERED, y_from_zero=False),
            Panel(experiment.name, "recovery_delay", "median delay of recovered events in s"),
            Panel(
                experiment.name,
                "gossip_bytes_per_hop",
                "bytes of gossip per hop of an event",
                parameters={"kinds": list(DIGESTS)},
            ),
        ),
        says,
        claims,
    )


SAYS: dict[str, str] = read_yaml(_FILE)["says"]
CLAIMS = tuple(
    claim
    for claim in load_claims(Path(__file__).with_name("recovery.claims.yaml"))
    if claim.experiments() <= {e.name for e in EXPERIMENTS}
)

PAPER = Paper(
    name="recovery",
    title="Event recovery",
    citation="After Costa, Migliavacca, Picco, Cugola (ICDCS 2004), as outlined by Frey (2006).",
    speaker="Our expectation",
    experiments=EXPERIMENTS,
    claims=CLAIMS,
    figures=tuple(
        _figure(
            number,
            experiment,
            SAYS[experiment.name],
            tuple(claim.id for claim in CLAIMS if experiment.name in claim.experiments()),
        )
        for number, experiment in enumerate(EXPERIMENTS, 1)
    ),
    variants=load_labels(_FILE),
)
