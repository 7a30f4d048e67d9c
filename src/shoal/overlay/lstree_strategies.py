"""The strategies of LSTree, and instances as their sequences (Frey, section 10.3, Table 10.2).

==  ==============  ===============================================================================
R   Regional        ancestors and siblings; which of the two is drawn with ``ancestor_probability``
A   AncestorChain   ancestors only (Overcast)
D   Downstream      children that full candidates named when they refused
U   Upstream        parents that leaves named when they refused
m   BreakMinDegree  leaves that refused, asked again with the limit lifted
G   Global          nodes anywhere
M   BreakMaxDegree  full candidates that refused, asked again with the limit lifted
==  ==============  ===============================================================================

A candidate comes from the first strategy of the sequence that has one.
"""

from __future__ import annotations

from shoal.stack.registry import StackError

REGIONAL, ANCESTORS, DOWNSTREAM, UPSTREAM = "R", "A", "D", "U"
BREAK_MIN, GLOBAL, BREAK_MAX, CONTACTS = "m", "G", "M", "C"

NAMES = {
    REGIONAL: "Regional",
    ANCESTORS: "AncestorChain",
    DOWNSTREAM: "Downstream",
    UPSTREAM: "Upstream",
    BREAK_MIN: "BreakMinDegree",
    GLOBAL: "Global",
    BREAK_MAX: "BreakMaxDegree",
    CONTACTS: "Contacts",
}
"""Contacts, to begin with, come last, after all that an instance names."""


def check_sequence(instance: str, max_degree: int, min_degree: int) -> None:
    """Refuse an instance whose searches cannot begin, or cannot end with a parent."""
    for step in instance:
        if step not in NAMES or step == CONTACTS:
            known = ", ".join(f"{k} ({v})" for k, v in NAMES.items() if k != CONTACTS)
            raise StackError(f"instance '{instance}': unknown strategy '{step}'; known: {known}")
        if instance.count(step) > 1:
            raise StackError(
                f"instance '{instance}': {NAMES[step]} comes twice; a strategy that has no "
                "candidate left is skipped, so once is enough"
            )
    if not set(instance) & {REGIONAL, ANCESTORS, GLOBAL}:
        raise StackError(
            f"instance '{instance}' cannot begin a search: the other caches fill with refusals "
            "only; add R (Regional), A (AncestorChain) or G (Global)"
        )
    if max_degree == 1:
        raise StackError("max_degree = 1 leaves no room for a child beside the parent; give 2")
    if max_degree and BREAK_MAX not in instance:
        raise StackError(
            f"instance '{instance}' cannot end: all candidates may have max_degree = {max_degree} "
            "neighbours, and nothing lifts the limit; add M (BreakMaxDegree), or set max_degree = 0"
        )
    if not max_degree and set(instance) & {DOWNSTREAM, BREAK_MAX}:
        raise StackError(
            f"instance '{instance}': D and M need candidates that refuse because they are full; "
            "leave them out, or set max_degree"
        )
    if (UPSTREAM in instance) and (BREAK_MIN not in instance):
        raise StackError(
            f"instance '{instance}': U needs leaves that refuse, which they do where m "
            "(BreakMinDegree) can lift the limit; add m, or leave U out"
        )
    if BREAK_MIN in instance and max_degree and min_degree > max_degree:
        raise StackError(
            f"min_degree = {min_degree} is above max_degree = {max_degree}: every node would "
            "refuse; lower it"
        )
