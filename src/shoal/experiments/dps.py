"""Anceaume et al. 2006: DPS, a semantic overlay. Table 1, figure 3, and all claims."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.dps_scenarios import EXPERIMENTS
from shoal.experiments.dps_steps import SIX
from shoal.pipeline.judge.claims import Claim, load_claims
from shoal.pipeline.judge.readings import Place, with_readings
from shoal.pipeline.paper import Figure, Panel, Paper

FIGURES = (
    Figure(
        "Table 1",
        "Nodes contacted",
        (
            Panel("table-1", "contacted_nodes", "nodes contacted (%)"),
            Panel("table-1", "matching_nodes", "nodes with a matching subscription (%)"),
            Panel("table-1", "false_positives", "false positives (%)"),
        ),
        "An event is sent to 13% to 55% of the nodes, of which 0.4% to 25% of all want it.",
        (
            *(f"D-T1-W{n}-{what}" for n in (1, 2, 3) for what in ("MATCH", "CONTACT", "FP")),
            *("D-T1-SAVEMIN", "D-T1-FP30", "D-T1-FP10", "D-T1-W2WORST"),
        ),
    ),
    Figure(
        "attribute",
        "Which attribute is joined (not in the paper)",
        (
            Panel(
                *("selective", "false_positives", "false positives (%), once all have subscribed"),
                parameters={"since": 1100.0},
            ),
            Panel("variants", "contacted_nodes", "nodes contacted (%)"),
        ),
        "Any attribute will do. (The most selective one, as judged by the events seen, saves "
        "false positives; so does a test of labels before an event is sent.)",
        ("D-T1-VARIANT",),
    ),
    Figure(
        "3(a)",
        "Dependability",
        (Panel("crashes-0.25", "delivery_by_window", "deliveries made of those owed"),),
        "At least 80% of the events are delivered even when three quarters of the nodes crash; "
        "with epidemic communication and k = 2 more than 97%.",
        ("D-DEP-80", "D-DEP-LEADERLOW", "D-DEP-EPI97", "D-DEP-K", "D-DEP-DECREASE"),
    ),
    Figure(
        "3(b)",
        "Recovery",
        (
            Panel(
                *("recovery", "delivery_by_window", "deliveries made of those owed"),
                x_label="step of publication",
                shade=(1500.0, 2500.0),
            ),
        ),
        "While half of the nodes crash, 95% are delivered; afterwards all are again.",
        ("D-DEP-B95", "D-DEP-BRECOVER", "D-DEP-BBEFORE"),
    ),
    Figure(
        "3(c), 3(d)",
        "A growing network",
        (
            Panel(
                *("growth", "load_over_time", "messages of the median node"),
                parameters={"which": "median"},
                x_label="step",
            ),
            Panel(
                *("growth", "load_over_time", "messages of the most loaded node"), x_label="step"
            ),
        ),
        "What a node sends per event does not grow with the network, but for leaders of groups.",
        ("D-SC-MED", "D-SC-MAXEPI", "D-SC-MAXLEAD", "D-SC-GENERIC"),
    ),
    Figure(
        "3(e), 3(f), 3(g)",
        "A growing number of subscriptions",
        tuple(
            Panel(
                *("load", "load_over_time", f"messages {words}"),
                parameters={"way": way, "which": which},
                x_label="step",
                title=title,
            )
            for way, words in (("in", "received"), ("out", "sent"))
            for which, title in (("max", "most loaded node"), ("median", "median node"))
        ),
        "Leaders send much, their members nothing; epidemic communication spreads the load.",
        (
            *("D-LE-INRISE", "D-LE-INMEDLEAD", "D-LE-OUTMED", "D-LE-BALANCE", "D-LE-HALF"),
            *("D-LE-TOTAL", "D-RG-INROOT", "D-RG-INORDER", "D-RG-OUT", "D-RG-OUTMED", "D-RG-EPI"),
        ),
    ),
)


def _place(suffix: str) -> Place:
    """Where a reading of workload 2 has its runs of figures 3(c) to 3(g)."""
    return lambda experiment, variant: (
        experiment + suffix if experiment in ("growth", "load") else experiment,
        variant,
    )


READINGS = {"eight values": _place(""), "500 values": _place("-500")}
"""What the paper leaves open of workload 2 decides figures 3(c) to 3(g)."""


def _read(claim: Claim) -> Claim:
    """A claim on these figures in both readings; any other as it is."""
    asked = {check.experiment for check in claim.checks}
    return with_readings(claim, READINGS) if asked & {"growth", "load"} else claim


LABELS = {name: "epidemic communication, k as given" for name in SIX if "k=" in name} | {
    "root leader": "traversal from the root, leaders act for their groups",
    "generic leader": "traversal from any node, leaders act for their groups",
    "root epidemic": "traversal from the root, every member acts for its group",
    "generic epidemic": "traversal from any node, every member acts for its group",
}

PAPER = Paper(
    name="dps",
    title="DPS: subscribers that organise themselves by what they want",
    citation=(
        "Emmanuelle Anceaume, Ajoy K. Datta, Maria Gradinariu, Gwendal Simon, Antonino Virgillito: "
        "A Semantic Overlay for Self-* Peer-to-Peer Publish/Subscribe. "
        "26th International Conference on Distributed Computing Systems, 2006."
    ),
    experiments=EXPERIMENTS,
    claims=tuple(map(_read, load_claims(Path(__file__).with_name("dps.claims.yaml")))),
    figures=FIGURES,
    variants=LABELS,
)
