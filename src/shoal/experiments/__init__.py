"""One module per paper: its scenarios, its figures and what it claims.

A paper's module has a ``PAPER``; :func:`papers` finds them all, :func:`find_paper` one by the name
it has on the command line. What is listed and not computed stands beside the module, in
``NAME.experiments.yaml``, ``NAME.figures.yaml`` and ``NAME.claims.yaml``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from shoal.stack.registry import suggestion

if TYPE_CHECKING:
    from shoal.pipeline.paper import Paper

MODULES = {
    "adaptive": "shoal.experiments.adaptive",
    "costa-picco": "shoal.experiments.costa_picco",
    "dps": "shoal.experiments.dps",
    "frey-manet": "shoal.experiments.frey_manet",
    "frey-overlays": "shoal.experiments.frey_overlays",
    "frey-p2p": "shoal.experiments.frey_p2p",
    "frey-routing": "shoal.experiments.frey_routing",
    "recovery": "shoal.experiments.recovery",
    "shopparent": "shoal.experiments.shopparent",
}
"""Papers by name. Loaded when asked for: the command line's help must not wait for Spark."""


def find_paper(name: str) -> Paper:
    """The paper of that name; an unknown one is an error that says what there is."""
    from shoal.pipeline.errors import PipelineError

    if name not in MODULES:
        alike = [known for known in MODULES if name and name in known]
        if len(alike) > 1:
            raise PipelineError(f"'{name}' may be {' or '.join(alike)}", "name one, or several")
        if alike:
            raise PipelineError(f"unknown paper '{name}'", f"did you mean '{alike[0]}'?")
        raise PipelineError(
            f"unknown paper '{name}'{suggestion(name, list(MODULES))}", "name one of them"
        )
    paper: Paper = import_module(MODULES[name]).PAPER
    return paper


def papers() -> list[Paper]:
    """All papers."""
    return [find_paper(name) for name in MODULES]
