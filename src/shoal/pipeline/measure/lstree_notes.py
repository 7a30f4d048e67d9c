"""Measures of LSTree seen from within (Frey, sections 10.2 and 10.3), from nodes' notes.

Most count how often a rule was broken; a rule that never came into play gives no value.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from statistics import linear_regression, median
from typing import TypeAlias

from shoal.overlay.lstree_messages import ParentRequest
from shoal.overlay.lstree_relation import BLANK, Colour, can_connect, precedes
from shoal.pipeline.errors import PipelineError
from shoal.pipeline.measure.cases import Value, case, summed
from shoal.pipeline.measure.lstree_observed import LIMITS, Answer, Observed, Place
from shoal.pipeline.measure.run_view import Run
from shoal.routing.flooding import Flooding
from shoal.stack.host import LOCAL, Host, Timer
from shoal.stack.message import Contact, Message
from shoal.stack.registry import find, validate

COMPARED = 60
"""Values of a run that are compared with each other, three at a time."""


# Colours and depths (section 10.2.1)


def _values(run: Run) -> list[tuple[Colour, float]]:
    """Some of the colours and depths that nodes had."""
    seen = dict.fromkeys((place.colour, place.depth) for place in run.seen_as(Observed).places)
    return list(seen)[:: max(1, len(seen) // COMPARED)]


@case("notes", unit="errors")
def relation_errors(run: Run) -> Value:
    """Values seen in a run for which "can connect to" is no strict order, total on colours."""
    values = _values(run)
    if not values:
        return None
    errors = sum(can_connect(*v, *v) for v in values)
    for v, w in product(values, repeat=2):
        both = can_connect(*v, *w) + can_connect(*w, *v)
        errors += both > 1 or (v[0] != w[0] and both != 1)
    for u, v, w in product(values, repeat=3):
        errors += can_connect(*u, *v) and can_connect(*v, *w) and not can_connect(*u, *w)
    return errors


@case("notes", unit="pairs")
def order_violations(run: Run) -> Value:
    """Children that did not precede their parents, looked at after every instant."""
    below: dict[int, set[int]] = defaultdict(set)
    above: dict[int, int] = {}
    found = 0
    seen = False
    for _, now, moved in run.seen_as(Observed).instants():
        for node in moved:
            seen = True
            below[above.get(node, LOCAL)].discard(node)
            above[node] = now[node].parent
            below[now[node].parent].add(node)
        pairs = {(node, now[node].parent) for node in moved}
        pairs |= {(child, node) for node in moved for child in below[node]}
        for child, parent in pairs:
            if child in now and parent in now:
                c, p = now[child], now[parent]
                found += not can_connect(c.colour, c.depth, p.colour, p.depth)
    return found if seen else None


def _steps(run: Run) -> Iterator[tuple[Place, Place]]:
    for places in run.seen_as(Observed).lives():
        yield from pairwise(places)


@case("notes", unit="times")
def depth_increases(run: Run) -> Value:
    """How often a depth grew while the colour stayed."""
    return summed(b.depth > a.depth for a, b in _steps(run) if a.colour == b.colour)


@case("notes", unit="times")
def colours_that_went_back(run: Run) -> Value:
    """How often a colour gave way to one that it does not precede."""
    return summed(not precedes(a.colour, b.colour) for a, b in _steps(run) if a.colour != b.colour)


@case("notes", unit="times")
def roots_of_other_colours(run: Run) -> Value:
    """How often a node that became root had another colour than its own with its id appended."""
    became = ((a, b) for a, b in _steps(run) if b.root and not a.root)
    return summed(b.colour[:2] != (a.colour[0] + 1, b.node) for a, b in became)


@case("notes", unit="colours")
def colours_per_tree(run: Run) -> Value:
    """The most colours in one tree at the end."""
    end = run.seen_as(Observed).end()
    colours: dict[int, set[Colour]] = defaultdict(set)
    for node in end:
        top = node
        for _ in end:
            if end[top].parent not in end:
                break
            top = end[top].parent
        colours[top].add(end[node].colour)
    return max(map(len, colours.values()), default=None)


@case("notes", unit="nodes")
def depths_not_above(run: Run) -> Value:
    """Nodes that adopted a colour at a depth not greater than the one heard from the parent."""
    taken = [b for a, b in _steps(run) if a.colour != b.colour and not b.root and b.parent != LOCAL]
    return summed(b.depth <= b.above for b in taken)


@case("notes", unit="depth/h")
def depth_drift(run: Run, step: float = 300.0) -> Value:
    """How fast the median of nodes' depths less the root's grows while the colour stays."""
    made: dict[Colour, float] = {}
    ages: list[float] = []
    gaps: list[float] = []
    due = step
    for at, now, moved in run.seen_as(Observed).instants():
        for place in (now[node] for node in moved):
            if place.root:
                made.setdefault(place.colour, at)
        if at < due:
            continue
        due += step
        roots = [place for place in now.values() if place.root]
        if len(roots) != 1:
            continue
        same = [p.depth for p in now.values() if p.colour == roots[0].colour and not p.root]
        if same:
            ages.append((at - made[roots[0].colour]) / 3600)
            gaps.append(median(same) - roots[0].depth)
    return linear_regression(ages, gaps).slope if len(set(ages)) > 2 else None


# Answers (sections 10.2.1, 10.2.2 and 10.3.3)


def _deeper(a: Answer) -> bool:
    """Whether a candidate of the same colour would have to lower its depth, and can."""
    return a.same and not a.safe and a.before["parent"] not in (LOCAL, a.requester)


def _between(a: Answer) -> bool:
    """Whether it lowered it to between its parent's and the requester's; or refused for a limit."""
    if a.answer in LIMITS:
        return bool(a.lowered == a.before["depth"])
    if a.answer == "colour":  # nothing fits between
        return bool(a.depth - a.before["above"] < 1e-9)
    return a.answer == "accepted" and bool(a.before["above"] < a.lowered < a.depth)


def _full(a: Answer) -> bool:
    """A full candidate that may have the requester as a child."""
    return a.before["degree"] >= 5 and not a.forced[0] and a.safe


def _names_children(a: Answer) -> bool:
    children = a.before["children"]
    named = len(a.named) == min(3, len(children)) and set(a.named) <= set(children)
    return a.answer == "full" and named


def _leaf(a: Answer) -> bool:
    """A leaf that is no root and may have the requester as a child."""
    return a.before["degree"] < 2 and not a.before["root"] and not a.forced[1] and a.safe


def _names_parent(a: Answer) -> bool:
    parent = a.before["parent"]
    return a.answer == "leaf" and (parent == LOCAL or a.named == (parent,))


Rule: TypeAlias = tuple[Callable[[Answer], bool], Callable[[Answer], bool]]
RULES: dict[str, Rule] = {
    "fresh": (lambda a: a.colour == BLANK and a.own != BLANK, lambda a: a.allowed),
    "shallower": (
        lambda a: a.same and a.safe,
        lambda a: a.allowed and a.lowered == a.before["depth"],
    ),
    "deeper": (_deeper, _between),
    "hop counts": (lambda a: a.same and not a.safe, lambda a: not a.allowed),
    "searching": (
        lambda a: a.same and not a.safe and a.searching,
        lambda a: a.answer == "busy" and a.lowered == a.before["depth"],
    ),
    "forced": (lambda a: any(a.forced) and not a.same and not a.safe, lambda a: not a.allowed),
    "full": (_full, _names_children),
    "leaf": (_leaf, _names_parent),
    "alone": (
        lambda a: a.before["root"] and a.before["degree"] < 2 and a.safe,
        lambda a: a.answer == "accepted",
    ),
    "ahead": (lambda a: not a.same and a.safe, lambda a: a.allowed),
    "behind": (lambda a: not a.same and not a.safe, lambda a: a.answer == "colour"),
}
"""Per rule: whether it applies to an answer, and whether the answer obeys it."""


@case("notes", unit="answers")
def answers_against(run: Run, rule: str, roots: bool = False) -> Value:
    """Answers of candidates that break a rule; with ``roots``, to the requests of roots only."""
    if rule not in RULES:
        raise PipelineError(f"no rule '{rule}' for answers", f"use one of: {', '.join(RULES)}")
    applies, kept = RULES[rule]
    found = run.seen_as(Observed)
    asked = [a for a in found.answers if applies(a)]
    if roots:
        asked = [a for a in asked if found.cause(a) == "merge"]
    return summed(not kept(a) for a in asked)


class _Still(Host):
    """A host on which nothing happens."""

    def now(self) -> float:
        return 0.0

    def after(self, delay: float, callback: Callable[[], None]) -> Timer:
        return Timer()

    def send(self, to: int, message: Message) -> None:
        pass

    def send_direct(self, to: Contact, message: Message) -> None:
        pass

    def open(self, contact: Contact) -> None:
        pass


@case("notes", unit="answers")
def forced_against_order(run: Run) -> Value:
    """Forced requests that a candidate accepts against the order: each pair of values is tried."""
    configured = {name: v for name, v in run.configuration["overlay"].items() if name != "name"}
    protocol = find("overlay", "lstree-observed")
    parameters = validate(protocol, configured)
    nothing = validate(find("routing", "flooding"), {})
    values = _values(run)
    tried = accepted = 0
    for (colour, depth), (own_colour, own_depth) in product(values, repeat=2):
        if can_connect(colour, depth, own_colour, own_depth) or own_colour == BLANK:
            continue
        host = _Still(1, 0)
        overlay = protocol.make(host, parameters, Flooding(host, nothing))
        overlay.colour, overlay.depth = own_colour, own_depth
        overlay.root = True  # of its own colour's tree, so that it cannot lower its depth
        request = ParentRequest(Contact(2), 0, 1, colour, depth, True, True)
        overlay.receive(2, request)
        tried += 1
        accepted += 2 in overlay.children
    return accepted if tried else None


@case("notes", unit="answers")
def unreported_trees(run: Run) -> Value:
    """Refusals to a node of a tree ahead after which the candidate did not report that tree."""
    found = run.seen_as(Observed)
    refused = [a for a in found.answers if not a.same and not a.safe and a.own != BLANK]
    return summed((a.at, a.node, a.requester) not in found.sighted for a in refused)


@case("notes", unit="requests")
def most_retries(run: Run) -> Value:
    """How often at most a search asked a busy candidate again."""
    asked = Counter(
        (node, value["search"], peer, value["by"])
        for _, node, peer, value in run.seen_as(Observed).asks
        if value["by"] not in "mM"
    )
    return max(asked.values()) - 1 if asked else None


# Strategies and caches (section 10.3)


@case("notes", unit="requests")
def out_of_sequence(run: Run) -> Value:
    """Requests of orphans not by the first strategy of the instance that had a candidate."""
    sequence = run.configuration["overlay"]["instance"]
    return summed(
        value["by"] != next((s for s in sequence if value["left"].get(s, 0)), None)
        for _, _, _, value in run.seen_as(Observed).asks
        if value["cause"] == "lost"
    )


@case("notes", unit="entries")
def most_entries(run: Run, caches: str) -> Value:
    """The most candidates that any search ever had from some strategies, by their letters."""
    asks = run.seen_as(Observed).asks
    return max((ask[3]["left"].get(c, 0) for ask in asks for c in caches), default=None)


@case("notes", unit="nodes")
def wrong_regional_caches(run: Run) -> Value:
    """Nodes that do not know their first three ancestors and all their siblings at the end."""
    end = run.seen_as(Observed).end()
    children: dict[int, set[int]] = defaultdict(set)
    for node, place in end.items():
        children[place.parent].add(node)
    wrong = 0
    for node, place in end.items():
        above: list[int] = []
        at = place.parent
        while at in end and len(above) < 3:
            above.append(at)
            at = end[at].parent
        if place.parent != LOCAL:
            siblings = place.siblings - {node} == children[place.parent] - {node}
            wrong += list(place.ancestors) != above or not siblings
    return wrong if end else None
