"""The oracle against brute force: who wants what, what lies beyond a link, which tables are due."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.content import AttributeFilter, Attributes, Pattern, Patterns
from shoal.simulation.oracle import Forest, Oracle
from shoal.simulation.topology import adjacency, distances
from shoal.stack import LOCAL

PATTERNS = 5


class World:
    """A random forest, its oracle, and who subscribed to what."""

    def __init__(self, parents: list[int | None]) -> None:
        self.nodes = len(parents) + 1
        self.links = [(p % (i + 1), i + 1) for i, p in enumerate(parents) if p is not None]
        self.forest = Forest(self.nodes)
        for a, b in self.links:
            self.forest.link(a, b, True)
        self.oracle = Oracle(self.forest)
        self.wants: set[tuple[int, int]] = set()

    def cut(self, a: int, b: int) -> None:
        self.links.remove((a, b))
        self.forest.link(a, b, False)

    def beyond(self, a: int, b: int) -> set[int]:
        """What is reached from b without going back to a."""
        links = [link for link in self.links if set(link) != {a, b}]
        return set(distances(adjacency(self.nodes, links), b))

    def part(self, node: int) -> set[int]:
        """What links lead to from a node."""
        return set(distances(adjacency(self.nodes, self.links), node))


def bits(nodes: set[int]) -> int:
    return sum(1 << node for node in nodes)


worlds = st.lists(st.none() | st.integers(0, 99), max_size=12).map(World)
acts = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, PATTERNS - 1), st.booleans()), max_size=25
)


def act(world: World, wishes: list[tuple[int, int, bool]]) -> None:
    for node, number, subscribe in wishes:
        node %= world.nodes
        if subscribe:
            world.oracle.subscribe(node, Pattern(number))
            world.wants.add((node, number))
        else:
            world.oracle.unsubscribe(node, Pattern(number))
            world.wants.discard((node, number))


@settings(max_examples=60, deadline=None)
@given(world=worlds, wishes=acts, data=st.data())
def test_what_lies_beyond_each_link_also_after_a_cut(
    world: World, wishes: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    for _ in range(2):
        for a, b in world.links:
            assert world.forest.beyond(a, b) == bits(world.beyond(a, b))
            assert world.forest.beyond(b, a) == bits(world.beyond(b, a))
            assert world.forest.component_of(a) == bits(world.part(a))
        if world.links:
            world.cut(*data.draw(st.sampled_from(world.links)))


@settings(max_examples=60, deadline=None)
@given(world=worlds, wishes=acts)
def test_canonical_tables(world: World, wishes: list[tuple[int, int, bool]]) -> None:
    act(world, wishes)
    for node in range(world.nodes):
        due = {(LOCAL, Pattern(p)) for n, p in world.wants if n == node}
        for a, b in world.links:
            for near, far in ((a, b), (b, a)):
                if near == node:
                    beyond = world.beyond(near, far)
                    due |= {(far, Pattern(p)) for n, p in world.wants if n in beyond}
        assert world.oracle.table_of(node) == due


@settings(max_examples=60, deadline=None)
@given(
    world=worlds,
    wishes=acts,
    event=st.lists(st.integers(0, PATTERNS + 3), max_size=6),
    gone=st.integers(0, 12),
)
def test_who_wants_an_event(
    world: World, wishes: list[tuple[int, int, bool]], event: list[int], gone: int
) -> None:
    content = Patterns(tuple(event))
    assert world.oracle.wanted_by(content) == 0
    before = world.oracle.version
    act(world, wishes)
    assert world.oracle.wanted_by(content) == bits({n for n, p in world.wants if p in event})
    world.oracle.forget(gone % world.nodes)
    left = {n for n, p in world.wants if p in event and n != gone % world.nodes}
    assert world.oracle.wanted_by(content) == bits(left)
    assert world.oracle.version > before


def test_any_content_model_will_do() -> None:
    oracle = Oracle(Forest(2))
    cold = AttributeFilter("x < 3")
    oracle.subscribe(1, cold)
    assert oracle.wanted_by(Attributes({"x": 2})) == 0b10
    assert oracle.wanted_by(Attributes({"x": 4})) == 0
