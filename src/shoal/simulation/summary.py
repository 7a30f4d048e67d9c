"""What a run came to, in a few numbers: for a screen, a notebook or another program."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import msgspec
import pyarrow.compute as pc

if TYPE_CHECKING:
    from shoal.simulation.result import RunResult


class Traffic(msgspec.Struct, frozen=True):
    """All messages of one kind."""

    kind: str
    messages: int
    misrouted: int | None
    """Events sent where nobody wants them; None where links form no tree: there it is not known."""
    cost: float
    bytes: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run in numbers. What a run did not record, or does not have, is None."""

    nodes: int
    events: int | None
    """Events published."""
    owed: int | None
    """Deliveries due: one for each event and each node that wanted it when it was published."""
    received: int | None
    """Deliveries made of those due."""
    delivery: float | None
    """The share of the deliveries due that were made."""
    messages: int
    all_messages_per_event: float | None
    """Messages of all kinds for each event published, as the measure of that name."""
    lost: int
    """Messages lost on their way."""
    links_replaced: int
    diameter: int | None
    """Hops between the two most distant nodes of the first tree."""
    acyclic: bool
    """Whether links had to form a forest at every instant, which was checked."""
    canonical: bool | None
    """Whether all tables at rest were the oracle's; None where the routing keeps none."""
    traffic: tuple[Traffic, ...]
    run_id: str
    fingerprint: str
    wall_seconds: float

    def facts(self) -> list[tuple[str, str]]:
        """Names and values, as a person reads them."""
        facts = []
        if self.events is not None and self.owed is not None and self.received is not None:
            share = "" if self.delivery is None else f" ({percent(self.delivery)})"
            facts.append(("events published", f"{self.events:,}"))
            made = f"{self.received:,} of {self.owed:,}{share}"
            facts.append(("deliveries made of those owed", made))
        if self.all_messages_per_event is not None:
            facts.append(("all messages per event", f"{self.all_messages_per_event:,.1f}"))
        facts.append(("links replaced", f"{self.links_replaced:,}"))
        facts.append(("messages lost on their way", f"{self.lost:,}"))
        if self.diameter is not None:
            facts.append(("diameter of the first tree", f"{self.diameter:,}"))
        facts.append(("invariants", self._invariants()))
        facts.append(("fingerprint", self.fingerprint))
        facts.append(("run", self.run_id))
        rate = self.messages / self.wall_seconds if self.wall_seconds else 0
        facts.append(("took", f"{self.wall_seconds:.2f} s ({rate:,.0f} messages/s)"))
        return facts

    def _invariants(self) -> str:
        if self.canonical is False:
            return "violated: tables at rest differ from the oracle's"
        held = ["no event twice"]
        if self.acyclic:
            held.append("no cycle at any instant")
        if self.canonical:
            held.append("tables at rest as the oracle's")
        return f"held: {', '.join(held)}"

    def __str__(self) -> str:
        facts = self.facts()
        width = max(len(name) for name, _ in facts)
        return "\n".join(f"{name:{width}}  {value}" for name, value in facts)

    def _repr_html_(self) -> str:
        """For notebooks: the facts, then the traffic by kind of message."""
        facts = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th>"
            f"<td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self.facts()
        )
        kinds = "".join(
            f"<tr><th style='text-align:left'>{escape(row.kind)}</th><td>{row.messages:,}</td>"
            f"<td>{'–' if row.misrouted is None else row.misrouted}</td>"
            f"<td>{row.cost:,.0f}</td><td>{row.bytes:,}</td></tr>"
            for row in self.traffic
        )
        head = "".join(f"<th>{name}</th>" for name in Traffic.__struct_fields__)
        return f"<table>{facts}</table><table><tr>{head}</tr>{kinds}</table>"


def percent(share: float) -> str:
    """A share in two digits; 100.00% is nothing but all."""
    return f"{share if share == 1 else min(share, 0.9999):.2%}"


def summarise(result: RunResult) -> Summary:
    """Sum up a run from its tables."""
    events = owed = received = delivery = None
    if "publications" in result.tables:
        published = result.tables["publications"]
        events = published.num_rows
        owed = pc.sum(published["owed"]).as_py() or 0
        received = pc.sum(published["received"]).as_py() or 0
        delivery = received / owed if owed else None
    return Summary(
        nodes=result.nodes,
        events=events,
        owed=owed,
        received=received,
        delivery=delivery,
        messages=result.messages,
        all_messages_per_event=result.messages / events if events else None,
        lost=result.lost,
        links_replaced=result.reconfigurations,
        diameter=result.diameter,
        acyclic=result.acyclic,
        canonical=result.canonical,
        traffic=_traffic(result),
        run_id=result.run_id,
        fingerprint=result.fingerprint,
        wall_seconds=result.wall_seconds,
    )


def _traffic(result: RunResult) -> tuple[Traffic, ...]:
    if "traffic" not in result.tables:
        return ()
    sums = [(name, "sum") for name in ("count", "misrouted", "cost", "bytes")]
    grouped = result.tables["traffic"].group_by("kind").aggregate(sums).sort_by("kind")
    columns = ["kind", *(f"{name}_sum" for name, _ in sums)]
    rows = zip(*(grouped[name].to_pylist() for name in columns), strict=True)
    return tuple(
        Traffic(kind, count, misrouted if result.acyclic else None, cost, size)
        for kind, count, misrouted, cost, size in rows
    )
