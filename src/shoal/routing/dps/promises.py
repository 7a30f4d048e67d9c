"""What holds once the network has healed: asked by chaos tests, node by node.

There is one owner and one tree per attribute. A group has one leader, whom its members know and who
knows them. Edges are immediate inclusions, known at both ends. Every subscription is in its groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from shoal.routing.dps.labels import ROOT

if TYPE_CHECKING:
    from shoal.routing.dps.dps import Dps
    from shoal.routing.dps.views import Group
    from shoal.stack.host import NodeId


def described(group: Group) -> str:
    """A node's part in a group as JSON, for those who look at a run afterwards."""
    found = {
        "attribute": group.label.attribute,
        "text": group.text,
        "filters": [str(filter) for filter in group.filters],
        "coleaders": [contact.node for contact in group.coleaders],
        "members": list(group.members),
        "known": [contact.node for contact in group.known],
        "predview": [[pointer.text, pointer.contact.node] for pointer in group.predview],
        "succviews": {
            text: [[pointer.text, pointer.contact.node] for pointer in successor.view]
            for text, successor in group.successors.items()
        },
    }
    return json(found)


def json(found: dict[str, Any]) -> str:
    """Plain data as the text of a note."""
    return msgspec.json.encode(found).decode()


def broken_promise(node: Dps, running: dict[NodeId, Dps]) -> str | None:
    """What is wrong with a node, given all nodes that run."""
    if node.searches.joining:
        return f"it still looks for its place in {list(node.searches.joining)}"
    for filter, labels in node.joined.items():
        for label in labels:
            held = node.groups.get((label.attribute, label.text))
            if held is None or filter not in held.filters:
                return f"it is not in the group '{label.text}' of its subscription {filter}"
    for key, group in node.groups.items():
        leader = running.get(group.leader.node)
        leading = None if leader is None else leader.groups.get(key)
        if leader is None or leading is None or not leader.leads(leading):
            return f"it takes {group.leader.node} for the leader of {key}"
        if node.leads(group):
            wrong = _led(node, group, running)
            if wrong is not None:
                return wrong
    return None


def _led(node: Dps, group: Group, running: dict[NodeId, Dps]) -> str | None:
    """What is wrong with a group that a node leads."""
    attribute, text = group.label.attribute, group.text
    there = {n for n, other in running.items() if (attribute, text) in other.groups}
    if set(group.members) != there - {node.host.node}:
        return f"in the group '{text}' it knows {sorted(group.members)}, but {sorted(there)} are"
    for number in there:
        if running[number].groups[attribute, text].leader.node != node.host.node:
            return f"node {number} does not take it for the leader of '{text}'"
    for below, successor in group.successors.items():
        led = _leading(running.values(), attribute, below)
        if led is None or led.leader.node != successor.leader.node:
            return f"'{text}' has a successor '{below}' at {successor.leader.node}, not its leader"
        if led.predview[0].text != text:
            return f"'{below}' is below '{text}', but has '{led.predview[0].text}' in its predview"
    if text == ROOT:
        return None
    nearest = group.predview[0] if group.predview else None
    above = None if nearest is None else _leading(running.values(), attribute, nearest.text)
    if above is None or nearest is None:
        return f"'{text}' has no predecessor"
    if nearest.contact.node != above.leader.node:
        return f"'{text}' takes {nearest.contact.node} for the leader of '{above.text}'"
    if text not in above.successors:
        return f"'{text}' is not known to its predecessor '{above.text}'"
    for other in running.values():
        for between in other.by_tree.get(attribute, {}).values():
            if above.label.precedes(between.label) and between.label.precedes(group.label):
                return f"'{between.text}' lies between '{text}' and '{above.text}'"
    return None


def _leading(nodes: Iterable[Dps], attribute: str, text: str) -> Group | None:
    for node in nodes:
        group = node.groups.get((attribute, text))
        if group is not None and node.leads(group):
            return group
    return None
