"""Parameters of a radio medium; the defaults are those of 802.11b."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from shoal.stack import StackError

Metres = Annotated[float, msgspec.Meta(ge=1e-3, le=1e9)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
Micro = Annotated[float, msgspec.Meta(ge=1e-3, le=1e6)]
RATES = (1e6, 2e6, 5.5e6, 11e6)
"""The bit rates of 802.11b; broadcasts usually take one of the first two."""
ACK_BYTES = 14


class MediumParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One 802.11b channel, which all radios share."""

    range: Metres = 200.0
    """Metres within which a frame can be received."""
    propagation: Literal["disc", "path loss"] = "disc"
    """Equal power within the range and none beyond, or power that falls with the distance."""
    exponent: Annotated[float, msgspec.Meta(ge=1, le=8)] = 2.0
    """Path loss: the power falls with this power of the distance (2: free space)."""
    fading: Literal["none", "rayleigh"] = "none"
    """Path loss: ``rayleigh`` draws the power of every frame at every receiver."""
    noise: Annotated[float, msgspec.Meta(ge=-100, le=0)] = -11.6
    """Path loss: noise in dB relative to the weakest frame that can be received (-93.6 dBm)."""
    sense: Annotated[float, msgspec.Meta(ge=-30, le=60)] = 0.0
    """Path loss: total power from which on the channel is busy, in dB relative to that frame."""
    capture: Literal["off", "first", "strongest"] = "first"
    """Reception of frames that overlap: none; the first, if interference leaves its bits right; or
    also a later one that is 10 dB stronger than all else."""
    rate: Annotated[float, msgspec.Meta(gt=0)] = 2e6
    """Bits a second: 1e6, 2e6, 5.5e6 or 11e6."""
    preamble: Micro = 192.0
    """Microseconds of a frame's preamble and header (96: short)."""
    slot: Micro = 20.0
    """Microseconds of a back-off slot."""
    sifs: Micro = 10.0
    """Microseconds between a frame and its acknowledgement."""
    eifs: bool = True
    """Wait longer than DIFS (SIFS and two slots) after a frame that could not be read."""
    window: Annotated[int, msgspec.Meta(ge=1, le=32_767)] = 31
    """Slots of the first contention window."""
    largest_window: Annotated[int, msgspec.Meta(ge=1, le=32_767)] = 1023
    """Slots of the largest contention window; each failed attempt doubles the window."""
    attempts: Annotated[int, msgspec.Meta(ge=1, le=255)] = 7
    """Transmissions of a unicast frame before it is given up."""
    queue: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 500
    """Frames that wait in a node; more are dropped."""
    lifetime: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 0.5
    """Seconds after which a frame that has not been sent is dropped."""
    overhead: Annotated[int, msgspec.Meta(ge=0, le=1000)] = 36
    """Bytes that the MAC (28) and LLC (8) add to every message."""
    largest_frame: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 2304
    """Bytes of the largest message; a larger one is an error."""
    event_bytes: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 200
    """Bytes of a message for each event that it carries."""
    event_transport: Literal["broadcast", "unicast"] = "broadcast"
    """Events for several neighbours: one frame that names them all and is not acknowledged, or one
    acknowledged frame for each."""
    event_jitter: Seconds = 0.01
    """Seconds, drawn at random up to this, that an event waits before it is broadcast to
    neighbours: others that received it would send it on at the same moment."""
    step: Annotated[float, msgspec.Meta(ge=1e-3, le=1e6)] = 0.1
    """Seconds between two updates of nodes' positions."""
    joining: Seconds = 0.0
    """Seconds within which nodes start, at times drawn at random."""

    def check(self) -> None:
        """Refuse what no single field shows to be wrong."""
        if self.rate not in RATES:
            known = ", ".join(f"{rate:g}" for rate in RATES)
            raise StackError(f"rate: {self.rate:g} bit/s is no rate of 802.11b; one of: {known}")
        if self.largest_window < self.window:
            raise StackError(
                f"largest_window: {self.largest_window} is smaller than window, {self.window}"
            )
        if self.event_bytes > self.largest_frame:
            raise StackError(
                f"event_bytes: {self.event_bytes} is more than largest_frame, {self.largest_frame}"
            )
        if self.propagation == "disc" and self.fading != "none":
            raise StackError("fading: a disc has none; set propagation = 'path loss'")

    def airtime(self, size: int) -> int:
        """Nanoseconds that a message of so many bytes is on the air."""
        bits = 8 * (size + self.overhead)
        return round(self.preamble * 1e3 + bits * 1e9 / self.rate)

    def ack_airtime(self) -> int:
        """Nanoseconds of an acknowledgement, at 2 Mbit/s if the rate allows that."""
        return round(self.preamble * 1e3 + 8 * ACK_BYTES * 1e9 / min(self.rate, 2e6))


class AirParameters(MediumParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Radios in a rectangle, still or moving, on one channel."""

    width: Metres = 1000.0
    """Metres from west to east."""
    height: Metres = 1000.0
    """Metres from south to north."""
    model: Literal["random waypoint", "random direction", "still"] = "random waypoint"
    """Model by which nodes move."""
    speed: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 1.0
    """Metres a second."""
    slowest: Annotated[float, msgspec.Meta(gt=0, le=1e6)] | None = None
    """Random waypoint: speeds are drawn from here to ``speed``; all the same if not given."""
    pause: Seconds = 5.0
    """Seconds that a node rests where it arrives."""
    steady: bool = True
    """Random waypoint: begin in its steady state, and not with all nodes on their way."""
    connected: bool = False
    """Draw placements until all nodes are connected at the start."""
    places: tuple[tuple[float, float], ...] = ()
    """Places of nodes, in metres; with places nodes do not move."""


class AirTracksParameters(MediumParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Radios that move as recorded, on one channel."""

    path: str
    """A file of recorded positions."""
    format: Literal["bonnmotion", "ns2", "positions"] = "positions"
    """Format of the file."""
    start: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds of the recording to leave out."""
    stay: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds from ``start`` on for which a node must be present to be taken."""
    area: tuple[float, float, float, float] | None = None
    """Least x and y, greatest x and y: a position outside is an error."""


class AirMeshParameters(MediumParameters, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Radios of a community mesh: who hears whom, and how well, is measured."""

    path: str
    """A file with the links of a mesh and their qualities."""
