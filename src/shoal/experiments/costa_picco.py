"""Costa and Picco 2005: semi-probabilistic routing on a graph. Figures 3 to 11, and all claims."""

from __future__ import annotations

from pathlib import Path

from shoal.experiments.costa_scenarios import GRAPH, MOBILE, PHI
from shoal.pipeline.judge.claims import load_claims
from shoal.pipeline.paper import Figure, Panel, Paper

DELIVERY, MESSAGES, PER_EVENT = "deliveries made of those owed", "messages", "messages per event"


def horizons(suffix: str = "") -> tuple[str, ...]:
    """The four curves of most figures."""
    return tuple(f"φ={phi}{suffix}" for phi in PHI)


def _pair(experiment: str, suffix: str = "", title: str = "") -> tuple[Panel, Panel]:
    """The paper's usual pair: delivery above, overhead below."""
    return (
        Panel(experiment, "delivery", DELIVERY, horizons(suffix), title=title),
        Panel(experiment, "messages", MESSAGES, horizons(suffix), title=title),
    )


def _claims(figure: str, *numbers: str) -> tuple[str, ...]:
    return tuple(f"S-F{figure}-{number}" for number in numbers)


_LIMITED = (*horizons(" TTL=14"), *horizons(" dual"), *(f"φ={phi} either" for phi in PHI if phi))

FIGURES = (
    Figure(
        "3",
        "Static network",
        (
            *_pair("static", title="threshold 0.25"),
            *_pair("static", " τ=.5", "threshold 0.5"),
            Panel("static", "ideal_messages", MESSAGES, ("φ=1",), title="the ideal"),
        ),
        "One hop of subscription information doubles delivery, two add a little, three nothing. "
        "Overhead stays near the ideal, far below flooding.",
        _claims("3", "01", "02", "03", "04", "06", "07", "08", "09", "10", "11", "12", "13", "14"),
    ),
    Figure(
        "4",
        "A higher fanout",
        _pair("fanout"),
        "With nine links and two of them used, horizon 1 delivers everything, the others nearly.",
        _claims("4", "01", "03", "04"),
    ),
    Figure(
        "5",
        "The event propagation threshold",
        (
            Panel("threshold", "delivery", DELIVERY),
            Panel("threshold", "messages", MESSAGES, y_scale="log"),
        ),
        "A little subscription information reaches at a threshold of 0.2 what chance alone reaches "
        "at 0.5, for a quarter of the messages.",
        _claims("5", "01", "02", "03", "04", "05", "06"),
    ),
    Figure(
        "6",
        "Routes",
        (
            Panel("static", "route_length", "links crossed", (*horizons(), "FL")),
            Panel("static", "deterministic_share", "share of deterministic hops", horizons()),
        ),
        "Flooding has the shortest routes, chance alone the longest. The farther subscriptions "
        "travel, the more hops follow them.",
        _claims("6", "01", "02", "04", "05", "06"),
    ),
    Figure(
        "7",
        "Dynamic network, a reconfiguration every 0.03 s",
        (
            *_pair("dynamic"),
            Panel(
                "settled",
                "delivery",
                DELIVERY,
                ("φ=0", "φ=0 frozen", "φ=1", "φ=1 frozen"),
                title="goes on, or stands still after 10 s",
            ),
        ),
        "Reconfiguration does not hurt; it helps, most of all where chance decides. (The graph "
        "frozen after ten seconds delivers the same: it is the mix of degrees that helps.)",
        _claims("7", "01", "02", "03", "05"),
    ),
    Figure(
        "8",
        "Time to live",
        _pair("ttl"),
        "A TTL of 14 keeps delivery for horizons above 0 and saves up to a third of the messages.",
        _claims("8", "01", "02", "03", "05"),
    ),
    Figure(
        "9",
        "Two times to live",
        (
            Panel(
                "settled",
                "delivery_over_time",
                DELIVERY,
                ("φ=1 dual", "φ=2 dual", "φ=3 dual"),
                x_label="time of publication (s)",
                title="TTL_d = 10, TTL_p = 8",
            ),
            Panel("moving", "messages", MESSAGES, _LIMITED, title="beside one TTL of 14"),
            Panel("moving", "delivery", DELIVERY, _LIMITED, title="beside one TTL of 14"),
        ),
        "Separate limits make horizon 1 the cheapest. Delivery is steady over time. (Dual: each "
        "TTL stops its own kind of hop. Either: one that is used up stops both, as printed.)",
        _claims("9", "01", "02", "03", "04", "05", "06", "07", "08"),
    ),
    Figure(
        "10",
        "Ten receivers in a growing network",
        (
            Panel("receivers", "delivery", DELIVERY),
            Panel("receivers", "messages_per_event", PER_EVENT),
        ),
        "A high threshold saturates the network. A low one, steered by subscriptions, finds the "
        "few receivers with messages that grow well below the size.",
        _claims("10", "01", "02", "03", "05", "06"),
    ),
    Figure(
        "11",
        "Moving radios",
        (
            Panel("mobile", "delivery", DELIVERY, title="TTL_p = 12, TTL_d = 8"),
            Panel("mobile", "messages", MESSAGES, title="TTL_p = 12, TTL_d = 8"),
            Panel("mobile-printed", "delivery", DELIVERY, title="as printed"),
        ),
        "Chance with a threshold of 0.5 delivers nearly 90%; a quarter and one hop of subscription "
        "information do the same for a third of the messages.",
        (
            *_claims("11", "01", "02", "03", "04", "05", "06", "07"),
            *(f"S-F11-T{tau}-{phi}" for tau in (25, 50) for phi in PHI),
        ),
    ),
)

LABELS = {
    "FL": "flooding",
    "φ=0": "purely probabilistic",
    "φ=1": "subscriptions travel one hop",
    "φ=2": "subscriptions travel two hops",
    "φ=3": "subscriptions travel three hops",
}

PAPER = Paper(
    name="costa-picco",
    title="Semi-probabilistic routing: nearby subscriptions, and chance beyond",
    citation=(
        "Paolo Costa, Gian Pietro Picco: Semi-probabilistic Content-Based Publish-Subscribe. "
        "25th International Conference on Distributed Computing Systems, 2005."
    ),
    experiments=(*GRAPH, *MOBILE),
    claims=load_claims(Path(__file__).with_name("costa_picco.claims.yaml")),
    figures=FIGURES,
    variants=LABELS,
)
