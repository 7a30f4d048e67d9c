"""The thesis's worked examples (figures 5.4, 5.5, 6.4), message by message.

A test carries the id of the claim it checks.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest

from shoal.content import Filter
from shoal.simulation import Simulation, parse_config
from shoal.stack import LOCAL

GRAY = 0
BREAK = 1.0
T_REP, T_U, T_S = 0.1, 0.15, 0.15
PROTOCOLS: dict[str, dict[str, Any]] = {
    "SM": {"name": "strawman"},
    "TDU": {"name": "timed", "unsubscription_timer": T_U},
    "NDU": {"name": "notified", "unsubscription_timer": T_U},
    "ILA": {"name": "informed", "unsubscription_timer": T_U, "subscription_timer": T_S},
    "RP": {"name": "path"},
}


class Story:
    """A small tree with letters for names; A-B is replaced by C-D at t = 1 s."""

    def __init__(
        self,
        protocol: str,
        links: str,
        subscribers: str,
        replace: str = "A-B by C-D",
        acts: tuple[dict[str, Any], ...] = (),
        **parameters: Any,
    ) -> None:
        pairs = [pair.split("-") for pair in links.split()]
        self.names = sorted({name for pair in pairs for name in pair})
        number = self.names.index
        old, new = (text.split("-") for text in replace.split(" by "))
        script = [self.act(0.0, s, "subscribe") for s in subscribers.split()]
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": len(self.names),
                    "duration": 2.0,
                    "topology": {
                        "name": "abstract-tree",
                        "links": [[number(a), number(b)] for a, b in pairs],
                        "schedule": [
                            {
                                "at": BREAK,
                                "old": [number(old[0]), number(old[1])],
                                "new": [number(new[0]), number(new[1])],
                            }
                        ],
                    },
                    "reconfiguration": {**PROTOCOLS[protocol], **parameters},
                    "link": {"delay": 0.001, "bandwidth": 0},
                    "workload": {"script": [*script, *acts]},
                    "record": ["messages", "traffic", "notes"],
                }
            )
        )
        self.before = dict[str, set[tuple[str, Filter]]]()
        self.simulation.kernel.call_at(999_999_999, self._remember)
        self.simulation.run()

    def act(self, at: float, node: str, do: str, pattern: int = GRAY) -> dict[str, Any]:
        return {"at": at, "node": self.names.index(node), "do": do, "patterns": [pattern]}

    def _remember(self) -> None:
        self.before = self.tables()

    def tables(self) -> dict[str, set[tuple[str, Filter]]]:
        return {
            self.names[number]: {
                ("LOCAL" if source == LOCAL else self.names[source], filter)
                for source, filter in node.routing.table.entries()  # type: ignore[union-attr]  # all have tables
            }
            for number, node in enumerate(self.simulation.network.nodes)
        }

    def sent(self, *kinds: str) -> list[str]:
        """What was sent from the break on, as ``C->D`` in order."""
        return [
            f"{self.names[source]}->{self.names[target]}"
            for time, kind, source, target, _ in self.simulation.recorder.messages
            if time >= BREAK * 1e9 and kind in kinds
        ]

    def times(self, kind: str, hop: str) -> list[float]:
        return [
            time / 1e9
            for time, k, source, target, _ in self.simulation.recorder.messages
            if k == kind and f"{self.names[source]}->{self.names[target]}" == hop and time >= 1e9
        ]

    def patterns_in(self, kind: str, hop: str) -> list[int]:
        """The patterns that messages of a kind carried over a hop."""
        return [
            len(re.findall(r"number=", text))
            for time, k, source, target, text in self.simulation.recorder.messages
            if k == kind and f"{self.names[source]}->{self.names[target]}" == hop and time >= 1e9
        ]

    def changes(self) -> tuple[set[str], set[str]]:
        """Entries added and removed, as ``node->next``."""
        after = self.tables()
        added = {f"{n}->{s}" for n in self.names for s, _ in after[n] - self.before[n]}
        removed = {f"{n}->{s}" for n in self.names for s, _ in self.before[n] - after[n]}
        return added, removed

    def check(self) -> Story:
        assert self.simulation.wrong_table() is None
        return self


FIGURE_5_4: dict[str, Any] = {"links": "S-A A-C A-B B-D", "subscribers": "S"}
FIGURE_5_5: dict[str, Any] = {"links": "A-E E-F F-C A-B B-G G-D", "subscribers": "E D"}


def test_t5_2_j_strawman_in_figure_5_4() -> None:
    story = Story("SM", **FIGURE_5_4).check()
    assert story.sent("unsub") == ["B->D"]
    assert story.sent("sub") == ["C->D", "D->B"]


@pytest.mark.parametrize("protocol", ["TDU", "NDU"])
def test_t5_2_i_deferred_unsubscription_announces_too_much_in_figure_5_4(protocol: str) -> None:
    story = Story(protocol, **FIGURE_5_4).check()
    assert Counter(story.sent("sub")) == Counter(["C->D", "D->B", "D->C", "C->A", "A->S"])
    assert len(story.sent("unsub")) == 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_t5_2_l_entries_changed_in_figure_5_5(protocol: str) -> None:
    added, removed = Story(protocol, **FIGURE_5_5).check().changes()
    assert added == {"E->F", "F->C", "C->D", "D->C"}
    assert removed == {"A->B", "B->A", "E->A", "G->B", "D->G"}


def test_t6_2_a_informed_announces_nothing_in_vain_in_figure_5_4() -> None:
    story = Story("ILA", **FIGURE_5_4).check()
    assert Counter(story.sent("sub")) == Counter(["C->D", "D->B"])
    assert story.patterns_in("activate", "B->D") == [1]
    assert story.patterns_in("activate", "A->C") == [0]
    assert len(story.sent("unsub")) == 1  # 2 in the literal pseudo-code


def with_late_subscriber(**parameters: Any) -> Story:
    links = "S-A A-C A-B B-D D-T"
    late = {"at": BREAK + 0.11, "node": 5, "do": "subscribe", "patterns": [GRAY]}
    return Story("ILA", links, "S", acts=(late,), **parameters)


def test_t6_2_b_a_held_back_subscription_is_released_by_the_timer_in_figure_6_4() -> None:
    # Without FLUSH the stale route D->B still stands when T subscribes.
    story = with_late_subscriber(flush=False).check()
    (released,) = story.times("sub", "D->C")
    assert released == pytest.approx(BREAK + T_REP + T_S, abs=0.005)


@pytest.mark.parametrize("protocol", ["TDU", "NDU", "ILA", "RP"])
def test_t6_1_b_a_shared_end_never_announces_what_lies_behind_the_broken_link(
    protocol: str,
) -> None:
    story = Story(protocol, "S-A A-C A-B B-E", "S", replace="A-B by C-B").check()
    assert story.sent("sub").count("B->C") == 0


@pytest.mark.parametrize("protocol", ["TDU", "NDU"])
def test_t6_1_c_a_detached_leaf_forgets_at_once(protocol: str) -> None:
    story = Story(protocol, "S-A A-C A-B", "S B", replace="A-B by C-B").check()
    leaf = story.names.index("B")
    notes = [n for n in story.simulation.recorder.notes if n[1] == leaf and n[2] == "unsubscribing"]
    assert notes == []
    assert [hop for hop in story.sent("unsub") if hop.startswith("B->")] == []


def test_t6_3_b_one_rec_per_hop_one_recack_per_head_hop_in_figure_5_5() -> None:
    story = Story("RP", **FIGURE_5_5).check()
    assert story.sent("rec") == ["A->E", "E->F", "F->C", "C->D", "D->G", "G->B"]
    assert sorted(story.sent("recack")) == ["C->F", "E->A", "F->E"]


def test_t6_3_c_what_rec_carries_in_figure_5_5() -> None:
    recs = [
        (m[4].split("delete=")[0].count("number="), m[4].split("delete=")[1].count("number="))
        for m in Story("RP", **FIGURE_5_5).simulation.recorder.messages
        if m[1] == "rec"
    ]
    assert [add for add, _ in recs] == [1, 1, 1, 1, 0, 0]
    deleted = [delete for _, delete in recs]
    assert deleted == sorted(deleted, reverse=True)
    assert deleted[3:] == [0, 0, 0]


def test_t6_3_e_an_unsubscription_that_races_rec_on_the_head_is_ignored() -> None:
    """E unsubscribes after A handled REC and before E receives it."""
    late = {"at": BREAK + T_REP + 0.0005, "node": 4, "do": "unsubscribe", "patterns": [GRAY]}
    story = Story("RP", **FIGURE_5_5, acts=(late,)).check()
    assert ("E", next(iter(story.tables()["D"]))[1]) in story.tables()["A"]


def test_t6_3_f_changes_beyond_the_new_link_are_reconciled() -> None:
    """While REC walks the head, D drops the old pattern and takes a new one."""
    acts = (
        {"at": BREAK + T_REP + 0.0015, "node": 3, "do": "unsubscribe", "patterns": [GRAY]},
        {"at": BREAK + T_REP + 0.0015, "node": 3, "do": "subscribe", "patterns": [7]},
    )
    Story("RP", **FIGURE_5_5, acts=acts).check()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_t7_1_d_pure_splits_and_merges_are_alike(protocol: str) -> None:
    def messages(name: str) -> Counter[str]:
        simulation = Simulation(
            parse_config(
                {
                    "nodes": 6,
                    "duration": 3.0,
                    "topology": {
                        "name": "abstract-tree",
                        "links": [[0, 1], [1, 2], [3, 4], [4, 5]],
                        "schedule": [{"at": 1.0, "new": [2, 3]}, {"at": 2.0, "old": [1, 2]}],
                    },
                    "reconfiguration": PROTOCOLS[name],
                    "workload": {
                        "script": [
                            {"at": 0, "node": 0, "do": "subscribe", "patterns": [1, 2]},
                            {"at": 0, "node": 5, "do": "subscribe", "patterns": [2, 3]},
                        ]
                    },
                    "record": ["messages"],
                }
            )
        )
        simulation.run()
        assert simulation.wrong_table() is None
        return Counter(
            f"{source}->{target} {text}"
            for time, kind, source, target, text in simulation.recorder.messages
            if time >= 1e9 and kind in ("sub", "unsub")
        )

    assert messages(protocol) == messages("SM")


def test_t6_1_a_a_zero_timer_is_strawman() -> None:
    def trace(reconfiguration: dict[str, Any]) -> list[tuple[int, str, int, int, str]]:
        simulation = Simulation(
            parse_config(
                {
                    "nodes": 30,
                    "seed": 4,
                    "topology": {"name": "abstract-tree", "rate": 3},
                    "reconfiguration": reconfiguration,
                    "workload": {"publish_rate": 0.0},
                    "record": ["messages"],
                }
            )
        )
        simulation.run()
        return [m for m in simulation.recorder.messages if m[1] != "flush"]

    strawman = trace({"name": "strawman"})
    assert trace({"name": "timed", "unsubscription_timer": 0}) == strawman
    notified = {"name": "notified", "unsubscription_timer": 0, "flush": False}
    assert trace(notified) == strawman
