"""Frey 2006, parts I and II: routing that survives change. Figures 7.1 to 7.18, and all claims."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from shoal.experiments.frey_examples import INVARIANTS, WORKED
from shoal.experiments.frey_scenarios import EVENTS, FIVE, FOUR, LABELS, OVERHEAD, THESIS
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.paper import Figure, Panel, Paper

COST, GAIN = "cost per reconfiguration", "improvement over Strawman (%)"
DEFERRED = ("TDU", "NDU", "ILA")
BETTER = (*DEFERRED, "RP")
AGAINST = ("EF", "SM", "TDU", "ILA")
MISROUTED = "misrouted events per reconfiguration"
SECONDS = "time of publication (s)"


def _cost_and_gain(
    experiment: str,
    cost: tuple[str, ...] = FIVE,
    gain: tuple[str, ...] = BETTER,
    scale: Literal["linear", "log"] = "linear",
) -> tuple[Panel, Panel]:
    """The thesis's usual pair: (a) what a reconfiguration costs, (b) what is saved."""
    return (
        Panel(experiment, "cost_per_rec", COST, cost, x_scale=scale),
        Panel(experiment, "cost_per_rec", GAIN, gain, relative_to="SM", x_scale=scale),
    )


def _involved(experiment: str) -> Panel:
    return Panel(experiment, "involved", "share of dispatchers involved", FIVE)


def _delivery(experiment: str, variants: tuple[str, ...], title: str) -> Panel:
    return Panel(
        experiment,
        "delivery_over_time",
        "deliveries made of those owed",
        variants,
        {"who": "core"},
        x_label=SECONDS,
        y_from_zero=False,
        y_range=(0.0, 1.0),
        title=title,
        shade=(3.0, 7.0),
    )


def _goodput(experiment: str, variants: tuple[str, ...], title: str) -> Panel:
    return Panel(
        *(experiment, "overhead_to_goodput", "overhead per useful transmission", variants),
        x_scale="log",
        y_scale="log",
        title=title,
    )


