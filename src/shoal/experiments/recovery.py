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

from shoal.pipeline.judge.claims import load_claims
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


SAYS = {
    "loss": "Every algorithm delivers more than none. Digests towards a publisher are cheapest.",
    "buffer": "What is no longer in any buffer cannot be recovered.",
    "period": "The longer the period, the fewer rounds before buffers forget.",
    "probability": "P_f decides how far a digest gets.",
    "patterns": "More patterns per subscriber mean more to choose among in each round.",
    "subscribers": "Where few want the same, subscribers have less to give each other.",
    "size": "Longer ways lose more, and buffers of the same size hold it for less time.",
    "reconfigured": "What is lost while links are replaced is recovered as what links lose.",
    "eviction": "Small buffers: keeping what is least spread against keeping what is newest.",
    "lossless": "With nothing lost, pulls ask for nothing; push still talks.",
    "quiet": "Once events stop, an adaptive period lets gossip fall nearly silent.",
    "adapting": "With losses, an adaptive period costs no delivery.",
    "givers": "Who sends the copies: publishers, or others that hold them.",
    "paper": "The setting of ICDCS 2004 under high load, as remembered, with T = 0.03 s.",
    "mesh": "Losses as measured on the links of a community mesh.",
    "aircraft": "Losses of links between aircraft that move out of reach.",
}
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
