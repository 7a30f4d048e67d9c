"""All stacks there are; random histories, and shorter ones that fail as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.simulation.chaos.air import AirHistory, air_ground
from shoal.simulation.chaos.dps import DpsHistory
from shoal.simulation.chaos.history import History, ImpossibleStep, Subject, failure
from shoal.simulation.chaos.mesh import MeshHistory, mesh_ground
from shoal.simulation.chaos.recovery import RecoveryHistory, recovery_ground
from shoal.simulation.chaos.tree import TreeHistory, tree_ground
from shoal.stack import Chance, StackError, protocols
from shoal.stack.registry import Choice, build, find

VARIANTS = {
    "dps": (
        "traversal=generic",
        "communication=epidemic",
        "traversal=generic communication=epidemic",
    )
}
"""Per routing the parameters that make another protocol of it."""


def subjects() -> list[Subject]:
    """Every stack of registered protocols that can be built."""
    found = []
    repairs = ["", *(protocol.name for protocol in protocols("reconfiguration"))]
    for overlay in (*(protocol.name for protocol in protocols("overlay")), ""):
        for routing in protocols("routing"):
            for repair in repairs:
                subject = Subject(overlay, routing.name, repair)
                if _can_be(subject):
                    found.append(subject)
                    found += [subject._replace(variant=v) for v in VARIANTS.get(routing.name, ())]
                    if "covering" in routing.parameters.__struct_fields__:
                        found.append(subject._replace(covering=True))
    return found


def recovery_subjects() -> list[Subject]:
    """Every recovery on every overlay and routing, with one way to repair tables.

    Links that people configure are left out: those of a given tree or graph stand for them. So are
    overlays on the air, whose radios lose events in histories of their own.
    """
    return [
        subject._replace(recovery=recovery.name)
        for subject in subjects()
        for recovery in protocols("recovery")
        if subject.overlay != "links"
        and _topology(subject) != "air"
        and subject.reconfiguration in ("", "strawman")
        and subject[3:5] == (False, "")
    ]


def _can_be(subject: Subject) -> bool:
    overlay, routing, repair = (Choice(name) if name else None for name in subject[:3])
    assert routing is not None
    if overlay and not find("overlay", overlay.name).needs & {"links", "reach", "air"}:
        return False  # it stands on something else than a simulated network
    try:
        build(overlay, routing, repair, topology=Choice(_topology(subject)))
    except StackError:
        return False
    return True


def _topology(subject: Subject) -> str:
    """The ground that a subject's overlay stands on."""
    needs = _needs(subject)
    return "abstract-tree" if "links" in needs else "air" if "air" in needs else "full-mesh"


def _needs(subject: Subject) -> frozenset[str]:
    return find("overlay", subject.overlay).needs if subject.overlay else frozenset()


def begin(subject: Subject, seed: int) -> History:
    """A small random network with a stack on it."""
    topology = _topology(subject)
    if subject.recovery:
        ground = recovery_ground(seed, subject)
    elif topology == "full-mesh":
        ground = mesh_ground(seed, "notice" in _needs(subject))
    else:
        ground = tree_ground(seed) if topology == "abstract-tree" else air_ground(seed)
    return play(subject, ground, [])


def play(subject: Subject, ground: Mapping[str, Any], log: list[str]) -> History:
    """The network after the steps of a log."""
    makers: dict[str, type[TreeHistory | AirHistory | MeshHistory | RecoveryHistory]]
    makers = {"abstract-tree": TreeHistory, "air": AirHistory, "full-mesh": MeshHistory}
    make = makers[_topology(subject)]
    if subject.recovery:
        make = RecoveryHistory
    elif subject.routing == "dps":
        make = DpsHistory
    history = make(subject, dict(ground))
    for line in log:
        history.step(line)
    return history


def replay(history: History, log: list[str]) -> History:
    """A network that begins as another did, after the steps of a log."""
    return play(history.subject, history.ground, log)


def trial(subject: Subject, seed: int, steps: int = 40) -> tuple[History, str | None]:
    """One random history, from its seed, and what the oracle objects to."""
    history = begin(subject, seed)
    return history, failure(history, random_steps(history, seed, steps))


def random_steps(history: History, seed: int, count: int) -> Iterator[str]:
    """Steps that make sense in the state the network is in, drawn one after the other."""
    chance = Chance(seed, "chaos")
    for k in range(count):
        line = history.draw(chance, k)
        if line is not None:
            yield line


def shrink(history: History) -> list[str]:
    """The log of a failing history with steps left out as long as it still fails."""
    log = list(history.log)
    size = max(1, len(log) // 2)
    while size:
        at = 0
        while at < len(log):
            shorter = log[:at] + log[at + size :]
            if _still_fails(history, shorter):
                log = shorter
            else:
                at += size
        size //= 2
    return log


def _still_fails(history: History, log: list[str]) -> bool:
    try:
        return failure(replay(history, []), log) is not None
    except ImpossibleStep:
        return False


def describe(history: History, log: list[str]) -> dict[str, Any]:
    """Everything needed to replay a history, as plain data."""
    return {**history.subject._asdict(), **history.ground, "steps": log}


def read(data: Mapping[str, Any]) -> tuple[Subject, dict[str, Any], list[str]]:
    """The stack, ground and steps of a history that was described."""
    rest = dict(data)
    subject = Subject(**{name: rest.pop(name) for name in Subject._fields if name in rest})
    steps = [str(step) for step in rest.pop("steps")]
    return subject, rest, steps
