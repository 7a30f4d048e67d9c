"""Small trees and what happens on them, one line of text per step.

>>> story = Story("A-B B-C")
>>> story.step("A subscribes 1")
['sub A->B', 'sub B->C']
>>> story.step("C publishes 1")
['event C->B', 'event B->A']

Every step runs until nothing is going on, and answers with the messages it caused.
"""

from __future__ import annotations

from typing import Any

from shoal.content import Event, Pattern, Patterns
from shoal.simulation import Simulation, parse_config
from shoal.simulation.columns import to_tables
from shoal.simulation.kernel import to_ns
from shoal.stack import LOCAL, Reconfiguration

STRAWMAN: dict[str, Any] = {"reconfiguration": {"name": "strawman"}}
EVENT_FORWARDING: dict[str, Any] = {"routing": {"name": "event-forwarding"}}


class Story:
    """A tree of nodes with letters for names, drawn as its links."""

    def __init__(self, tree: str, stack: dict[str, Any] | None = None, **more: Any) -> None:
        pairs = [tuple(link.split("-")) for link in tree.split()]
        self.names = sorted({name for pair in pairs for name in pair})
        self.simulation = Simulation(
            parse_config(
                {
                    "nodes": len(self.names),
                    "topology": {
                        "name": "abstract-tree",
                        "links": [[self.node(a), self.node(b)] for a, b in pairs],
                    },
                    "workload": {
                        "script": [{"at": 0, "node": 0, "do": "subscribe", "patterns": []}]
                    },
                    "record": ["messages", "deliveries", "traffic", "publications"],
                    **(STRAWMAN if stack is None else stack),
                    **more,
                }
            )
        )
        self.simulation.run()
        self.published = dict.fromkeys(range(len(self.names)), 0)
        self.repairs = 0

    def node(self, name: str) -> int:
        return self.names.index(name)

    def step(self, line: str) -> list[str]:
        """Play one line; the messages that were sent, in order."""
        messages = self.simulation.recorder.messages
        before = len(messages)
        self._act(*line.split())
        kernel = self.simulation.kernel
        assert kernel.run_to_rest(kernel.now + to_ns(60))
        names = self.names
        return [f"{kind} {names[a]}->{names[b]}" for _, kind, a, b, _ in messages[before:]]

    def tell(self, *lines: str) -> list[str]:
        """Play several lines; all messages."""
        return [message for line in lines for message in self.step(line)]

    def _act(self, who: str, does: str, what: str = "") -> None:
        simulation = self.simulation
        if does in ("subscribes", "unsubscribes"):
            for number in what.split(","):
                simulation.subscription(self.node(who), Pattern(int(number)), does == "subscribes")
        elif does == "publishes":
            node = self.node(who)
            numbers = tuple(int(n) for n in what.split(","))
            simulation.publication(Event(node, self.published[node], Patterns(numbers)))
            self.published[node] += 1
        elif does == "crashes":
            simulation.topology._crash(self.node(who))
        elif does == "breaks":
            simulation.topology.break_link(*self._link(who), None)
        elif does == "appears":
            simulation.topology._up(*self._link(who), None)
        elif does == "becomes":
            self.repairs += 1
            reconfiguration = Reconfiguration(self.repairs)
            simulation.topology.break_link(*self._link(who), reconfiguration)
            kernel = simulation.kernel
            assert kernel.run_to_rest(kernel.now + to_ns(60))
            simulation.topology.replace_link(self._link(who), self._link(what), reconfiguration)
        else:
            raise ValueError(f"nobody {does}")

    def _link(self, text: str) -> tuple[int, int]:
        a, b = text.split("-")
        return self.node(a), self.node(b)

    def table(self, name: str) -> set[str]:
        """A node's entries, e.g. ``{"LOCAL 1", "B 2"}``."""
        node = self.simulation.network.nodes[self.node(name)]
        assert node is not None
        return {
            f"{'LOCAL' if source == LOCAL else self.names[source]} {filter.number}"
            for source, filter in node.routing.table.entries()  # type: ignore[attr-defined]  # has one
        }

    def entries(self, number: int) -> set[str]:
        """All entries for one pattern, as ``node->next``."""
        found = {
            f"{n}->{entry.split()[0]}"
            for n in self.names
            for entry in self.table(n)
            if entry.endswith(f" {number}")
        }
        return {entry for entry in found if not entry.endswith("LOCAL")}

    def received(self) -> list[str]:
        """Who got what, e.g. ``B got A/0 after 1``."""
        table = to_tables(self.simulation.recorder, "story", ["deliveries"])["deliveries"]
        return [
            f"{self.names[row['node']]} got {self.names[row['publisher']]}/{row['sequence']} "
            f"after {row['hops']}"
            for row in table.to_pylist()
        ]

    def check(self) -> None:
        """At rest every table is the oracle's."""
        assert self.simulation.wrong_table() is None
        assert self.simulation.recorder.unlinked == 0
