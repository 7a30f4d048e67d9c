"""Where clients' subscriptions are kept: the edge's tables against a plain model of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from shoal.content import AttributeFilter, Attributes, Event, Filter
from shoal.content.index.fields import ID_MASK
from shoal.live.edge import Edge
from shoal.live.edge_table import FEW, INDEX, EdgeTable
from shoal.live.entries import Subscriber
from shoal.live.numbers import Numbered, Numbers
from shoal.recovery.numbering import Numbering, read_marks
from shoal.routing.table import SubscriptionTable
from shoal.stack import LOCAL, Host

FILTERS = [AttributeFilter(f"a = {n % 7} AND b > {n}") for n in range(70)]


class Client(Subscriber):
    def __init__(self) -> None:
        self.got: list[int] = []

    def deliver(self, numbers: Sequence[int], event: Event, raw: bytes) -> None:
        assert not self.got, "one delivery, whatever the number of subscriptions that match"
        self.got = list(numbers)

    def missed(self, numbers: Sequence[int], count: int, reason: str, publisher: int = -1) -> None:
        raise AssertionError("nothing is lost at the edge")


class AtEdge(Host):
    """A host of which only the tables matter."""

    def __init__(self, edge: Edge) -> None:
        super().__init__(0, 1)
        self.edge = edge

    def table(self, filter: object) -> EdgeTable:
        table = self.edge.table()
        self.matched = table.matched
        return table

    def routes(self, filter: Filter) -> bool:
        return filter in self.edge.tables[0]


class Model(RuleBasedStateMachine):
    """Clients and neighbours come and go; every event finds exactly who wants it."""

    def __init__(self) -> None:
        super().__init__()
        INDEX.load()
        self.edge = Edge()
        host = AtEdge(self.edge)
        self.table = SubscriptionTable(host)
        self.numbering, self.alone = Numbering(0, 64, host=host), Numbering(0, 64)
        self.sequence = 0
        self.clients = [Client() for _ in range(3)]
        self.wanted: dict[tuple[int, int], AttributeFilter] = {}
        self.beyond: dict[tuple[int, AttributeFilter], None] = {}

    @rule(client=st.integers(0, 2), number=st.integers(1, 9), filter=st.sampled_from(FILTERS))
    def subscribe(self, client: int, number: int, filter: AttributeFilter) -> None:
        if (client, number) not in self.wanted:
            new = filter not in self.wanted.values()
            kept, told = self.edge.add(self.clients[client], number, filter)
            assert (kept, told) == (filter, new)
            if new:
                self.table.add(LOCAL, kept)
            self.wanted[client, number] = filter

    @rule(many=st.integers(10, 70), client=st.integers(0, 2))
    def subscribe_to_many(self, many: int, client: int) -> None:
        for place, filter in enumerate(FILTERS[:many]):
            self.subscribe(client, 100 + place, filter)

    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        if self.wanted:
            client, number = data.draw(st.sampled_from(list(self.wanted)))
            filter = self.wanted.pop((client, number))
            last = filter not in self.wanted.values()
            assert self.edge.remove(self.clients[client], number, filter) == last
            if last:
                self.table.remove(LOCAL, filter)

    @rule()
    def all_leave(self) -> None:
        for (client, number), filter in list(self.wanted.items()):
            del self.wanted[client, number]
            if self.edge.remove(self.clients[client], number, filter):
                self.table.remove(LOCAL, filter)

    @rule(source=st.integers(1, 3), filter=st.sampled_from(FILTERS))
    def hear_from_neighbour(self, source: int, filter: AttributeFilter) -> None:
        self.table.add(source, AttributeFilter(filter.text))
        self.beyond[source, filter] = None

    @rule(source=st.integers(1, 3), many=st.integers(10, 70))
    def hear_much_from_neighbour(self, source: int, many: int) -> None:
        for filter in FILTERS[:many]:
            self.hear_from_neighbour(source, filter)

    @rule(source=st.integers(1, 3))
    def neighbour_leaves(self, source: int) -> None:
        for filter in self.table.filters_of(source):
            self.table.remove(source, filter)
        self.beyond = {key: None for key in self.beyond if key[0] != source}

    @rule(source=st.integers(1, 3), filter=st.sampled_from(FILTERS))
    def neighbour_no_longer(self, source: int, filter: AttributeFilter) -> None:
        self.table.remove(source, filter)
        self.beyond.pop((source, filter), None)

    @rule(filter=st.sampled_from(FILTERS))
    def routing_moves_an_entry(self, filter: AttributeFilter) -> None:
        if self.table.remove(LOCAL, filter):
            self.table.add(LOCAL, filter)

    @rule(filter=st.sampled_from(FILTERS[::7]))
    def follow(self, filter: AttributeFilter) -> None:
        for numbering in (self.numbering, self.alone):
            numbering.follow(filter, 1, float(self.sequence))

    @rule(filter=st.sampled_from(FILTERS[::7]), late=st.integers(0, 9))
    def forget_followers(self, filter: AttributeFilter, late: int) -> None:
        for numbering in (self.numbering, self.alone):
            numbering.forget(float(self.sequence - late))

    @rule(a=st.integers(0, 7), b=st.integers(0, 70), events=st.integers(1, 3))
    def publish_numbered(self, a: int, b: int, events: int) -> None:
        """Whether routing's table is asked or the filters are, events have the same numbers."""
        for _ in range(events):
            self.sequence += 1
            content = Attributes({"a": a, "b": b})
            event = Event(0, self.sequence, content)
            numbers: list[list[tuple[int, int]]] = []
            for numbering in (self.numbering, self.alone):
                marks = numbering.marks(event, float(self.sequence))
                numbers.append(sorted(read_marks(Event(0, self.sequence, content, b"", marks))))
            assert numbers[0] == numbers[1]
            self.reaches_who_wants_it(content)

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.edge) == len(set(self.wanted.values()))
        assert set(self.edge.filters()) == set(self.wanted.values())
        assert len(self.table) == len(self.beyond) + len(self.edge)
        here = {(LOCAL, filter) for filter in self.wanted.values()}
        assert self.table.entries() == {*self.beyond, *here}

    @rule(a=st.integers(0, 7), b=st.integers(0, 70))
    def publish(self, a: int, b: int) -> None:
        self.reaches_who_wants_it(Attributes({"a": a, "b": b}))

    def reaches_who_wants_it(self, content: Attributes) -> None:
        beyond = {source for source, filter in self.beyond if filter.matches(content)}
        here = {key for key, filter in self.wanted.items() if filter.matches(content)}
        sources = self.table.match(content)
        assert len(sources) == len(set(sources))
        assert set(sources) == beyond | ({LOCAL} if here else set())
        for client in self.clients:
            client.got = []
        self.edge.deliver(Event(0, 1, content))
        for place, client in enumerate(self.clients):
            assert sorted(client.got) == sorted(n for c, n in here if c == place)


