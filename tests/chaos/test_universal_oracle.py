"""After any overlapping changes, once quiet, tables and deliveries are exactly the oracle's.

Hypothesis drives every protocol × strategy; a failure shrinks to a short log of steps and prints
the command that replays it.
"""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from shoal.routing import SubscriptionForwarding
from shoal.routing.reconfiguration import Timed
from shoal.simulation import chaos
from shoal.simulation.chaos import DOMAIN, Chaos
from shoal.simulation.invariants import InvariantViolation
from shoal.simulation.topology import adjacency, distances
from shoal.stack import Chance

STACKS = chaos.stacks()
EXAMPLES = int(os.environ.get("SHOAL_CHAOS_EXAMPLES", "25"))

constants = st.integers(0, DOMAIN - 1)
filters = st.builds("x {} {}".format, st.sampled_from([">", "<", "=", ">="]), constants)


class Trouble(RuleBasedStateMachine):
    """Random steps; at the end the network must be as the oracle says."""

    stack: tuple[str, str, bool]

    @initialize(parents=st.lists(st.integers(0, 1_000), min_size=2, max_size=8))
    def start(self, parents: list[int]) -> None:
        links = [(parent % (n + 1), n + 1) for n, parent in enumerate(parents)]
        self.chaos = Chaos(*self.stack, len(parents) + 1, links)

    @rule(node=st.integers(0, 1_000), filter=filters)
    def subscribe(self, node: int, filter: str) -> None:
        self.step(f"subscribe {node % self.chaos.nodes} {filter}")

    @precondition(lambda self: any(self.chaos.subscribed))
    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        held = [(n, f) for n, filters in enumerate(self.chaos.subscribed) for f in filters]
        node, filter = data.draw(st.sampled_from(held))
        self.step(f"unsubscribe {node} {filter}")

    @precondition(lambda self: self.stack[0] == "advertisement-forwarding")
    @rule(node=st.integers(0, 1_000), filter=filters)
    def advertise(self, node: int, filter: str) -> None:
        self.step(f"advertise {node % self.chaos.nodes} {filter}")

    @precondition(lambda self: self.stack[0] != "advertisement-forwarding")
    @rule(node=st.integers(0, 1_000), value=constants)
    def publish(self, node: int, value: int) -> None:
        self.step(f"publish {node % self.chaos.nodes} x={value}")

    @precondition(lambda self: self.chaos.live)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        a, b = data.draw(st.sampled_from(list(self.chaos.live)))
        left, right = self.chaos.sides((a, b))
        c, d = data.draw(st.sampled_from(left)), data.draw(st.sampled_from(right))
        if (a, b) != (c, d):
            self.step(f"replace {a}-{b} by {c}-{d}")

    @rule(milliseconds=st.integers(1, 120))
    def wait(self, milliseconds: int) -> None:
        self.step(f"wait {milliseconds / 1000}")

    @invariant()
    def acyclic(self) -> None:
        if hasattr(self, "chaos"):
            hosts = self.chaos.simulation.network.hosts
            edges = {tuple(sorted((h.node, n))) for h in hosts for n in h.channels}
            parts, seen = 0, set[int]()
            for node in range(self.chaos.nodes):
                if node not in seen:
                    parts += 1
                    seen |= set(distances(adjacency(self.chaos.nodes, edges), node))  # type: ignore[arg-type]  # pairs
            assert len(edges) == self.chaos.nodes - parts

    def step(self, line: str) -> None:
        with explained(self.chaos):
            self.chaos.step(line)

    def teardown(self) -> None:
        if hasattr(self, "chaos"):
            with explained(self.chaos):
                self.chaos.check()


class explained:  # noqa: N801  # reads as a word in a with statement
    """Adds the command that replays it to what the oracle objects to."""

    def __init__(self, chaos: Chaos) -> None:
        self.chaos = chaos

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, InvariantViolation):
            text = json.dumps(chaos.describe(self.chaos, self.chaos.log))
            raise AssertionError(f"{error}\nreplay: shoal chaos --replay '{text}'") from error


@pytest.mark.parametrize("stack", STACKS, ids=lambda s: f"{s[0]}-{s[1]}{'-covering' * s[2]}")
def test_tables_and_deliveries_equal_the_oracles_once_quiet(stack: tuple[str, str, bool]) -> None:
    machine = type("Machine", (Trouble,), {"stack": stack})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("stack", STACKS, ids=lambda s: f"{s[0]}-{s[1]}{'-covering' * s[2]}")
def test_seeded_histories(stack: tuple[str, str, bool]) -> None:
    for seed in range(40):
        history = chaos.trial(stack, seed)
        found = chaos.failure(history)
        assert found is None, f"seed {seed}: {found}; shrunk: {chaos.shrink(history)}"


# The harness must be able to fail: protocols broken on purpose are caught.


def first_failure(stack: tuple[str, str, bool]) -> str | None:
    for seed in range(200):
        try:
            found = chaos.failure(chaos.trial(stack, seed))
        except (InvariantViolation, KeyError) as error:
            found = str(error)
        if found:
            return found
    return None


def interpreted(name: str) -> bool:
    """Compiled methods cannot be patched."""
    import shoal.routing.subscription_forwarding as module

    return str(module.__file__).endswith(".py")


def test_a_protocol_that_forgets_to_unsubscribe_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(self: Timed, key: int) -> None:
        self.pending.pop(key)

    monkeypatch.setattr(Timed, "expire", lose)
    found = first_failure(("subscription-forwarding", "timed", False))
    assert found is not None
    assert "not due" in found


def test_a_protocol_that_drops_an_activation_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from shoal.routing.reconfiguration import Informed

    monkeypatch.setattr(Informed, "release", lambda self, tagged: None)
    found = first_failure(("subscription-forwarding", "informed", False))
    assert found is not None
    assert "missing" in found


@pytest.mark.skipif(not interpreted("covering"), reason="compiled methods cannot be patched")
def test_covering_without_uncovering_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SubscriptionForwarding, "uncover", lambda self, neighbour, gone: None)
    found = first_failure(("subscription-forwarding", "strawman", True))
    assert found is not None
    assert "missing" in found


def test_overlapping_repairs_break_reconfiguration_path() -> None:
    """Frey, section 8.1: it does not tolerate overlap; allowed to try, the harness sees it."""
    for seed in range(100):
        history = chaos.new_chaos(("subscription-forwarding", "path", False), seed)
        history.overlaps = True
        chance = Chance(seed, "chaos")
        try:
            for line in chaos.random_steps(history, chance, 40):
                history.step(line)
            if chaos.failure(history):
                return
        except InvariantViolation:
            return
    pytest.fail("no overlap broke Reconfiguration Path in 100 histories")


def test_a_failing_history_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(self: Timed, key: int) -> None:
        self.pending.pop(key)

    monkeypatch.setattr(Timed, "expire", lose)
    for seed in range(200):
        history = chaos.trial(("subscription-forwarding", "timed", False), seed)
        if chaos.failure(history):
            short = chaos.shrink(history)
            assert len(short) <= len(history.log) // 2
            again = chaos.replay(history.stack, history.nodes, history.links, short)
            assert chaos.failure(again)
            return
    pytest.fail("nothing to shrink")
