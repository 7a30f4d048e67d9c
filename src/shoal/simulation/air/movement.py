"""Where nodes are, and who senses whom. Compiled.

A node's track is rows of ``legs``: start, end, x, y, and the speed in x and y; nodes that are
absent for a while have no leg then. Neighbours are found in a grid of cells as wide as radios
reach.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import math

import numpy as np

from shoal.simulation.air.reception import kernel
from shoal.simulation.air.state import (
    EXPONENT,
    FARTHEST,
    GIVEN,
    LAST_LEG,
    LEG,
    NEAR,
    NOBODY,
    PATH_LOSS,
    PROPAGATION,
    REACH,
)


@kernel
def locate(nodes, places, legs, now):
    """Where all nodes are at a time; NaN where they are absent. Time does not go back."""
    for node in range(places.shape[0]):
        leg = nodes[node, LEG]
        last = nodes[node, LAST_LEG]
        while leg < last and legs[leg, 1] < now:
            leg += 1
        nodes[node, LEG] = leg
        if leg < last and legs[leg, 0] <= now:
            passed = (now - legs[leg, 0]) * 1e-9
            places[node, 0] = legs[leg, 2] + passed * legs[leg, 4]
            places[node, 1] = legs[leg, 3] + passed * legs[leg, 5]
        else:
            places[node, 0] = np.nan
            places[node, 1] = np.nan


@kernel
def look(nodes, near, gain, places, legs, whole, real, now):
    """Work out who senses whom; the largest number of neighbours, which may be too many."""
    if whole[PROPAGATION] == GIVEN:
        return 0
    locate(nodes, places, legs, now)
    count = places.shape[0]
    reach = real[FARTHEST]
    left, low, right, high = np.inf, np.inf, -np.inf, -np.inf
    for node in range(count):
        if places[node, 0] == places[node, 0]:
            left = min(left, places[node, 0])
            low = min(low, places[node, 1])
            right = max(right, places[node, 0])
            high = max(high, places[node, 1])
    if left == np.inf:
        for node in range(count):
            nodes[node, NEAR] = 0
        return 0
    size = max(reach, max(right - left, high - low) / 200.0)
    across = np.int64((right - left) / size) + 1
    up = np.int64((high - low) / size) + 1
    first = np.full(across * up, NOBODY, np.int64)
    behind = np.empty(count, np.int64)
    cell = np.empty((count, 2), np.int64)
    for node in range(count - 1, -1, -1):  # so that lists of cells are in order
        if places[node, 0] == places[node, 0]:
            cell[node, 0] = np.int64((places[node, 0] - left) / size)
            cell[node, 1] = np.int64((places[node, 1] - low) / size)
            at = cell[node, 1] * across + cell[node, 0]
            behind[node] = first[at]
            first[at] = node
    most = 0
    for node in range(count):
        found = 0
        if places[node, 0] == places[node, 0]:
            for row in range(max(0, cell[node, 1] - 1), min(up, cell[node, 1] + 2)):
                for column in range(max(0, cell[node, 0] - 1), min(across, cell[node, 0] + 2)):
                    other = first[row * across + column]
                    while other != NOBODY:
                        x = places[other, 0] - places[node, 0]
                        y = places[other, 1] - places[node, 1]
                        apart = x * x + y * y
                        if other != node and apart <= reach * reach:
                            if found < near.shape[1]:
                                near[node, found] = other
                                if whole[PROPAGATION] == PATH_LOSS:
                                    gain[node, found] = strength(real, math.sqrt(apart))
                            found += 1
                        other = behind[other]
        nodes[node, NEAR] = min(found, near.shape[1])
        most = max(most, found)
    return most


@kernel
def strength(real, metres):
    """The power received at a distance, relative to the weakest frame that can be received."""
    return (real[REACH] / max(metres, 1.0)) ** real[EXPONENT]
