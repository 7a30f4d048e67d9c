"""The schemas of the recorded tables. Every table has the run's id in its first column.

Times are seconds of simulated (or, live, elapsed) time. Whatever a figure shows is computed from
these tables.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import pyarrow as pa

TableName: TypeAlias = Literal[
    "runs",
    "publications",
    "deliveries",
    "traffic",
    "routes",
    "links",
    "repairs",
    "messages",
    "notes",
    "loads",
    "reach",
    "air",
]

_RUN = pa.field("run_id", pa.string(), nullable=False)

SCHEMAS: dict[str, pa.Schema] = {
    # One row: a run, its whole configuration (JSON) and how it went.
    "runs": pa.schema(
        [
            _RUN,
            pa.field("seed", pa.int64()),
            pa.field("configuration", pa.string()),
            pa.field("code", pa.string()),
            pa.field("status", pa.string()),
            pa.field("error", pa.string()),
            pa.field("replay", pa.string()),
            pa.field("fingerprint", pa.string()),
            pa.field("nodes", pa.int32()),
            pa.field("reconfigurations", pa.int32()),
            pa.field("messages", pa.int64()),
            pa.field("lost", pa.int64()),
            pa.field("diameter", pa.int32()),
            pa.field("canonical", pa.bool_()),
            pa.field("wall_seconds", pa.float64()),
        ]
    ),
    # One row: an event published, how many should get it and how many did.
    "publications": pa.schema(
        [
            _RUN,
            pa.field("publisher", pa.int32()),
            pa.field("sequence", pa.int64()),
            pa.field("time", pa.float64()),
            pa.field("owed", pa.int32()),
            pa.field("received", pa.int32()),
            pa.field("owed_core", pa.int32()),
            pa.field("received_core", pa.int32()),
            pa.field("owed_others", pa.int32()),
            pa.field("received_others", pa.int32()),
            pa.field("reachable", pa.int32()),
        ]
    ),
    # One row: an event reaching a subscriber.
    "deliveries": pa.schema(
        [
            _RUN,
            pa.field("publisher", pa.int32()),
            pa.field("sequence", pa.int64()),
            pa.field("node", pa.int32()),
            pa.field("time", pa.float64()),
            pa.field("hops", pa.int32()),
            pa.field("wanted", pa.bool_()),
            pa.field("recovered", pa.bool_()),
        ]
    ),
    # One row: a kind of message in a time bin. `misrouted`: events sent where nobody wants them.
    "traffic": pa.schema(
        [
            _RUN,
            pa.field("kind", pa.string()),
            pa.field("time", pa.float64()),
            pa.field("count", pa.int64()),
            pa.field("misrouted", pa.int64()),
            pa.field("cost", pa.float64()),
            pa.field("bytes", pa.int64()),
            pa.field("nodes", pa.int32()),
        ]
    ),
    # One row: copies of events that went no further in a time bin, and why; hops summed over them.
    "routes": pa.schema(
        [
            _RUN,
            pa.field("why", pa.string()),
            pa.field("time", pa.float64()),
            pa.field("count", pa.int64()),
            pa.field("hops", pa.int64()),
            pa.field("deterministic", pa.int64()),
        ]
    ),
    # One row: a link up, down or replaced, and the repair it belongs to.
    "links": pa.schema(
        [
            _RUN,
            pa.field("time", pa.float64()),
            pa.field("a", pa.int32()),
            pa.field("b", pa.int32()),
            pa.field("change", pa.string()),
            pa.field("repair", pa.int64()),
        ]
    ),
    # One row: a link replaced by another, and how many nodes took part in repairing the tables.
    "repairs": pa.schema(
        [
            _RUN,
            pa.field("repair", pa.int64()),
            pa.field("broken_at", pa.float64()),
            pa.field("replaced_at", pa.float64()),
            pa.field("path_length", pa.int32()),
            pa.field("involved", pa.int32()),
            pa.field("last_message_at", pa.float64()),
        ]
    ),
    # One row: a message sent. Off by default; for one run looked at closely.
    "messages": pa.schema(
        [
            _RUN,
            pa.field("time", pa.float64()),
            pa.field("kind", pa.string()),
            pa.field("source", pa.int32()),
            pa.field("target", pa.int32()),
            pa.field("content", pa.string()),
        ]
    ),
    # One row: what a node that was up sent and received in a time bin, signs of life not counted.
    # Off by default. `requests`: those of the sent that were for itself.
    "loads": pa.schema(
        [
            _RUN,
            pa.field("time", pa.float64()),
            pa.field("node", pa.int32()),
            pa.field("sent", pa.int64()),
            pa.field("received", pa.int64()),
            pa.field("requests", pa.int64()),
        ]
    ),
    # One row: how far an event went. Off by default. `excused`: those who should have got it, and
    # crashed first.
    "reach": pa.schema(
        [
            _RUN,
            pa.field("publisher", pa.int32()),
            pa.field("sequence", pa.int64()),
            pa.field("time", pa.float64()),
            pa.field("copies", pa.int64()),
            pa.field("contacted", pa.int32()),
            pa.field("matching", pa.int32()),
            pa.field("in_vain", pa.int32()),
            pa.field("owed", pa.int32()),
            pa.field("excused", pa.int32()),
            pa.field("received", pa.int32()),
        ]
    ),
    # One row: what happened on a radio medium in a time bin; see docs/radio.md.
    "air": pa.schema(
        [
            _RUN,
            pa.field("time", pa.float64()),
            pa.field("frames", pa.int64()),
            pa.field("acknowledgements", pa.int64()),
            pa.field("receptions", pa.int64()),
            pa.field("collisions", pa.int64()),
            pa.field("deaf", pa.int64()),
            pa.field("faded", pa.int64()),
            pa.field("retries", pa.int64()),
            pa.field("given_up", pa.int64()),
            pa.field("queue_drops", pa.int64()),
            pa.field("expired", pa.int64()),
        ]
    ),
    # One row: something a protocol noted about itself. Off by default.
    "notes": pa.schema(
        [
            _RUN,
            pa.field("time", pa.float64()),
            pa.field("node", pa.int32()),
            pa.field("what", pa.string()),
            pa.field("peer", pa.int32()),
            pa.field("value", pa.string()),
        ]
    ),
}

TABLES: tuple[str, ...] = tuple(SCHEMAS)