FIGURES = (
    Figure(
        "7.1",
        "Delivery while the tree changes",
        (
            _delivery("delivery-low", FIVE, "isolated reconfigurations"),
            _delivery("delivery-high", FOUR, "overlapping reconfigurations"),
        ),
        "Delivery suffers only while links are missing, little when reconfigurations are isolated, "
        "visibly when they overlap, and is back at exactly 100% once the tree is stable. The "
        "protocols hardly differ.",
        ("T7.2-a", "T7.2-b", "T7.2-c", "T7.2-d", "T7.2-e", "T7.2-f", "T7.2-g"),
    ),
    Figure(
        "7.2",
        "What is counted",
        (
            Panel("quiet", "cost_per_rec", COST, FIVE, title="normalised"),
            Panel(
                "quiet", "messages_per_rec", "messages per reconfiguration", FIVE, title="absolute"
            ),
        ),
        "Messages that carry many patterns are weighted by them, small ones of control by a tenth. "
        "For Reconfiguration Path 3.44 REC messages weigh 90.9.",
        ("T5.2-a", "T7.1-e", "T7.3.1-a", "T7.3.1-b", "T7.3.1-c", "T7.3.1-d"),
    ),
    Figure(
        "7.3",
        "System scale, balanced trees",
        _cost_and_gain("scale"),
        "Every optimised protocol beats Strawman at every size, by up to 75%: Timed by about 50%, "
        "Informed Link Activation and Reconfiguration Path by about 70%.",
        ("T7.3-a", "T7.3-b", "T7.3-c", "T7.3-d", "T7.3-e", "T7.3-h", "T7.3-i"),
    ),
    Figure(
        "7.4",
        "System scale, random trees",
        _cost_and_gain("scale-unbalanced"),
        "Unbalanced trees are deeper and dearer to repair, and protocols that confine their work "
        "to the reconfiguration path gain a further 10%.",
        ("T7.4-a", "T7.4-b", "T7.4-c", "T7.4-e", "T7.4-f"),
    ),
    Figure(
        "7.5",
        "Number of patterns",
        _cost_and_gain("patterns"),
        "More patterns mean fewer subscribers for each. Strawman suffers, the others gain on it.",
        ("T7.5-a", "T7.5-b"),
    ),
    Figure(
        "7.6",
        "Density of subscribers",
        _cost_and_gain("density"),
        "The denser the subscribers, the shorter every repair and the less is to be gained. Even "
        "with everybody subscribed the optimised protocols win, Informed Link Activation by 40%.",
        ("T7.1-b", "T7.6-a", "T7.6-c", "T7.6-d"),
    ),
    Figure(
        "7.7",
        "Frequency of reconfigurations",
        _cost_and_gain("rate", FOUR, DEFERRED, scale="log"),
        "As reconfigurations overlap they undo each other and cost more, most so for Strawman; at "
        "extreme rates costs fall again. The optimised protocols always win, most at low rates.",
        ("T4-a", "T7.7-a", "T7.7-b", "T7.7-c", "T7.7-d", "T7.7-e", "T7.7-f", "T7.7-g", "T7.7-h"),
    ),
    Figure(
        "7.8",
        "Unsubscription timer, 30 reconfigurations per second",
        _cost_and_gain("unsubscription-timer", FOUR, DEFERRED),
        "A timer shorter than the repair time of 0.1 s is of no use; beyond it the cost drops "
        "sharply. Longer timers help Timed a little, and hurt Informed Link Activation once they "
        "outlast its own subscription timer.",
        ("T6.1-a", "T7.8-a", "T7.8-b", "T7.8-c", "T7.8-d", "T7.8-e", "T7.8-f", "T7.8-g"),
    ),
    Figure(
        "7.9",
        "Subscription timer",
        (
            Panel("subscription-timer", "cost_per_rec", COST, (*DEFERRED, "ILA-no-flush")),
            Panel(
                "subscription-timer-delivery",
                "delivery",
                "delivery to clients that change their minds",
                ("ILA",),
                {"since": 3.0, "until": 7.0, "who": "others"},
                y_from_zero=False,
                y_range=(0.0, 1.0),
            ),
        ),
        "With too short a timer Informed Link Activation behaves like deferred unsubscription. A "
        "longer one never costs messages, but delays those who subscribe meanwhile.",
        ("T6.2-c", "T7.9-a", "T7.9-b", "T7.9-c"),
    ),
    Figure(
        "7.10",
        "Publish rate",
        _cost_and_gain("publish", scale="log"),
        "Misrouted events add to the cost as the load grows: most for Timed, which keeps stale "
        "routes longest, least for Reconfiguration Path. The gain is reduced, never lost.",
        ("T7.10-a", "T7.10-e", "T7.10-g", "T8.1-c"),
    ),
    Figure(
        "7.11",
        "Misrouted events",
        (Panel("publish", "misrouted_per_rec", MISROUTED, FIVE, x_scale="log"),),
        "They grow in proportion to the publish rate. Strawman misroutes next to none.",
        ("T7.10-b", "T7.10-c", "T7.10-d"),
    ),
    Figure(
        "7.12",
        "What the overhead is made of",
        (
            Panel(
                "publish",
                "share_of_cost",
                "share of misrouted events in the cost",
                FIVE,
                {"kinds": ["misrouted"]},
                x_scale="log",
            ),
        ),
        "At one event per second and dispatcher misrouted events are negligible.",
        ("T7.10-a",),
    ),
    Figure(
        "7.13",
        "Overhead and useful traffic",
        (
            _goodput("publish", FIVE, "3 reconfigurations per second"),
            _goodput("publish-high-rate", FOUR, "30 reconfigurations per second"),
        ),
        "At one event per second Strawman spends one message of overhead on two useful ones, "
        "Informed Link Activation one on ten. With fewer events the savings weigh more.",
        ("T7.13-a", "T7.13-b", "T7.13-c", "T7.13-d"),
    ),
    Figure(
        "7.14",
        "Unsubscription timer under load",
        (
            Panel("timer-under-load", "cost_per_rec", COST, DEFERRED),
            Panel("timer-under-load", "misrouted_per_rec", MISROUTED, DEFERRED),
        ),
        "With 50 events per second and dispatcher the step at the repair time shows already at 3 "
        "reconfigurations per second, and longer timers cost Timed misrouted events. FLUSH shields "
        "the others.",
        ("T7.14-a", "T7.14-b", "T7.14-c", "T7.14-d"),
    ),
    Figure(
        "7.15",
        "Against event forwarding",
        (
            Panel(
                "burst",
                "traffic_over_time",
                "messages per second",
                AGAINST,
                x_label="time (s)",
                title="a burst of 15 reconfigurations",
                shade=(5.0, 5.5),
            ),
            Panel(
                "rate-against-events",
                "traffic_rate",
                "messages per second",
                AGAINST,
                {"since": 2.5, "until": 8.0},
                title="by rate",
            ),
        ),
        "On a stable tree event forwarding costs twice as much, even with 80% subscribers. A burst "
        "of reconfigurations can make subscription forwarding dearer for a moment; at reasonable "
        "rates it always wins.",
        ("T7.15-a", "T7.15-b", "T7.15-c"),
    ),
    Figure(
        "7.16",
        "Dispatchers involved, by scale",
        (_involved("scale"), _involved("scale-unbalanced")),
        "Optimised protocols involve less than half the dispatchers that Strawman does, the best "
        "of them 90% fewer, and a share that shrinks as the system grows.",
        ("T7.16-a", "T7.16-b", "T7.16-c", "T7.16-d"),
    ),
    Figure(
        "7.17",
        "Dispatchers involved, by patterns",
        (_involved("patterns"),),
        "Protocols confined to the reconfiguration path involve the same number of dispatchers "
        "whatever the patterns.",
        ("T7.17-a",),
    ),
    Figure(
        "7.18",
        "Dispatchers involved, by density",
        (_involved("density"),),
        "And whatever the density of subscribers.",
        ("T7.17-a",),
    ),
)

PAPER = Paper(
    name="frey-routing",
    title="Publish/subscribe on dynamic trees: five ways to keep routes right",
    citation=f"{THESIS} Parts I and II.",
    experiments=(*OVERHEAD, *EVENTS, *WORKED, *INVARIANTS),
    claims=load_claims(Path(__file__).with_name("frey_routing.claims.yaml")),
    figures=FIGURES,
    variants=LABELS,
)
