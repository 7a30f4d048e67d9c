"""Writes down what happens at a broker, as rows of the tables in :mod:`shoal.record`.

Rows gather in memory and leave every few seconds as Parquet files, one per table, named after the
broker, its session and a running number; a file is complete when it has its name. Where writing
fails (a full disk), rows are dropped, that is said once, and routing goes on. Times are those of
the wall clock; ``shoal report`` puts the files of all brokers together.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from shoal import extras
from shoal.live.errors import LiveError

if TYPE_CHECKING:
    from shoal.content import Event, Filter
    from shoal.live.broker import Broker
    from shoal.stack import Message, NodeId

log = logging.getLogger("shoal.live")
BIN: Final = 0.1
"""Width of the time bins of the traffic table, in seconds."""
MANY: Final = 200_000
"""Rows from which on they are written at once, before their turn."""
MOST: Final = 5 * MANY
"""Rows that wait at most; with more, the disk does not keep up and rows are dropped."""
_json = msgspec.json.Encoder()


class KindCount:
    """The traffic of one kind of message in one time bin."""

    __slots__ = ("bytes", "cost", "count", "received")

    def __init__(self) -> None:
        self.count = self.bytes = self.received = 0
        self.cost = 0.0


class Recording:
    """One broker's tables."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder = folder
        self.state = "on"
        self.dropped = 0
        self._node = broker.node
        self._run = broker.settings.run
        self._rotate = broker.settings.rotate
        self._loop = broker.loop
        self._start = time.time() - broker.loop.time()
        self._stem = f"{broker.node}-{broker.epoch}"
        self._files = 0
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._count = 0
        self._traffic: dict[tuple[str, int], KindCount] = {}
        self._routes: dict[tuple[str, int], list[int]] = {}
        self._soon = asyncio.Event()
        self._writing = threading.Lock()
        extras.require("simulate", "recording", "pyarrow")
        if not re.fullmatch(r"(?!part-)[\w-]+", self._run):  # it becomes the name of a file
            raise LiveError(f"run {self._run!a:.80} cannot be used; take letters, digits, - and _")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LiveError(
                f"cannot record in {folder}: {error.strerror}; check --record"
            ) from None
        facts = {"stack": broker.described, "name": broker.name, "overlay": broker.settings.overlay}
        self.noted("started", -1, _json.encode(facts).decode())

    def _now(self) -> float:
        return self._start + self._loop.time()

    def _add(self, table: str, row: tuple[Any, ...]) -> None:
        if self._count >= MOST:
            self._failed(OSError("the disk does not keep up"), 1)
            return
        self._rows.setdefault(table, []).append(row)
        self._count += 1
        if self._count >= MANY:
            self._soon.set()

    # What happens

    def published(self, event: Event) -> None:
        """A client of this broker publishes."""
        now = self._now()
        self._add("publications", (event.publisher, event.sequence, now, *[None] * 7))
        what = _json.encode([event.sequence, event.content]).decode()
        self._add("notes", (now, self._node, "published", -1, what))

    def delivered(self, event: Event, hops: int, recovered: bool) -> None:
        """An event reaches this broker's clients."""
        row = (event.publisher, event.sequence, self._node, self._now(), hops, True, recovered)
        self._add("deliveries", row)

    def _kind(self, message: Message) -> KindCount:
        key = (type(message).kind(), int(self._now() / BIN))
        count = self._traffic.get(key)
        if count is None:
            count = self._traffic[key] = KindCount()
        return count

    def sent(self, message: Message, size: int) -> None:
        """A message leaves for a neighbour."""
        count = self._kind(message)
        count.count += 1
        count.bytes += size
        count.cost += message.weight()

    def received(self, message: Message) -> None:
        """A message arrives from a neighbour."""
        self._kind(message).received = 1

    def stopped(self, why: str, hops: int, deterministic: int) -> None:
        """A copy of an event goes no further."""
        found = self._routes.setdefault((why, int(self._now() / BIN)), [0, 0, 0])
        found[0] += 1
        found[1] += hops
        found[2] += deterministic

    def link(self, to: NodeId, change: str, repair: int) -> None:
        """A link comes or goes, for a repair or (-1) for none."""
        self._add("links", (self._now(), self._node, to, change, repair))

    def wanted(self, filter: Filter, yes: bool) -> None:
        """Clients here want a filter, or no longer."""
        what = "subscribed" if yes else "unsubscribed"
        self.noted(what, -1, _json.encode(filter).decode())

    def noted(self, what: str, peer: NodeId, value: str) -> None:
        """A protocol, or the broker, notes something."""
        self._add("notes", (self._now(), self._node, what, peer, value))

    # Files

    async def run(self) -> None:
        """Write what has gathered, again and again."""
        while True:
            try:
                async with asyncio.timeout(self._rotate):
                    await self._soon.wait()
            except TimeoutError:
                pass
            self._soon.clear()
            self.noted("alive", -1, str(self.dropped or ""))
            await asyncio.to_thread(self._write, self._remove_rows())

    def close(self) -> None:
        """Write the rest."""
        self.noted("stopped", -1, str(self.dropped or ""))
        self._write(self._remove_rows())

    def _remove_rows(self) -> dict[str, list[tuple[Any, ...]]]:
        rows, self._rows, self._count = self._rows, {}, 0
        traffic, self._traffic = self._traffic, {}
        routes, self._routes = self._routes, {}
        if traffic:
            rows["traffic"] = [
                (kind, at * BIN, c.count, 0, c.cost, c.bytes, c.received)
                for (kind, at), c in traffic.items()
            ]
        if routes:
            rows["routes"] = [(why, at * BIN, *found) for (why, at), found in routes.items()]
        return rows

    def _write(self, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        with self._writing:  # the last rows may come while others are being written
            self._write_files(tables)

    def _write_files(self, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from shoal.record import SCHEMAS

        self._files += 1
        for name, rows in tables.items():
            schema = SCHEMAS[name]
            columns = [[self._run] * len(rows), *zip(*rows, strict=True)]
            arrays = [
                pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
            ]
            folder = self.folder / "tables" / name
            path = folder / f"{self._stem}-{self._files:06}.parquet"
            partial = folder / f".{path.name}.partial"
            try:
                folder.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.Table.from_arrays(arrays, schema=schema), partial)
                partial.replace(path)
            except OSError as error:
                self._failed(error, len(rows))
                _remove(partial)
            else:
                if self.state != "on":
                    log.warning("recording works again; %d rows are missing", self.dropped)
                    self.state = "on"

    def _failed(self, error: OSError, rows: int) -> None:
        self.dropped += rows
        if self.state == "on":
            what = error.strerror or str(error)
            self.state = f"failing: {what}"
            log.warning(
                "cannot record in %s: %s; rows are dropped until that is mended, routing goes on",
                self.folder,
                what,
            )


def _remove(path: Path) -> None:
    with suppress(OSError):  # there is nothing to remove, or it will be seen as partial
        path.unlink()
