"""Distances on the Earth, and the boxes of latitude and longitude that hold a circle."""

from __future__ import annotations

from math import asin, cos, degrees, inf, radians, sin, sqrt
from typing import Final

EARTH_RADIUS: Final = 6_371_008.8
"""Metres; the mean radius of the reference ellipsoid."""


def valid(latitude: float, longitude: float) -> bool:
    """Whether these are degrees on the Earth."""
    return -90 <= latitude <= 90 and -180 <= longitude <= 180


def distance(
    latitude: float, longitude: float, other_latitude: float, other_longitude: float
) -> float:
    """Metres along the great circle (haversine); infinite if either is no place on the Earth."""
    if not valid(latitude, longitude) or not valid(other_latitude, other_longitude):
        return inf
    north, east = radians(other_latitude - latitude), radians(other_longitude - longitude)
    across = cos(radians(latitude)) * cos(radians(other_latitude)) * sin(east / 2) ** 2
    return 2 * EARTH_RADIUS * asin(min(1.0, sqrt(sin(north / 2) ** 2 + across)))


def boxes(
    latitude: float, longitude: float, radius: float
) -> list[tuple[float, float, float, float]]:
    """One or two boxes (south, west, north, east) that together hold every place in the circle.

    They are a hair larger than they need be, so that rounding never loses a place.
    """
    if not valid(latitude, longitude) or not radius >= 0:
        return []
    angle = radius / EARTH_RADIUS * (1 + 1e-9) + 1e-9
    south, north = latitude - degrees(angle), latitude + degrees(angle)
    if south <= -90 or north >= 90:  # a pole is inside: every longitude
        return [(max(south, -90.0), -180.0, min(north, 90.0), 180.0)]
    spread = degrees(asin(min(1.0, sin(angle) / cos(radians(latitude))))) + 1e-7
    west, east = longitude - spread, longitude + spread
    if spread >= 180:
        return [(south, -180.0, north, 180.0)]
    if west < -180:
        return [(south, -180.0, north, east), (south, west + 360, north, 180.0)]
    if east > 180:
        return [(south, west, north, 180.0), (south, -180.0, north, east - 360)]
    return [(south, west, north, east)]
