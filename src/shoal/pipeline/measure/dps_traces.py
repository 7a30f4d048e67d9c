"""Measures of what DPS nodes told each other, message by message, in small runs."""

from __future__ import annotations

import re
from ast import literal_eval
from collections import Counter, defaultdict
from typing import Any

from shoal.pipeline.measure.cases import Value, case
from shoal.pipeline.measure.dps_cases import Forest, Key, subscriptions
from shoal.pipeline.measure.run_view import Row, Run
from shoal.routing.dps.messages import DOWN, START

_FIELD = re.compile(r"\b(\w+)=(-?\d+|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_TEXT = re.compile(r"text=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")")
_EVENT = re.compile(r"event=Event\(publisher=(\d+), sequence=(\d+), .*?\), attribute=")
VALUES = re.compile(r"content=Attributes\(values=(\{.*?\})\)")
"""The attributes of an event, within a message as it was printed."""
CHANGES = ("leader", "sync", "created", "adopted", "subscribeto", "left", "gone")
"""Kinds of messages that change who leads a group or what is in a view."""


def fields(content: str) -> dict[str, Any]:
    """The plain fields of a message as it was printed, the first of each name."""
    found: dict[str, Any] = {}
    event = _EVENT.search(content)
    if event is not None:
        found["event"] = (int(event[1]), int(event[2]))
        content = content[event.end() - len("attribute=") :]
    for name, value in _FIELD.findall(content):
        found.setdefault(name, literal_eval(value))
    return found


def _events(run: Run) -> list[tuple[Row, dict[str, Any]]]:
    return [(row, fields(row["content"])) for row in run.messages if row["kind"] == "event"]


@case("messages", unit="copies")
def repeated_copies(run: Run) -> Value:
    """Copies of an event that a node got again as a member of the same group.

    In a generic traversal the copy with which a publisher enters a tree is not counted: its contact
    point may get the event again by way of the root.
    """
    generic = run.configuration["routing"]["traversal"] == "generic"
    copies = Counter(
        (*said["event"], said["attribute"], said["at"], row["target"])
        for row, said in run.seen_as(_events)
        if not (generic and said["direction"] == START)
    )
    return sum(count - 1 for count in copies.values())


@case("messages", unit="events")
def passed_while_blocked(run: Run) -> Value:
    """Events that a group passed on while a successor of it was being created."""
    delay = run.configuration["link"]["delay"]
    begun: dict[tuple[int, str, str, str], float] = {}
    spans: dict[tuple[int, str, str], list[tuple[float, float]]] = defaultdict(list)
    for row in run.messages:
        if row["kind"] == "creategroup":
            said = fields(row["content"])
            above = literal_eval(re.findall(_TEXT, row["content"])[1])
            begun[row["source"], said["attribute"], above, said["text"]] = row["time"]
        elif row["kind"] == "created":
            said = fields(row["content"])
            since = begun.get((row["target"], said["attribute"], said["at"], said["text"]))
            if since is not None:
                key = (row["target"], said["attribute"], said["at"])
                spans[key].append((since, row["time"] + delay - 1e-6))  # times are rounded
    if not spans:
        return None
    passed = 0
    for row, said in run.seen_as(_events):
        group = said["came"] if said["direction"] == DOWN else None
        for since, until in spans.get((row["source"], said["attribute"], group or ""), ()):
            passed += group is not None and since < row["time"] < until
    return passed


@case("messages", unit="groups")
def groups_created_twice(run: Run) -> Value:
    """Groups that were created more than once below the same predecessor."""
    created = Counter(
        (row["target"], said["attribute"], said["at"], said["text"])
        for row in run.messages
        if row["kind"] == "created" and "accepted=True" in row["content"]
        for said in [fields(row["content"])]
    )
    return created.total() - len(created)


@case("messages", "notes", unit="messages")
def subscriptions_told(run: Run) -> Value:
    """Messages that hold a whole subscription; one that is a label cannot be told from it."""
    labels = {text for _, text in run.seen_as(Forest).leaders}
    whole = [text for _, text in subscriptions(run) if text not in labels]
    if not whole:
        return None
    pattern = re.compile("|".join(re.escape(text) for text in dict.fromkeys(whole)))
    return sum(1 for row in run.messages if pattern.search(row["content"].replace("\\'", "'")))


@case("messages", "notes", unit="groups")
def disturbed_afar(run: Run, since: float, levels: int = 3) -> Value:
    """Groups with changes after a crash that are not within K levels of the crashed node's."""
    forest = run.seen_as(Forest)
    crashed = [n["node"] for n in run.notes if n["what"] == "node down" and n["time"] >= since]
    theirs = {key for _, node, _, key in forest.joined if node in crashed}
    above = {(attribute, text): (attribute, up) for attribute, up, text in forest.edges()}
    near = set(theirs)
    for key in (*theirs, *forest.leaders):
        chain = [key]
        while chain[-1] in above and len(chain) <= levels:
            chain.append(above[chain[-1]])
        if key in theirs:
            near |= set(chain)
        elif theirs.intersection(chain):
            near.add(key)
    near |= {(attribute, "") for attribute, _ in theirs}
    changed: set[Key] = set()
    for row in run.messages:
        if row["time"] >= since and row["kind"] in CHANGES:
            said = fields(row["content"])
            changed.add((said["attribute"], said.get("at", said["text"])))
    return len(changed - near)
