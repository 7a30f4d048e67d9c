"""A heap of timers, two per node, whose times change in place.

Timer n is node n's next access to the channel (or the end of its wait for an acknowledgement);
timer ``nodes + n`` the end of its transmission (or the start of its acknowledgement). ``heap[0]``
holds the timers as a binary heap, ``heap[1]`` the place of each, ``heap[2]`` its time. Equal times:
the smaller timer first.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

from shoal.simulation.air.arrays import inlined


@inlined
def set_timer(heap, timer, at):
    """Change a timer's time."""
    before = heap[2, timer]
    heap[2, timer] = at
    place = heap[1, timer]
    if at < before:
        while place > 0:
            above = (place - 1) >> 1
            other = heap[0, above]
            if heap[2, other] < at or (heap[2, other] == at and other < timer):
                break
            heap[0, place] = other
            heap[1, other] = place
            place = above
    else:
        size = heap.shape[1]
        while True:
            child = 2 * place + 1
            if child >= size:
                break
            other = heap[0, child]
            if child + 1 < size:
                right = heap[0, child + 1]
                if heap[2, right] < heap[2, other] or (
                    heap[2, right] == heap[2, other] and right < other
                ):
                    child += 1
                    other = right
            if heap[2, other] > at or (heap[2, other] == at and other > timer):
                break
            heap[0, place] = other
            heap[1, other] = place
            place = child
    heap[0, place] = timer
    heap[1, timer] = place
