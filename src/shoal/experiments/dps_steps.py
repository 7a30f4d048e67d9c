"""What the scenarios of Anceaume et al. 2006 have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shoal.pipeline.paper import load_experiments
from shoal.pipeline.plan.experiment import merge

LISTED = load_experiments(Path(__file__).with_name("dps.experiments.yaml"))
"""The scenarios of section 5.2, by name."""
FOUR: Mapping[str, Any] = LISTED["load"].variants
"""The four systems: traversal from the root or generic, leaders or epidemic communication."""
ROOT_LEADER = FOUR["root leader"]


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """The first with what each of the others says."""
    whole: dict[str, Any] = {}
    for part in parts:
        whole = merge(whole, part)
    return whole
