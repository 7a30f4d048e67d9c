"""Informed Link Activation, asymmetric: figures 14.1 and 14.2 of the thesis; what P1 and P2 are.

Letters of the figures are numbers here: A 0, B 1, C 2, D 3, X 4. Patterns s1, s2, s3 are 1, 2, 3.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.content import AttributeFilter
from shoal.routing import SubscriptionForwarding
from shoal.routing.reconfiguration import AsymmetricInformed
from shoal.routing.reconfiguration.asymmetric import ActivateBoth
from shoal.simulation import Simulation, parse_config
from shoal.stack import Reconfiguration

BREAK, REPAIR, TIMER = 1.0, 0.1, 0.3
ASYMMETRIC = {
    "name": "informed-asymmetric",
    "unsubscription_timer": TIMER,
    "subscription_timer": TIMER,
}
SYMMETRIC = {"name": "informed", "unsubscription_timer": TIMER, "subscription_timer": TIMER}


class Play:
    """A tree of letters; links are replaced at 1 s, by links that come 0.1 s later."""

    def __init__(
        self,
        links: str,
        wanted: dict[str, int],
        changes: str,
        reconfiguration: dict[str, Any] = ASYMMETRIC,
    ) -> None:
        schedule = []
        for change in changes.split(", "):
            old, _, new = change.partition(" by ")
            schedule.append({"at": BREAK, "old": pair(old), **({"new": pair(new)} if new else {})})
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": 5,
                    "duration": 3.0,
                    "topology": {
                        "name": "abstract-tree",
                        "links": [pair(link) for link in links.split()],
                        "schedule": schedule,
                        "repair_time": REPAIR,
                    },
                    "reconfiguration": reconfiguration,
                    "link": {"delay": 0.001, "bandwidth": 0},
                    "workload": {
                        "script": [
                            {"at": 0, "node": node(n), "do": "subscribe", "patterns": [p]}
                            for n, p in wanted.items()
                        ]
                    },
                    "record": ["messages"],
                }
            )
        )
        self.simulation.run()
        assert self.simulation.wrong_table() is None

    def sent(self, kind: str, hop: str) -> list[tuple[float, list[int]]]:
        """When messages of a kind crossed a link after the break, and which patterns they had."""
        return [
            (time / 1e9, [int(n) for n in re.findall(r"number=(\d+)", text)])
            for time, k, source, target, text in self.simulation.recorder.messages
            if k == kind and "ABCDX"[source] + "ABCDX"[target] == hop and time >= 1e9
        ]

    def patterns(self, kind: str, hop: str) -> list[int]:
        return sorted(pattern for _, patterns in self.sent(kind, hop) for pattern in patterns)


def node(letter: str) -> int:
    return "ABCDX".index(letter)


def pair(link: str) -> list[int]:
    return [node(letter) for letter in link.split("-")]


FIGURE_14_1 = ("A-C A-B B-D", {"A": 1, "B": 2, "D": 3}, "A-B by C-D")
FIGURE_14_2 = ("D-A A-X X-B X-C", {"A": 1, "B": 2, "C": 3})


def test_in_the_symmetric_form_each_end_names_what_only_the_other_wanted() -> None:
    """T14.2-a."""
    play = Play(*FIGURE_14_1, SYMMETRIC)
    assert play.patterns("activate", "AC") == [2, 3]
    assert play.patterns("activate", "BD") == [1]


def test_one_end_knows_what_both_need() -> None:
    """T14.2-b: A sends C both sets, C sends D the second only."""
    play = Play(*FIGURE_14_1)
    assert play.patterns("activate", "AC") == [1, 2, 3]
    assert play.patterns("activate", "CD") == [1]
    assert play.sent("activate", "BD") == []
    assert [m for m in play.simulation.recorder.messages if m[1] == "flush"] == []


def test_with_two_ancestors_nothing_superfluous_crosses_the_new_link() -> None:
    """T14.2-e."""
    play = Play(*FIGURE_14_2, "C-X by C-D, B-X by B-A, A-X")
    assert play.patterns("activate", "CD") == [3]
    assert play.patterns("sub", "CD") == [3]
    assert play.patterns("sub", "DC") == [1, 2]
    assert play.patterns("unsub", "DC") == []


def test_with_a_sibling_one_subscription_is_superfluous_until_the_timer() -> None:
    """T14.2-f: D announces s2 to C, and takes it back after T_u."""
    play = Play(*FIGURE_14_2, "C-X by C-D, B-X by B-C, A-X")
    assert play.patterns("sub", "DC") == [1, 2]
    ((at, patterns),) = play.sent("unsub", "DC")
    assert patterns == [2]
    assert BREAK + TIMER <= at < BREAK + TIMER + 0.01


Subscriptions = st.dictionaries(
    st.integers(0, 11), st.sets(st.integers(0, 5), min_size=1), max_size=8
)


@given(
    st.lists(st.integers(0, 1000), min_size=11, max_size=11),
    st.integers(0, 1000),
    st.integers(0, 1000),
    Subscriptions,
)
def test_p2_is_what_the_other_end_would_have_found(
    parents: list[int], cut: int, pick: int, wanted: dict[int, set[int]]
) -> None:
    """T14.2-c and T14.2-d: in stable conditions, on any tree, for any replacement."""
    links = [(parent % (n + 1), n + 1) for n, parent in enumerate(parents)]
    a, b = links[cut % len(links)]
    rest = [link for link in links if link != (a, b)]
    side = {a}
    for _ in rest:
        side |= {n for link in rest for n in link if side & set(link)}
    near = sorted(side)[pick % len(side)]
    others = sorted(set(range(12)) - side)
    far = others[pick // 7 % len(others)]
    if (near, far) == (a, b):
        return
    simulation = Simulation(
        parse_config(
            {
                "nodes": 12,
                "duration": 2.0,
                "topology": {
                    "name": "abstract-tree",
                    "links": [list(link) for link in links],
                    "schedule": [{"at": BREAK, "old": [a, b], "new": [near, far]}],
                },
                "reconfiguration": ASYMMETRIC,
                "workload": {
                    "script": [
                        {"at": 0, "node": n, "do": "subscribe", "patterns": sorted(patterns)}
                        for n, patterns in wanted.items()
                    ]
                    or [{"at": 0, "node": 0, "do": "subscribe", "patterns": []}]
                },
                "record": ["messages"],
            }
        )
    )
    simulation.run()
    assert simulation.wrong_table() is None
    here = {p for n, patterns in wanted.items() if n in side for p in patterns}
    there = {p for n, patterns in wanted.items() if n not in side for p in patterns}
    carried = {
        (source, target): sorted(int(n) for n in re.findall(r"number=(\d+)", text))
        for _, kind, source, target, text in simulation.recorder.messages
        if kind == "activate"
    }
    assert carried[near, far] == sorted(here - there)
    if near != a:
        assert carried[a, near] == sorted((there - here) | (here - there))


def repair(routing: SubscriptionForwarding) -> AsymmetricInformed:
    found = routing.reconfiguration
    assert isinstance(found, AsymmetricInformed)
    return found


def test_an_end_that_is_never_told_announces_after_all() -> None:
    """The other end of a new link may not know that it replaces one."""
    simulation = Simulation(
        parse_config(
            {
                "nodes": 3,
                "duration": 1.0,
                "topology": {"name": "abstract-tree", "links": [[1, 2]]},
                "reconfiguration": ASYMMETRIC,
                "workload": {
                    "script": [
                        {"at": 0, "node": 0, "do": "subscribe", "patterns": [1]},
                        {"at": 0, "node": 2, "do": "subscribe", "patterns": [2]},
                    ]
                },
            }
        )
    )
    simulation.begin()
    simulation.kernel.run(10**8)
    simulation.network.link_up(0, 1, Reconfiguration(7))
    assert simulation.kernel.run_to_rest(10**10)
    assert simulation.wrong_table() is None


def test_what_is_kept_of_activates_that_come_too_early_has_a_bound() -> None:
    """Anybody may send them, as many as he likes: together they take what one neighbour may."""
    found = Play(*FIGURE_14_1).simulation.network.nodes[node("X")]
    assert found is not None
    assert isinstance(found.routing, SubscriptionForwarding)
    activates = repair(found.routing)
    filters = tuple(AttributeFilter(f"x = {number}") for number in range(100))
    size = sum(filter.size() for filter in filters)
    found.host.neighbour_filter_bytes = 5 * size
    for far in range(10, 30):
        activates.on_activate_both(4, ActivateBoth(filters[:50], far, filters[50:]))
        assert sum(held for _, held in activates.early.values()) <= 5 * size
    assert list(activates.early) == [25, 26, 27, 28, 29]
    activates.on_activate_both(4, ActivateBoth(6 * filters, 40, ()))
    assert not activates.early


@pytest.mark.parametrize("times", [1, 200])
def test_repairs_that_never_end_are_forgotten(times: int) -> None:
    simulation = Simulation(
        parse_config(
            {
                "nodes": 3,
                "topology": {"name": "abstract-tree", "links": [[0, 1], [1, 2]]},
                "reconfiguration": ASYMMETRIC,
            }
        )
    )
    simulation.begin()
    network = simulation.network
    for number in range(times):
        network.link_down(0, 1, Reconfiguration(number))
        network.link_up(0, 1, None)
    found = network.nodes[1]
    assert found is not None
    assert isinstance(found.routing, SubscriptionForwarding)
    assert len(repair(found.routing).lost) == min(times, 64)
