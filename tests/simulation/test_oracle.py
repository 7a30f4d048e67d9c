"""The oracle against brute force: who wants what, what lies beyond a link, which tables are due."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.content import AttributeFilter, Attributes, Pattern, Patterns
from shoal.simulation.kernel import Channel
from shoal.simulation.oracle import Oracle
from shoal.simulation.topology import adjacency, distances
from shoal.stack import LOCAL

PATTERNS = 5


class Forest:
    """A random forest, its oracle, and who subscribed to what."""

    def __init__(self, parents: list[int | None]) -> None:
        self.nodes = len(parents) + 1
        self.links = [(p % (i + 1), i + 1) for i, p in enumerate(parents) if p is not None]
        self.channels: list[dict[int, Channel]] = [{} for _ in range(self.nodes)]
        for a, b in self.links:
            self.channels[a][b] = Channel(a, b, {})
            self.channels[b][a] = Channel(b, a, {})
        self.oracle = Oracle(self.channels)
        self.wants: set[tuple[int, int]] = set()

    def cut(self, a: int, b: int) -> None:
        self.links.remove((a, b))
        del self.channels[a][b], self.channels[b][a]
        self.oracle.links_changed()

    def beyond(self, a: int, b: int) -> set[int]:
        """What is reached from b without going back to a."""
        links = [link for link in self.links if set(link) != {a, b}]
        return set(distances(adjacency(self.nodes, links), b))


def bits(nodes: set[int]) -> int:
    return sum(1 << node for node in nodes)


forests = st.lists(st.none() | st.integers(0, 99), max_size=12).map(Forest)
acts = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, PATTERNS - 1), st.booleans()), max_size=25
)


def act(forest: Forest, wishes: list[tuple[int, int, bool]]) -> None:
    for node, number, subscribe in wishes:
        node %= forest.nodes
        if subscribe:
            forest.oracle.subscribe(node, Pattern(number))
            forest.wants.add((node, number))
        else:
            forest.oracle.unsubscribe(node, Pattern(number))
            forest.wants.discard((node, number))


@settings(max_examples=60, deadline=None)
@given(forest=forests, wishes=acts, data=st.data())
def test_what_lies_beyond_each_link_also_after_a_cut(
    forest: Forest, wishes: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    for _ in range(2):
        forest.oracle.refresh()
        for a, b in forest.links:
            assert forest.channels[a][b].beyond == bits(forest.beyond(a, b))
            assert forest.channels[b][a].beyond == bits(forest.beyond(b, a))
        if forest.links:
            forest.cut(*data.draw(st.sampled_from(forest.links)))


@settings(max_examples=60, deadline=None)
@given(forest=forests, wishes=acts)
def test_canonical_tables(forest: Forest, wishes: list[tuple[int, int, bool]]) -> None:
    act(forest, wishes)
    for node in range(forest.nodes):
        due = {(LOCAL, Pattern(p)) for n, p in forest.wants if n == node}
        for a, b in forest.links:
            for near, far in ((a, b), (b, a)):
                if near == node:
                    beyond = forest.beyond(near, far)
                    due |= {(far, Pattern(p)) for n, p in forest.wants if n in beyond}
        assert forest.oracle.table_of(node) == due


@settings(max_examples=60, deadline=None)
@given(
    forest=forests,
    wishes=acts,
    event=st.lists(st.integers(0, PATTERNS + 3), max_size=6),
    gone=st.integers(0, 12),
)
def test_who_wants_an_event(
    forest: Forest, wishes: list[tuple[int, int, bool]], event: list[int], gone: int
) -> None:
    content = Patterns(tuple(event))
    assert forest.oracle.wanted_by(content) == 0
    before = forest.oracle.version
    act(forest, wishes)
    assert forest.oracle.wanted_by(content) == bits({n for n, p in forest.wants if p in event})
    forest.oracle.forget(gone % forest.nodes)
    left = {n for n, p in forest.wants if p in event and n != gone % forest.nodes}
    assert forest.oracle.wanted_by(content) == bits(left)
    assert forest.oracle.version > before


def test_any_content_model_will_do() -> None:
    oracle = Oracle([{}, {}])
    cold = AttributeFilter("x < 3")
    oracle.subscribe(1, cold)
    assert oracle.wanted_by(Attributes({"x": 2})) == 0b10
    assert oracle.wanted_by(Attributes({"x": 4})) == 0
