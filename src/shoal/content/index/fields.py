"""The tables that describe an index to its kernels: what lies where.

Everything is reached from one table of 64-bit numbers, most of them addresses: the index, its
segments, their groups, and the cuts of each column. A name here is a position in such a table.
"""

from __future__ import annotations

# Goes up whenever what lies in memory comes to mean something else: stored indexes and the
# extension (single.c) must agree with it.
LAYOUT = 5

# An id carries two flags: other lanes of its filter may match too; the reference must decide.
ID_MASK, SHARED, OPAQUE, DEAD = 0x3FFFFFFF, 0x80000000, 0x40000000, 0xFFFFFFFF
# Codes: odd on a cut, even between two; a bound with an odd code is exact.
FIRST_CUT = 3  # the code of the lowest cut
UNBOUNDED = 1  # the code of a lower bound at minus infinity; at infinity: ``2 cuts + 3``
ABSENT = 65535  # the code of an attribute that is not there: above every bound
MAX_CUTS = 32764
NEGATED = 0x80000000  # a predicate that must not hold, flagged in its column
MAX_KEYS = 4  # columns of a group
BLOCK = 64  # lanes of a block: as many as are compared at once
TILE = 256  # events matched together on one group after the other, 64 at a time
MARKS = TILE // 8  # bytes that hold a bit for each of them
ROOM = 1 << 16  # ids that an event of a tile may find; beyond, events are matched one by one
SLACK = 64  # ids that a kernel may write beyond the last
MAX_SNAPSHOTS = 4  # generations of cuts alive at once
MAX_CELLS = 8192  # of the table that starts the search for a value's code

# The index: one table of 64-bit numbers. Each name is a position in it.
(
    COLUMNS,
    SEGMENTS,
    SEGMENT_TABLE,
    SNAPSHOTS,
    SNAPSHOT_TABLE,
    RECENT,
    RECENT_START,
    RECENT_IDS,
    RECENT_COLUMNS,
    RECENT_LOW,
    RECENT_HIGH,
    SEEN,
    TOUCHED,
    TOUCHED_COUNT,
    READY,  # 1 while all of this is up to date and nobody is at work on it
    SCRATCH_CODES,
    SCRATCH_KEYS,
    SCRATCH_OUT,
    INDEX_SIZE,
) = range(19)
# A segment.
(
    SNAPSHOT,
    FREE_GROUPS,
    GROUP_COUNT,
    GROUP_STARTS,
    GROUP_COLUMNS,
    GROUP_TABLE,
    HANDLES,
    HANDLE_COUNT,
    PLACES,
    FLAGGED,
    LIVE,
    SEGMENT_SIZE,
) = range(12)
# A group. What every event needs lies in the first 64 bytes; EXACT: 0 where codes are exact.
WIDTH, BLOCKS, BOUNDS, ZONES, KEYS = range(5)
(
    EXACT,
    SUPERS,
    IDS,
    ALIVE,
    SPECIAL,
    SLOTS,
    SLOT_COUNT,
    RESIDUAL_LANES,
    RESIDUAL_START,
    RESIDUAL_COLUMNS,
    RESIDUAL_CODES,
    RESIDUAL_EXACT,
) = (KEYS + MAX_KEYS, *range(KEYS + 2 * MAX_KEYS, KEYS + 2 * MAX_KEYS + 11))
GROUP_SIZE = 24
SMALL = 8  # blocks of a group whose zone maps are packed into a few cache lines

# A tile of events; spreading.py says what lies where.
TILE_CODES, TILE_KEYS, TILE_MARKS, TILE_ROWS, TILE_ROW_COUNT, TILE_FOUND, TILE_SIZE = range(7)

# One column's cuts in a snapshot.
CUTS, CUT_COUNT, CUT_CELLS, CUT_BASE, CUT_SCALE, CUT_LAST_CELL, CUT_SIZE = range(7)
