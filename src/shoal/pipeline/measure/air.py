"""Measures of a radio medium: frames, who received them, and why others did not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.measure.registry import over, total

if TYPE_CHECKING:
    from pyspark.sql import Column


@over("air", unit="frames")
def air_frames() -> Column:
    """Frames transmitted, each attempt counted, acknowledgements not."""
    return total("frames")


@over("air", unit="receptions")
def receptions_per_frame() -> Column:
    """Nodes that received a frame, on average."""
    return F.try_divide(total("receptions"), total("frames"))


@over("air", unit="share")
def collision_share() -> Column:
    """Share of what nodes in range could have received that was lost to overlapping frames."""
    lost = total("collisions")
    every = lost + total("receptions") + total("deaf") + total("faded")
    return F.try_divide(lost, every)


@over("air", unit="share")
def retry_share() -> Column:
    """Share of the transmitted frames that repeated one that was not acknowledged."""
    return F.try_divide(total("retries"), total("frames"))


@over("air", unit="frames")
def air_drops() -> Column:
    """Frames that were not sent, or in vain: dropped by a full queue, too old, or given up."""
    return total("queue_drops") + total("expired") + total("given_up")
