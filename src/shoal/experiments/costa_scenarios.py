"""The scenarios of Costa and Picco 2005, section 4, and those that others build on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shoal.pipeline.paper import load_experiments

START = 0.5
"""When publishing begins: subscriptions are laid by then."""
FILE = Path(__file__).with_name("costa_picco.experiments.yaml")
EXPERIMENTS = load_experiments(FILE)
STATIC, MOVING = EXPERIMENTS["static"].base, EXPERIMENTS["dynamic"].base


def publishing(span: float) -> dict[str, Any]:
    """Publish for a time after everything is in place."""
    return {"duration": START + span, "workload": {"publish_window": [START, START + span]}}
