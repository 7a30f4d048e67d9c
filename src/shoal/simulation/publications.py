"""When events are published and what is in them, drawn as arrays."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from shoal.simulation.draws import below_array, bits_array, uniform_array
from shoal.simulation.kernel import NANOSECONDS, to_ns
from shoal.stack import Chance, StackError

if TYPE_CHECKING:
    from shoal.simulation.workload import Workload, WorkloadParameters

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
AHEAD = 32  # draws made for all events at once


def plan_publications(
    workload: Workload, parameters: WorkloadParameters, nodes: int, duration: float, seed: int
) -> None:
    """Draw times and contents of all events into a workload whose subscriptions are drawn."""
    start, end = parameters.publish_window or (0.0, duration)
    draw = _periodic if parameters.publishing == "periodic" else _poisson
    node, k, seconds = draw(nodes, parameters.rate(nodes), min(end, duration) - start, seed)
    times = np.rint((start + seconds) * NANOSECONDS).astype(np.int64)
    order = np.lexsort((node, times))
    order = order[times[order] < to_ns(min(end, duration))]
    node, k = node[order], k[order]
    workload.times = times[order]
    workload.publishers = node.astype(np.int64)
    if parameters.receivers is not None:
        _choose_receivers(workload, parameters, parameters.receivers, seed)
        return
    count = parameters.patterns_per_event
    if parameters.distinct:
        numbers = _distinct(node, k, count, parameters.patterns, seed)
    else:
        numbers = _numbers(node, k, count, parameters.patterns, seed)
    workload.numbers = numbers.ravel()
    workload.ends = np.arange(1, len(node) + 1, dtype=np.int64) * count


def _periodic(nodes: int, rate: float, span: float, seed: int) -> tuple[Words, Words, Floats]:
    """Each dispatcher once in every period, at a random instant within it."""
    periods = max(0, ceil(span * rate))  # the last one may go beyond the end
    node = np.repeat(np.arange(nodes, dtype=np.uint64), periods)
    k = np.tile(np.arange(periods, dtype=np.uint64), nodes)
    phase = uniform_array(seed, "publication times", node, k)
    return node, k, (k + phase) / rate if periods else phase


def _poisson(nodes: int, rate: float, span: float, seed: int) -> tuple[Words, Words, Floats]:
    """Each dispatcher after exponentially distributed pauses."""
    mean = max(0.0, span * rate)
    enough = int(mean + 8 * mean**0.5 + 16)
    node = np.arange(nodes, dtype=np.uint64)[:, None]
    k = np.arange(enough, dtype=np.uint64)[None, :]
    drawn = uniform_array(seed, "publication pauses", node, k)
    if not rate:
        drawn = drawn[:, :0]
    at = np.cumsum(-np.log1p(-drawn), axis=1) / (rate or 1.0)
    row, column = np.nonzero(at < span)
    return row.astype(np.uint64), column.astype(np.uint64), at[row, column]


def _numbers(node: Words, k: Words, count: int, patterns: int, seed: int) -> Ints:
    """Independent draws: one row per event."""
    each = np.arange(count, dtype=np.uint64)
    drawn = uniform_array(seed, "publications", node[:, None], k[:, None], each[None, :])
    return (drawn * patterns).astype(np.int64)


def _distinct(node: Words, k: Words, count: int, patterns: int, seed: int) -> Ints:
    """The first ``count`` different ones among independent draws."""
    events = len(node)
    rows = np.arange(events)
    taken = np.zeros((events, patterns), bool)
    found = np.zeros(events, np.int64)
    numbers = np.zeros((events, count), np.int64)
    draw = 0
    while events and int(found.min()) < count:
        which = np.full(events, draw, np.uint64)
        drawn = uniform_array(seed, "publications", node, k, which)
        number = (drawn * patterns).astype(np.int64)
        new = ~taken[rows, number] & (found < count)
        taken[rows, number] = True
        numbers[rows[new], found[new]] = number[new]
        found += new
        draw += 1
    return numbers


def _choose_receivers(
    workload: Workload, parameters: WorkloadParameters, receivers: int, seed: int
) -> None:
    """Choose each event's patterns in random order, without those that want too many receivers."""
    wanted: list[set[int]] = [set() for _ in range(parameters.patterns)]
    for _, node, number, _ in workload.by_number():
        wanted[number].add(node)
    events = np.arange(len(workload.publishers), dtype=np.uint64)
    ahead = np.arange(min(AHEAD, len(wanted)), dtype=np.uint64)
    bits = bits_array(seed, "receivers", events[:, None], ahead[None, :])
    draws = below_array(bits, len(wanted) - ahead).tolist()
    chance = Chance(seed, "receivers")  # for the few events that need more draws
    numbers: list[int] = []
    ends: list[int] = []
    for event, publisher in enumerate(workload.publishers.tolist()):
        _one_content(wanted, publisher, receivers, chance, event, draws[event], numbers)
        ends.append(len(numbers))
    workload.numbers = np.array(numbers, np.int64)
    workload.ends = np.array(ends, np.int64)


def _one_content(
    wanted: list[set[int]],
    publisher: int,
    receivers: int,
    chance: Chance,
    event: int,
    draws: list[int],
    numbers: list[int],
) -> None:
    """Append the patterns of one event to ``numbers``."""
    chosen: set[int] = set()
    moved: dict[int, int] = {}  # a shuffle of all patterns, made only as far as it is needed
    for i in range(len(wanted)):
        j = i + (draws[i] if i < AHEAD else chance.below(len(wanted) - i, event, i))
        number = moved.get(j, j)
        moved[j] = moved.get(i, i)
        asking = wanted[number]
        if len(asking) > receivers + 1:  # one of them may be the publisher
            continue
        both = chosen | asking
        both.discard(publisher)
        if len(chosen) < len(both) <= receivers:
            chosen = both
            numbers.append(number)
            if len(chosen) == receivers:
                return
    raise StackError(
        f"workload: no event of node {publisher} has exactly {receivers} receivers; "
        "ask for fewer, or for more patterns"
    )
