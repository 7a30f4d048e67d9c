"""Positions of nodes, and which nodes sense each other. Compiled.

A node's track is rows of ``legs``: start, end, x, y, and the speed in x and y. A node is absent
where its track has no leg. Neighbours are found in a grid of cells as wide as radios reach.
"""

# mypy: disable-error-code="no-untyped-def"
# Numba infers the types; annotations would say less than the names do.

from __future__ import annotations

import math

import numpy as np

from shoal.simulation.air import state as s
from shoal.simulation.air.arrays import inlined, kernel


@inlined
def locate(nodes, places, legs, now):
    """Positions of all nodes at a time; NaN for absent ones. Time does not go back."""
    for node in range(places.shape[0]):
        leg = nodes[node, s.LEG]
        last = nodes[node, s.LAST_LEG]
        while leg < last and legs[leg, 1] < now:
            leg += 1
        nodes[node, s.LEG] = leg
        if leg < last and legs[leg, 0] <= now:
            passed = (now - legs[leg, 0]) * 1e-9
            places[node, 0] = legs[leg, 2] + passed * legs[leg, 4]
            places[node, 1] = legs[leg, 3] + passed * legs[leg, 5]
        else:
            places[node, 0] = np.nan
            places[node, 1] = np.nan


@kernel
def look(air, now):
    """List the nodes that sense each node; returns the most of a node, which may not fit."""
    nodes, near, gain, places, whole = air.nodes, air.near, air.gain, air.places, air.whole
    real, grid = air.real, air.grid
    if whole[s.PROPAGATION] == s.GIVEN:
        return 0
    locate(nodes, places, air.legs, now)
    count = places.shape[0]
    reach = real[s.FARTHEST]
    left, low, right, high = np.inf, np.inf, -np.inf, -np.inf
    for node in range(count):
        if places[node, 0] == places[node, 0]:
            left = min(left, places[node, 0])
            low = min(low, places[node, 1])
            right = max(right, places[node, 0])
            high = max(high, places[node, 1])
    if left == np.inf:
        for node in range(count):
            nodes[node, s.NEAR] = 0
        return 0
    # Lists of the nodes in each cell: the first in a cell, the next behind each, and its cell.
    first, behind, cell = grid[: -3 * count], grid[-3 * count : -2 * count], grid[-2 * count :]
    size = reach
    while (np.int64((right - left) / size) + 1) * (np.int64((high - low) / size) + 1) > len(first):
        size *= 2.0
    across = np.int64((right - left) / size) + 1
    up = np.int64((high - low) / size) + 1
    for at in range(across * up):
        first[at] = s.NOBODY
    for node in range(count - 1, -1, -1):  # so that lists of cells are in order
        if places[node, 0] == places[node, 0]:
            cell[2 * node] = np.int64((places[node, 0] - left) / size)
            cell[2 * node + 1] = np.int64((places[node, 1] - low) / size)
            at = cell[2 * node + 1] * across + cell[2 * node]
            behind[node] = first[at]
            first[at] = node
    most = 0
    for node in range(count):
        found = 0
        if places[node, 0] == places[node, 0]:
            x, y = cell[2 * node], cell[2 * node + 1]
            for row in range(max(0, y - 1), min(up, y + 2)):
                for column in range(max(0, x - 1), min(across, x + 2)):
                    other = first[row * across + column]
                    while other != s.NOBODY:
                        east = places[other, 0] - places[node, 0]
                        north = places[other, 1] - places[node, 1]
                        apart = east * east + north * north
                        if other != node and apart <= reach * reach:
                            if found < near.shape[1]:
                                near[node, found] = other
                                if whole[s.PROPAGATION] == s.PATH_LOSS:
                                    gain[node, found] = strength(real, math.sqrt(apart))
                            found += 1
                        other = behind[other]
        nodes[node, s.NEAR] = min(found, near.shape[1])
        most = max(most, found)
    return most


@inlined
def strength(real, metres):
    """The power received at a distance, relative to the weakest frame that can be received."""
    ratio = real[s.REACH] / max(metres, 1.0)
    if real[s.EXPONENT] == 2.0:  # free space; a power takes a tenth of a run's time
        return ratio * ratio
    return ratio ** real[s.EXPONENT]
