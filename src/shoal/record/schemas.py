"""The schemas of the recorded tables. Every table has the run's id in its first column.

Times are seconds of simulated (or, live, elapsed) time. Whatever a figure shows is computed from
these tables.
"""

from __future__ import annotations

import pyarrow as pa


def columns(text: str) -> list[pa.Field]:
    """Columns from a text that lists each with its Arrow type: ``node int32, time double``."""
    return [pa.field(*column.split()) for column in text.split(",")]


def table(text: str) -> pa.Schema:
    """The schema of a table with the run's id and the columns that a text lists."""
    return pa.schema([pa.field("run_id", pa.string(), nullable=False), *columns(text)])


SCHEMAS: dict[str, pa.Schema] = {
    # One row: a run, its whole configuration (JSON) and how it went.
    "runs": table(
        "seed int64, configuration string, code string, status string, error string, "
        "replay string, fingerprint string, nodes int32, reconfigurations int32, messages int64, "
        "lost int64, diameter int32, canonical bool, wall_seconds double"
    ),
    # One row: an event published, how many should get it and how many did.
    "publications": table(
        "publisher int32, sequence int64, time double, owed int32, received int32, "
        "owed_core int32, received_core int32, owed_others int32, received_others int32, "
        "reachable int32"
    ),
    # One row: an event reaching a subscriber.
    "deliveries": table(
        "publisher int32, sequence int64, node int32, time double, hops int32, wanted bool, "
        "recovered bool"
    ),
    # One row: a kind of message in a time bin. `misrouted`: events sent where nobody wants them.
    "traffic": table(
        "kind string, time double, count int64, misrouted int64, cost double, bytes int64, "
        "nodes int32"
    ),
    # One row: copies of events that went no further in a time bin, and why; hops summed over them.
    "routes": table("why string, time double, count int64, hops int64, deterministic int64"),
    # One row: a link up or down, and the repair it belongs to.
    "links": table("time double, a int32, b int32, change string, repair int64"),
    # One row: a link replaced by another, and how many nodes took part in repairing the tables.
    "repairs": table(
        "repair int64, broken_at double, replaced_at double, path_length int32, involved int32, "
        "last_message_at double"
    ),
    # One row: a message sent. Off by default; for one run looked at closely.
    "messages": table("time double, kind string, source int32, target int32, content string"),
    # One row: what a node that was up sent and received in a time bin, without routine messages.
    # Off by default. `requests`: messages sent of the kind `request`.
    "loads": table("time double, node int32, sent int64, received int64, requests int64"),
    # One row: how far an event went. Off by default. `excused`: nodes that wanted it, and crashed
    # before they got it.
    "reach": table(
        "publisher int32, sequence int64, time double, copies int64, contacted int32, "
        "matching int32, in_vain int32, owed int32, excused int32, received int32"
    ),
    # One row: what happened on a radio medium in a time bin; see docs/radio.md.
    "air": table(
        "time double, frames int64, acknowledgements int64, receptions int64, collisions int64, "
        "deaf int64, faded int64, retries int64, given_up int64, queue_drops int64, expired int64"
    ),
    # One row: something a protocol noted about itself. Off by default.
    "notes": table("time double, node int32, what string, peer int32, value string"),
}

TABLES: tuple[str, ...] = tuple(SCHEMAS)
