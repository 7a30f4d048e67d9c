"""Numbers per publisher and filter: what is missing is noticed, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from shoal.content import AnyFilter, AttributeFilter, Attributes, Event, Pattern, Patterns
from shoal.content.event import MARK_BYTES
from shoal.recovery.counting import Counting
from shoal.recovery.losses import MOST_LOSSES, Lost
from shoal.recovery.messages import Start
from shoal.recovery.numbering import LIFE, MARK, MOST_BYTES, MOST_FILTERS, Numbering, read_marks
from shoal.recovery.streams import Streams
from shoal.simulation.config import parse_config
from shoal.simulation.run import Simulation

PUBLISHER, FOLLOWER = 7, 3
FILTERS: list[AnyFilter] = [Pattern(number) for number in range(4)]
WORDS: list[AnyFilter] = [AttributeFilter(text) for text in ("x > 1", "x < 4", "x = 2", "x >= 0")]


def content(values: list[int], words: bool) -> Patterns | Attributes:
    return Attributes({"x": values[0]}) if words else Patterns(tuple(values))


def begin(numbering: Numbering, streams: Streams, filters: Sequence[AnyFilter]) -> None:
    """The follower wants these filters, and the publisher numbers them."""
    for filter in filters:
        streams.want(filter, 0.0)
    streams.by_publisher[PUBLISHER] = {}
    for filter in filters:
        after = streams.ask(PUBLISHER, filter, 0.0)
        followed = numbering.follow(filter, FOLLOWER, 0.0)
        assert followed is not None
        count, last = followed.count, numbering.sequence
        assert after == -1
        start = Start(filter, followed.index, last, count, last, count)
        assert not streams.started(PUBLISHER, start, 100.0, 0.0)


HISTORY = st.lists(
    st.tuples(st.lists(st.integers(0, 5), min_size=1, max_size=3), st.booleans(), st.booleans()),
    max_size=60,
)


@given(HISTORY, st.integers(1, 4), st.booleans(), st.data())
def test_after_the_last_number_exactly_what_is_missing_is_known_to_be(
    history: list[tuple[list[int], bool, bool]], most: int, words: bool, data: st.DataObject
) -> None:
    filters = WORDS if words else FILTERS
    numbering, streams = Numbering(1, most), Streams()
    begin(numbering, streams, filters)
    late: list[Event] = []
    missing: list[Event] = []
    for sequence, (values, lost, delayed) in enumerate(history):
        made = Event(PUBLISHER, sequence, content(values, words))
        made = Event(PUBLISHER, sequence, made.content, b"", numbering.marks(made, 1.0))
        assert len(made.marks) <= most * MARK_BYTES
        numbers = streams.interests.matching(made)
        if not numbers:
            continue
        if lost:
            missing.append(made)
        elif delayed:
            late.append(made)
        elif not streams.next_came(made, PUBLISHER, made.sequence, most, 1.0):
            streams.arrived(made, numbers, 1.0, len(made.marks) < most * MARK_BYTES)
    for made in data.draw(st.permutations(late)):
        if not streams.next_came(made, PUBLISHER, made.sequence, most, 1.0):
            streams.arrived(
                made, streams.interests.matching(made), 1.0, len(made.marks) < most * MARK_BYTES
            )
    for last in numbering.tails(2.0).get(FOLLOWER, []):
        streams.told(PUBLISHER, last, 2.0)
    for filter in filters:
        lacked = [made.sequence for made in missing if filter.matches(made.content)]
        believed = [one for one in streams.losses.all() if one.wanted.filter == filter]
        assert sum(one.count for one in believed) == len(lacked)
        for one in believed:
            inside = [s for s in lacked if one.after < s < one.before and s not in one.have]
            assert len(inside) == one.count
    for made in data.draw(st.permutations(missing)):  # any arrival strikes
        assert streams.lacks(made)
        streams.arrived(made, streams.interests.matching(made), 3.0, False)
        assert not streams.lacks(made)
    assert not len(streams.losses)


def test_other_filters_of_a_publisher_make_no_gaps() -> None:
    numbering, streams = Numbering(0, 16), Streams()
    begin(numbering, streams, [Pattern(1)])
    numbering.follow(Pattern(2), 99, 0.0)
    for sequence in range(100):
        made = Event(PUBLISHER, sequence, Patterns((1,) if sequence % 10 == 0 else (2,)))
        marks = numbering.marks(made, 0.0)
        if sequence % 10 == 0:
            streams.arrived(Event(PUBLISHER, sequence, made.content, b"", marks), [0], 0.0, True)
    assert streams.losses.noticed == 0


def test_a_publisher_that_starts_again_is_asked_again() -> None:
    numbering, streams = Numbering(0, 16), Streams()
    begin(numbering, streams, [Pattern(1)])
    first = Event(PUBLISHER, 0, Patterns((1,)))
    streams.arrived(
        Event(PUBLISHER, 0, first.content, b"", numbering.marks(first, 0.0)), [0], 0, True
    )
    assert streams.unfollowed(PUBLISHER, 100.0) == []
    assert streams.arrived(Event(PUBLISHER, 1000, first.content), [0], 0.0, True)
    assert streams.unfollowed(PUBLISHER, 100.0) == [Pattern(1)]


def test_a_publisher_that_ended_without_a_word_may_have_lost_events() -> None:
    for final in (False, True):
        numbering, streams = Numbering(0, 16), Streams()
        begin(numbering, streams, [Pattern(1)])
        made = Event(PUBLISHER, 0, Patterns((1,)))
        marks = numbering.marks(made, 1.0)
        streams.arrived(Event(PUBLISHER, 0, made.content, b"", marks), [0], 1.0, True)
        if final:
            for last in numbering.last_words()[FOLLOWER]:
                streams.told(PUBLISHER, last, 2.0, True)
        again = Numbering(1, 16).follow(Pattern(1), FOLLOWER, 9.0)
        assert again is not None
        start = Start(Pattern(1), again.index, 5, 0, 5, 0)
        assert streams.started(PUBLISHER, start, 2.0, 10.0) != final
        assert not streams.started(PUBLISHER, start, 3.0, 11.0)  # once is enough


def test_a_forged_number_makes_one_false_loss_and_no_more() -> None:
    numbering, streams = Numbering(0, 16), Streams()
    begin(numbering, streams, [Pattern(1)])
    index, _ = MARK.unpack(numbering.marks(Event(PUBLISHER, 0, Patterns((1,))), 0.0))
    streams.arrived(
        Event(PUBLISHER, 10, Patterns((1,)), b"", MARK.pack(index, 10 - 2**40)), [0], 0.0, True
    )
    assert [one.count for one in streams.losses.all()] == [
        10
    ]  # no more than there are sequence numbers
    for sequence in range(11, 30):
        made = Event(PUBLISHER, sequence, Patterns((1,)))
        marks = numbering.marks(made, 0.0)
        if sequence != 20:
            streams.arrived(Event(PUBLISHER, sequence, made.content, b"", marks), [0], 0.0, True)
    assert [(one.after, one.before, one.count) for one in streams.losses.all()][1:] == [(19, 22, 1)]


def test_what_is_no_mark_lastnothing() -> None:
    numbering, streams = Numbering(0, 16), Streams()
    begin(numbering, streams, [Pattern(1)])
    for junk in (b"x", b"x" * 13, b"\xff" * MARK_BYTES):
        event = Event(PUBLISHER, 3, Patterns((1,)), b"", junk)
        assert not streams.next_came(event, PUBLISHER, event.sequence, 16, 1.0)
        streams.arrived(event, [0], 0.0, True)
        assert not list(streams.losses.all())


def test_a_forged_sequence_number_costs_no_memory() -> None:
    numbering, streams = Numbering(0, 16), Streams()
    begin(numbering, streams, [Pattern(1)])
    index, _ = MARK.unpack(numbering.marks(Event(PUBLISHER, 0, Patterns((1,))), 0.0))
    far = Event(PUBLISHER, 2**61, Patterns((1,)), b"", MARK.pack(index, 2**60))
    streams.arrived(far, [0], 0.0, True)
    assert len(streams.losses) == 1


def test_too_many_losses_are_given_up_the_oldest_first() -> None:
    streams = Streams()
    numbering = Numbering(0, 16)
    begin(numbering, streams, [Pattern(1)])
    for sequence in range(2 * MOST_LOSSES + 10):
        made = Event(PUBLISHER, sequence, Patterns((1,)))
        marks = numbering.marks(made, 0.0)
        if sequence % 2:
            now = float(sequence)
            streams.arrived(Event(PUBLISHER, sequence, made.content, b"", marks), [0], now, True)
    given_up = streams.losses.give_up(-1.0)
    assert len(given_up) == 5
    assert max(one.noticed for one in given_up) < min(one.noticed for one in streams.losses.all())


def test_of_too_many_losses_of_two_publishers_the_oldest_are_given_up() -> None:
    streams = Streams()
    streams.want(Pattern(1), 0.0)
    wanted = streams.interests.filters[Pattern(1)]
    for turn in range(MOST_LOSSES // 2 + 5):
        for publisher in (1, 2):
            lost = Lost(publisher, wanted, turn, turn + 2, 1, float(2 * turn + publisher))
            streams.losses.add(lost)
    given_up = streams.losses.give_up(-1.0)
    assert len(given_up) == 10
    assert max(one.noticed for one in given_up) < min(one.noticed for one in streams.losses.all())


class Watched(dict[Any, Any]):
    """A dictionary that counts what is read of it by iteration, also by compiled modules."""

    looks = 0

    def _counted(self, entries: Iterable[Any]) -> Iterator[Any]:
        for entry in entries:
            self.looks += 1
            yield entry

    def __iter__(self) -> Iterator[Any]:
        return self._counted(super().__iter__())

    def keys(self) -> Any:
        return iter(self)

    def values(self) -> Any:
        return self._counted(super().values())

    def items(self) -> Any:
        return self._counted(super().items())


def test_gaps_that_are_not_due_are_not_looked_at() -> None:
    """Each tick of a node asks for those that are; most of the time there are none."""
    streams = Streams()
    streams.want(Pattern(1), 0.0)
    streams.want(Pattern(2), 0.0)
    first, second = streams.interests.filters.values()
    losses = streams.losses
    losses._noticed = watched = Watched()
    for turn in range(40):
        wanted = first if turn % 4 else second
        losses.add(Lost(1 + turn % 2, wanted, turn, turn + 2, 1, float(turn)))
    losses.strike(1, 1, [first.number, second.number])  # turn 0
    losses.drop(second)
    assert len(losses) == 30
    watched.looks = 0
    assert losses.give_up(1.0) == []
    assert watched.looks == 1, "none but the first that was noticed"
    given_up = losses.give_up(4.0)
    assert [(one.publisher, one.after) for one in given_up] == [(1, 2), (2, 1), (2, 3)]
    assert watched.looks == 1 + 4
    assert len(losses) == len(list(losses.all())) == 27


def test_followers_are_looked_at_only_when_one_may_be_forgotten() -> None:
    numbering = Numbering(0, 16)
    followed = numbering.follow(Pattern(1), 5, 10.0)
    assert followed is not None
    followed.followers = watched = Watched(followed.followers)
    numbering.forget(9.0)
    numbering.forget(10.0)
    assert watched.looks == 0
    numbering.forget(10.5)
    assert watched.looks > 0
    assert not numbering.filters()


def test_a_node_with_many_filters_goes_on_following_all_of_them() -> None:
    """One message names a thousand; the others were forgotten by their publisher in time."""
    patterns = list(range(1200))
    script: list[dict[str, Any]] = [
        {"at": 0.0, "node": 1, "do": "subscribe", "patterns": patterns},
        *({"at": at, "node": 0, "do": "publish", "patterns": [1]} for at in (1.0, 100.0, 200.0)),
    ]
    raw = {
        "nodes": 2,
        "duration": 250.0,
        "topology": {"name": "abstract-tree"},
        "routing": {"name": "subscription-forwarding"},
        "recovery": {"name": "combined-pull"},
        "workload": {"script": script},
    }
    simulation = Simulation(parse_config(raw))
    simulation.run()
    publisher = simulation.network.nodes[0]
    assert publisher is not None
    assert isinstance(publisher.recovery, Counting)
    numbering = publisher.recovery.numbering
    assert len(numbering.filters()) == len(patterns)
    assert len(numbering.last_words()[1]) == len(patterns)


def test_a_publisher_lastso_many_filters_and_forgets_followers() -> None:
    numbering = Numbering(0, 16)
    for number in range(MOST_FILTERS):
        assert numbering.follow(Pattern(number), FOLLOWER, 0.0) is not None
    assert numbering.follow(Pattern(MOST_FILTERS), FOLLOWER, 0.0) is None
    numbering.follow(Pattern(1), 4, 50.0)
    numbering.forget(10.0)
    assert numbering.filters() == [Pattern(1)]
    assert numbering.marks(Event(PUBLISHER, 0, Patterns((1, 2))), 60.0) == MARK.pack(1, -1)
    assert list(numbering.tails(61.0)) == [4]
    assert numbering.tails(62.0) == {}


def test_a_publisher_that_starts_again_and_knows_one_filter_only_loses_no_count() -> None:
    """Its marks then say nothing of the other filter, which its events match all the same."""
    streams, first = Streams(), Numbering(1, 16)
    begin(first, streams, WORDS[:2])
    again = Numbering(2, 16)
    known, other = WORDS[0], WORDS[1]
    followed = again.follow(known, FOLLOWER, 0.0)
    assert followed is not None
    streams.started(PUBLISHER, Start(known, followed.index, -1, 0, -1, 0), 0.0, 0.0)
    made = Event(PUBLISHER, 0, Attributes({"x": 2}))
    made = Event(PUBLISHER, 0, made.content, b"", again.marks(made, 1.0))
    assert not streams.next_came(made, PUBLISHER, made.sequence, 16, 1.0)
    streams.arrived(made, streams.interests.matching(made), 1.0, room=True)
    later = again.follow(other, FOLLOWER, 2.0)
    assert later is not None
    streams.started(PUBLISHER, Start(other, later.index, -1, -1, 0, 0), 0.0, 2.0)
    assert len(streams.losses) == 0


def test_a_publisher_does_not_run_out_of_indices() -> None:
    """Strangers that follow other filters again and again use those of one life, over and over."""
    numbering = Numbering(0x7FFF, 16)
    lasting = numbering.follow(AttributeFilter("x >= 0"), FOLLOWER, 1e9)
    assert lasting is not None
    for sequence in range(20):
        indices = {lasting.index}
        for n in range(MOST_FILTERS - 1):
            followed = numbering.follow(AttributeFilter(f"a{sequence} = {n}"), FOLLOWER, 0.0)
            assert followed is not None
            indices.add(followed.index)
        assert len(indices) == MOST_FILTERS, "no two filters share an index"
        assert {index >> LIFE for index in indices} == {0x7FFF}, "the others are of other lives"
        made = Event(PUBLISHER, sequence, Attributes({"x": 1}))
        made = Event(PUBLISHER, sequence, made.content, b"", numbering.marks(made, 1.0))
        assert read_marks(made) == [(lasting.index, sequence + 1)]
        numbering.forget(1.0)
        assert numbering.filters() == [lasting.filter]


def test_long_filters_of_strangers_are_numbered_up_to_a_bound() -> None:
    numbering = Numbering(0, 16)
    taken = 0
    while numbering.follow(AttributeFilter(f"{'x' * 30_000}{taken} = 1"), FOLLOWER, 0.0):
        taken += 1
    assert 30_000 * taken <= MOST_BYTES < 30_010 * (taken + 1)
    numbering.forget(1.0)
    assert numbering.follow(AttributeFilter(f"{'x' * 30_000} = 1"), FOLLOWER, 2.0)


def test_a_filter_that_the_publisher_forgot_is_followed_anew() -> None:
    """A follower asks again by the publisher's name for its filter, which may be unknown then."""
    numbering, streams = Numbering(0, 16), Streams()
    begin(numbering, streams, [Pattern(1)])
    made = Event(PUBLISHER, 0, Patterns((1,)))
    made = Event(PUBLISHER, 0, made.content, b"", numbering.marks(made, 0.0))
    assert streams.next_came(made, PUBLISHER, 0, 16, 1.0)
    [(index, sequence)] = streams.named(PUBLISHER)
    assert sequence == 0, "what came in order is counted"
    assert numbering.still(index, FOLLOWER, 1.0) == 1
    assert numbering.still(index, 99, 1.0) == -1, "others are told nothing"
    numbering.forget(2.0)
    assert numbering.still(index, FOLLOWER, 3.0) == -1
    assert streams.told(PUBLISHER, (index, -1, 0), 3.0)
    assert streams.unfollowed(PUBLISHER, 3.0) == [Pattern(1)]


def test_events_one_after_the_other_carry_the_same_bytes() -> None:
    numbering = Numbering(0, 16)
    numbering.follow(Pattern(1), FOLLOWER, 0.0)
    numbering.follow(Pattern(2), FOLLOWER, 0.0)
    marks = [
        numbering.marks(Event(PUBLISHER, sequence, Patterns(numbers)), 0.0)
        for sequence, numbers in enumerate([(1,), (1,), (1, 2), (1, 2), (2,), (1,)])
    ]
    assert marks[0] == marks[1]
    assert marks[2] == marks[3]
    assert len({*marks}) == 4
