"""The channel's arrays at the start of a run, made from its parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shoal.simulation.air import state as s
from shoal.simulation.kernel import to_ns
from shoal.stack.chance import key_of

if TYPE_CHECKING:
    from shoal.simulation.air.parameters import MediumParameters

CELLS: Final = 4
"""Cells of the grid per node."""
FIRST_ROOM: Final = 64
"""Rows for frames, neighbours and time bins at the beginning."""
WEAKEST: Final = 0.05
"""Path loss: signals below this share of the weakest frame that can be received are ignored, unless
they make the channel busy."""
DETECTION: Final = 4_000
"""Nanoseconds of a preamble in which a receiver locks to it."""
MARGIN: Final = 10 ** (4 / 10)
"""Signal to interference, 4 dB, from which on a receiver locks to a preamble."""
CAPTURE_MARGIN: Final = 10.0
"""Signal to interference, 10 dB, from which on a receiver leaves one frame for another."""


def first_arrays(
    parameters: MediumParameters,
    nodes: int,
    seed: int,
    bin_ns: int,
    legs: Any,
    bounds: Any,
    heard: list[dict[int, float]] | None,
) -> s.Air:
    """All arrays of a channel, before anything is sent."""
    table = np.zeros((nodes, s.NODE_FIELDS), np.int64)
    for field in (s.SENDING, s.HEARING, s.HEAD, s.TAIL, s.ACKNOWLEDGES):
        table[:, field] = s.NOBODY
    table[:, s.ACCESS_AT] = s.NEVER
    table[:, s.WINDOW] = parameters.window
    if bounds is not None:
        table[:, s.LEG] = bounds[:-1]
        table[:, s.LAST_LEG] = bounds[1:]
    acknowledgements = np.zeros((nodes, s.FRAME_FIELDS), np.int64)
    acknowledgements[:, s.SOURCE] = np.arange(nodes)
    acknowledgements[:, s.AIRTIME] = parameters.ack_airtime()
    acknowledgements[:, s.EVENT] = s.NOBODY
    numbers = np.zeros(s.NUMBERS, np.int64)
    numbers[s.FREE] = s.NOBODY
    timers = np.arange(2 * nodes)
    purposes = ("back-off", "reception", "fading", "flooding jitter")
    width = min(nodes, FIRST_ROOM)
    if heard is not None:
        numbers[s.NEXT_LOOK] = s.NEVER
        width = max([1, *map(len, heard)])
    near, gain = np.zeros((nodes, width), np.int64), np.zeros((2 * nodes, width))
    for node, others in enumerate(heard or ()):
        table[node, s.NEAR] = len(others)
        near[node, : len(others)] = list(others)
        gain[node, : len(others)] = list(others.values())
    return s.Air(
        nodes=table,
        levels=np.zeros((nodes, s.LEVEL_FIELDS)),
        frames=acknowledgements,
        near=near,
        gain=gain,
        ears=np.zeros((nodes, width), np.int64),
        heap=np.array([timers, timers, np.full(2 * nodes, s.NEVER, np.int64)]),
        numbers=numbers,
        whole=whole_numbers(parameters, nodes, bin_ns, heard is not None),
        real=real_numbers(parameters),
        keys=np.array([key_of(seed, purpose) for purpose in purposes], np.uint64),
        counts=np.zeros((FIRST_ROOM, len(s.COUNTS) + 1), np.int64),
        out=np.zeros(nodes, np.int64),
        places=np.full((nodes, 2), np.nan),
        grid=np.zeros(CELLS * nodes + 3 * nodes, np.int64),
        legs=np.zeros((0, 6)) if legs is None else legs,
        events=np.zeros((0, 2), np.uint64),
        seen=np.zeros((0, 1 + (nodes - 1) // 64), np.uint64),
        pending=np.zeros((nodes, 4), np.int64),
        log=np.zeros((0, s.LOG_FIELDS), np.int64),
    )


def whole_numbers(parameters: MediumParameters, nodes: int, bin_ns: int, given: bool) -> Any:
    """The settings that are whole numbers, as columns of ``whole``."""
    slot, sifs = round(parameters.slot * 1e3), round(parameters.sifs * 1e3)
    difs, ack = sifs + 2 * slot, parameters.ack_airtime()
    slowest_ack = round(parameters.preamble * 1e3) + 112_000
    propagation = {"disc": s.DISC, "path loss": s.PATH_LOSS}[parameters.propagation]
    whole = np.zeros(s.WHOLE, np.int64)
    for field, value in {
        s.NODES: nodes,
        s.SLOT: slot,
        s.SIFS: sifs,
        s.DIFS: difs,
        s.EIFS: sifs + slowest_ack + difs if parameters.eifs else difs,
        s.SMALLEST_WINDOW: parameters.window,
        s.LARGEST_WINDOW: parameters.largest_window,
        s.LIMIT: parameters.attempts,
        s.QUEUE: parameters.queue,
        s.ACK_AIRTIME: ack,
        s.ACK_TIMEOUT: sifs + ack + slot,
        s.PREAMBLE: round(parameters.preamble * 1e3),
        s.DETECTION: DETECTION,
        s.CAPTURE: ("off", "first", "strongest").index(parameters.capture),
        s.PROPAGATION: s.GIVEN if given else propagation,
        s.FADING: parameters.fading != "none",
        s.STEP: to_ns(parameters.step),
        s.BIN: bin_ns,
        s.LIFETIME: to_ns(parameters.lifetime),
    }.items():
        whole[field] = value
    return whole


def real_numbers(parameters: MediumParameters) -> Any:
    """The settings that are not whole numbers, as columns of ``real``."""
    fades = parameters.propagation == "path loss"
    sensed = 10 ** (parameters.sense / 10)
    farthest = parameters.range * min(WEAKEST, sensed) ** (-1 / parameters.exponent)
    real = np.zeros(s.REAL)
    for field, value in {
        s.NOISE: 10 ** (parameters.noise / 10) if fades else 0.0,
        s.SENSED: sensed if fades else 0.5,
        s.LOCKED: MARGIN,
        s.STRONGER: CAPTURE_MARGIN,
        s.RATE: parameters.rate,
        s.REACH: parameters.range,
        s.EXPONENT: parameters.exponent,
        s.FARTHEST: farthest if fades else parameters.range,
    }.items():
        real[field] = value
    return real