Model.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestModel = Model.TestCase


def test_an_index_that_is_full_is_built_anew() -> None:
    edge = Edge()
    table = edge.table()
    INDEX.load()
    for filter in FILTERS[:60]:
        table.insert(1, filter)
    assert table._index is not None
    table._index.next_handle = ID_MASK
    table.insert(2, FILTERS[65])
    assert table._index.next_handle == 61
    content = Attributes({"a": 65 % 7, "b": 66})
    assert set(table.match(content)) == {1, 2}
    table.remove(2, FILTERS[65])
    assert table.match(content) == [1]


def test_filters_are_brought_into_the_index_a_few_at_a_time() -> None:
    INDEX.load()
    edge = Edge()
    table = edge.table()
    filters = [AttributeFilter(f"n > {n} AND name = '{'x' * 400}'") for n in range(FEW + 20)]
    asked = []
    for n, filter in enumerate(filters):
        table.insert(n, filter)
        asked.append(len(table._plain))
    assert max(asked) <= FEW + 1
    assert all(before - after <= 3 for before, after in pairwise(asked)), "three fill a portion"
    table.remove(0, filters[0])
    asked = []
    for n in range(FEW):
        content = Attributes({"n": n, "name": "x" * 400})
        assert set(table.match(content)) == set(range(1, n))
        asked.append(len(table._plain))
    assert asked[-1] == 0, "all are in the index"


def test_filters_of_long_gone_subscriptions_are_let_go() -> None:
    edge = Edge()
    table = edge.table()
    INDEX.load()
    client = Client()
    lasting = AttributeFilter("lasting = 1")
    edge.add(client, 0, lasting)
    table.insert(LOCAL, lasting)
    for n in range(3000):
        filter = AttributeFilter(f"a = {n}")
        edge.add(client, n + 1, filter)
        table.insert(LOCAL, filter)
        if n >= 100:
            gone = AttributeFilter(f"a = {n - 100}")
            assert edge.remove(client, n - 99, gone)
            table.remove(LOCAL, gone)
    assert len(edge) == 101
    assert len(table._by_handle) <= 3


class Numberings(RuleBasedStateMachine):
    """Numbers and what is under them, in any order, against a ``dict``."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers, self.numbered = Numbers(), Numbered()
        self.model: dict[int, AttributeFilter] = {}

    @rule(number=st.integers(0, 2**31), filter=st.sampled_from(FILTERS))
    def put(self, number: int, filter: AttributeFilter) -> None:
        assert (number in self.numbered) == (number in self.model)
        if number not in self.model:
            self.numbers.add(number)
            self.numbered.put(number, filter)
            self.model[number] = filter

    @rule(data=st.data())
    def pop(self, data: st.DataObject) -> None:
        known = st.sampled_from(sorted(self.model)) if self.model else st.nothing()
        number = data.draw(known | st.integers(0, 2**31))
        assert self.numbers.remove(number) == (number in self.model)
        assert self.numbered.pop(number) == self.model.pop(number, None)

    @invariant()
    def agree(self) -> None:
        assert list(self.numbers) == sorted(self.model)
        assert list(self.numbered.items()) == sorted(self.model.items(), key=lambda item: item[0])
        assert len(self.numbered) == len(self.numbers) == len(self.model)


TestNumberings = Numberings.TestCase
