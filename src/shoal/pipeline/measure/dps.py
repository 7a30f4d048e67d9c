"""Measures of DPS (Anceaume et al.): who is contacted, who has how much to do, what is delivered.

The last part looks at the groups that nodes were in at the end of a run (what they *noted*).
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Literal

from pyspark.sql import functions as F  # noqa: N812  # the name everybody uses

from shoal.pipeline.measure.cases import Value, case
from shoal.pipeline.measure.registry import (
    EVER,
    Tables,
    between,
    done,
    measure,
    over,
    tidy,
    total,
    with_rows,
)
from shoal.pipeline.measure.run_view import Run
from shoal.routing.dps.labels import Label, label, labels_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Which = Literal["max", "median", "mean"]


# How far events go


def _percent(column: str) -> Column:
    return 100 * F.try_divide(F.mean(column), F.max("dispatchers"))


@over("reach", unit="%")
def matching_nodes() -> Column:
    """Nodes with a subscription that matches an event, on average."""
    return _percent("matching")


@over("reach", unit="%")
def contacted_nodes() -> Column:
    """Nodes that an event is sent to, on average, wanted there or not."""
    return _percent("contacted")


@over("reach", unit="%")
def false_positives() -> Column:
    """Nodes that are sent an event that no subscription of theirs matches, on average."""
    return _percent("contacted") - _percent("matching")


@over("reach", unit="%")
def spared_nodes() -> Column:
    """Nodes that a broadcast would reach and DPS does not, on average."""
    return 100 - _percent("contacted")


@over("reach", unit="share")
def false_share() -> Column:
    """False positives among the nodes contacted."""
    return 1 - F.try_divide(F.sum("matching"), F.sum("contacted"))


@over("reach", unit="messages")
def copies_per_event() -> Column:
    """Messages sent for an event, on average."""
    return F.mean("copies")


@over("reach", unit="copies")
def copies_per_contact() -> Column:
    """Copies that a node gets of an event that it is sent."""
    return F.try_divide(F.sum("copies"), F.sum("contacted"))


@over("reach", unit="share")
def surviving_delivery(since: float = 0.0, until: float = EVER) -> Column:
    """Deliveries made of those owed to nodes that did not crash first."""
    span = between(since, until)
    return F.try_divide(total("received", span), total("owed", span))


@measure(unit="share")
def least_delivery(
    plan: DataFrame, tables: Tables, since: float, until: float, window: float = 100.0
) -> DataFrame:
    """The worst of a span's windows: deliveries made of those owed to nodes that did not crash."""
    rows = with_rows(plan.select("run_id").distinct(), tables["reach"]).where(between(since, until))
    windows = rows.groupBy("run_id", F.floor(F.col("time") / window).alias("window"))
    shares = windows.agg(F.try_divide(F.sum("received"), F.sum("owed")).alias("share"))
    return tidy(plan, shares.groupBy("run_id").agg(F.min("share").alias("value")))


@measure(unit="share")
def delivery_by_window(plan: DataFrame, tables: Tables, window: float = 100.0) -> DataFrame:
    """Deliveries made of those owed to nodes that did not crash first; x is the time."""
    rows = with_rows(plan.select("run_id").distinct(), tables["reach"])
    x = (F.floor(F.col("time") / window) * window).alias("x")
    shares = rows.groupBy("run_id", x)
    return tidy(plan, shares.agg(F.try_divide(F.sum("received"), F.sum("owed")).alias("value")))


@over("deliveries", unit="deliveries")
def unwanted_deliveries() -> Column:
    """Deliveries to nodes without a subscription that matches."""
    return F.coalesce(F.sum(F.when(~F.col("wanted"), 1.0)), F.lit(0.0))


@over("deliveries", unit="hops")
def delivery_hops() -> Column:
    """Nodes that an event passes from its publisher to a subscriber, on average."""
    return F.mean(F.when(F.col("hops") > 0, F.col("hops")))


# Load


def _loads(plan: DataFrame, tables: Tables, way: str, which: Which) -> DataFrame:
    """Per run and time bin the load of the most loaded, the median or the mean node."""
    rows = with_rows(plan.select("run_id").distinct(), tables["loads"])
    load = F.col("received") if way == "in" else F.col("sent") - F.col("requests")
    pick = {"max": F.max, "median": F.median, "mean": F.mean}[which]
    return rows.groupBy("run_id", "time").agg(pick(load).cast("double").alias("value"))


@measure(unit="messages")
def load(
    plan: DataFrame,
    tables: Tables,
    way: str = "out",
    which: Which = "max",
    since: float = 0.0,
    until: float = EVER,
) -> DataFrame:
    """Messages of the most loaded, median or mean node in a time bin, on average over a span."""
    bins = _loads(plan, tables, way, which).where(between(since, until))
    return tidy(plan, bins.groupBy("run_id").agg(F.mean("value").alias("value")))


@measure(unit="messages")
def load_over_time(
    plan: DataFrame, tables: Tables, way: str = "out", which: Which = "max"
) -> DataFrame:
    """Messages of the most loaded, median or mean node, bin by bin; x is the time."""
    bins = _loads(plan, tables, way, which)
    return tidy(plan, bins.select("run_id", F.round("time", 6).alias("x"), "value"))


@measure(unit="ratio")
def load_growth(
    plan: DataFrame,
    tables: Tables,
    way: str,
    which: Which,
    early: tuple[float, float],
    late: tuple[float, float],
) -> DataFrame:
    """The load of a late span divided by that of an early one."""
    bins = _loads(plan, tables, way, which)
    sums = bins.groupBy("run_id").agg(
        F.mean(F.when(between(*early), F.col("value"))).alias("early"),
        F.mean(F.when(between(*late), F.col("value"))).alias("late"),
    )
    return tidy(
        plan, sums.select("run_id", F.try_divide(F.col("late"), F.col("early")).alias("value"))
    )


@measure(unit="ratio")
def imbalance(plan: DataFrame, tables: Tables, way: str = "out", since: float = 0.0) -> DataFrame:
    """The most loaded node's messages divided by the mean, on average over time bins."""
    most = _loads(plan, tables, way, "max").withColumnRenamed("value", "most")
    mean = _loads(plan, tables, way, "mean").where(F.col("time") >= since)
    ratios = most.join(mean, ["run_id", "time"])
    ratio = F.mean(F.try_divide(F.col("most"), F.col("value")))
    return tidy(plan, ratios.groupBy("run_id").agg(ratio.alias("value")))


@measure(unit="%")
def nodes_at_end(plan: DataFrame, tables: Tables) -> DataFrame:
    """Nodes that are up in the last time bin, of all."""
    rows = with_rows(done(plan, tables), tables["loads"])
    bins = rows.groupBy("run_id", "time").agg(
        (100 * F.count("node") / F.max("dispatchers")).alias("value")
    )
    last = bins.groupBy("run_id").agg(F.max_by("value", "time").alias("value"))
    return tidy(plan, last)


# Groups, as noted at the end of a run


class _Forest:
    """The groups of a run, and what their leaders know of them."""

    def __init__(self, run: Run) -> None:
        self.rows: list[tuple[int, int, dict[str, Any]]] = [
            (note["node"], note["peer"], json.loads(note["value"]))
            for note in run.notes
            if note["what"] == "group"
        ]
        self.joined: list[tuple[float, int, str]] = sorted(
            (note["time"], note["node"], note["value"].split(" ")[0])
            for note in run.notes
            if note["what"] == "joined"
        )
        self.leaders: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        self.members: dict[tuple[str, str], list[int]] = defaultdict(list)
        for node, leader, group in self.rows:
            key = (group["attribute"], group["text"])
            self.members[key].append(node)
            if node == leader:
                self.leaders[key].append((node, group))

    def labels(self) -> dict[str, list[Label]]:
        """Per tree the labels of its groups."""
        found: dict[str, list[Label]] = defaultdict(list)
        for attribute, text in self.leaders:
            found[attribute].append(label(attribute, text))
        return found

    def edges(self) -> list[tuple[str, str, str]]:
        """Attribute, predecessor and group."""
        return [
            (attribute, group["predview"][0][0] if group["predview"] else "?", text)
            for (attribute, text), leaders in self.leaders.items()
            for _, group in leaders
            if text
        ]


@case("notes", unit="groups")
def doubled_groups(run: Run) -> Value:
    """Groups of the same label beyond the first."""
    return sum(len(leaders) - 1 for leaders in _Forest(run).leaders.values())


@case("notes", unit="trees")
def doubled_trees(run: Run) -> Value:
    """Attributes that do not have exactly one tree and one owner."""
    forest = _Forest(run)
    return sum(1 for name in forest.labels() if len(forest.leaders[name, ""]) != 1)


@case("notes", unit="trees")
def wrong_owners(run: Run) -> Value:
    """Trees whose owner is not the first that joined a group of theirs."""
    forest = _Forest(run)
    first: dict[str, int] = {}
    for _, node, attribute in forest.joined:
        first.setdefault(attribute, node)
    return sum(
        1
        for attribute in forest.labels()
        if [node for node, _ in forest.leaders[attribute, ""]] != [first[attribute]]
    )


@case("notes", unit="edges")
def wrong_edges(run: Run) -> Value:
    """Edges that are no immediate inclusions."""
    forest = _Forest(run)
    labels = forest.labels()
    wrong = 0
    for attribute, above, text in forest.edges():
        mine = label(attribute, text)
        if above == "?":
            wrong += 1
            continue
        upper = label(attribute, above)
        between = any(upper.precedes(one) and one.precedes(mine) for one in labels[attribute])
        wrong += between or not upper.precedes(mine)
    return wrong


@case("notes", unit="edges")
def wrong_closest(run: Run) -> Value:
    """Equalities that are not below the closest "greater than" that includes them."""
    forest = _Forest(run)
    labels = forest.labels()
    wrong = 0
    for attribute, above, text in forest.edges():
        mine = label(attribute, text)
        if not mine.interval or mine.low != mine.high:
            continue
        wider = [
            one
            for one in labels[attribute]
            if one.interval
            and one.high == float("inf")
            and one.low > float("-inf")
            and one.precedes(mine)
        ]
        if wider:
            wrong += above != max(wider, key=lambda one: (one.low, one.low_open)).text
    return wrong


@case("notes", unit="subscriptions")
def wrong_members(run: Run) -> Value:
    """Memberships by a label that the subscription does not have."""
    from shoal.content import AttributeFilter

    wrong = 0
    for _, _, group in _Forest(run).rows:
        for text in group["filters"]:
            offered = [
                (one.attribute, one.text)
                for some in labels_of(AttributeFilter(text))
                for one in some
            ]
            wrong += (group["attribute"], group["text"]) not in offered
    return wrong


@case("notes", unit="subscriptions")
def joined_otherwise_than_once(run: Run) -> Value:
    """Subscriptions that are not in exactly one group per disjunct."""
    from shoal.content import AttributeFilter

    joins: dict[tuple[int, str], int] = defaultdict(int)
    for node, _, group in _Forest(run).rows:
        for text in group["filters"]:
            joins[node, text] += 1
    return sum(
        1 for (_, text), count in joins.items() if count != len(labels_of(AttributeFilter(text)))
    )


@case("notes", unit="views")
def wrong_views(run: Run) -> Value:
    """Views that are longer than K, out of order, or missing for a successor."""
    most = run.configuration["routing"]["view"]
    wrong = 0
    for node, leader, group in _Forest(run).rows:
        views = [group["predview"], *group["succviews"].values()] if node == leader else []
        wrong += sum(1 for view in views if len(view) > most or not _ordered(group, view))
        wrong += sum(1 for text, view in group["succviews"].items() if view[0][0] != text)
    return wrong


def _ordered(group: dict[str, Any], view: list[list[Any]]) -> bool:
    """Whether a view goes away from its group level by level."""
    labels = [label(group["attribute"], text) for text, _ in view]
    return all(
        one.text == other.text or one.covers(other) or other.covers(one)
        for one, other in zip(labels[:1] * len(labels[1:]), labels[1:], strict=True)
    )


@case("notes", unit="nodes")
def wrong_roles(run: Run) -> Value:
    """Members that hold views or a groupview which is for leaders and co-leaders only."""
    kept = run.configuration["routing"]["coleaders"]
    wrong = 0
    for node, leader, group in _Forest(run).rows:
        leads = node == leader or node in group["coleaders"]
        wrong += not leads and bool(group["members"] or group["predview"] or group["succviews"])
        wrong += len(group["coleaders"]) > kept
    return wrong


@case("notes", unit="nodes")
def neighbours_kept(run: Run) -> Value:
    """Distinct nodes that a node keeps in its views, on average."""
    kept: dict[int, set[int]] = defaultdict(set)
    for node, leader, group in _Forest(run).rows:
        named = {leader, *group["coleaders"], *group["known"]}
        named |= {pointer[1] for pointer in group["predview"]}
        named |= {pointer[1] for view in group["succviews"].values() for pointer in view}
        kept[node] |= named - {node}
    return sum(map(len, kept.values())) / len(kept) if kept else None


@case("notes", unit="0 or 1")
def is_below(run: Run, above: str, text: str, attribute: str = "a") -> Value:
    """Whether a group has another one as its predecessor."""
    return int((attribute, above, text) in _Forest(run).edges())


@case("notes", unit="nodes")
def group_size(run: Run, text: str, attribute: str = "a") -> Value:
    """Members of a group."""
    return len(_Forest(run).members[attribute, text])


@case("notes", unit="node")
def group_leader(run: Run, text: str, attribute: str = "a") -> Value:
    """The leader of a group; -1 if there are none or several."""
    leaders = _Forest(run).leaders[attribute, text]
    return leaders[0][0] if len(leaders) == 1 else -1


@case("notes", unit="nodes")
def coleaders_known(run: Run, text: str, attribute: str = "a") -> Value:
    """Co-leaders that every member of a group knows of, the same ones; -1 if these differ."""
    forest = _Forest(run)
    known = {
        (leader, *sorted(group["coleaders"]))
        for _, leader, group in forest.rows
        if (group["attribute"], group["text"]) == (attribute, text)
    }
    return len(known.pop()) - 1 if len(known) == 1 else -1


@case("notes", unit="")
def shape_of_trees(run: Run) -> Value:
    """A number that is the same for the same edges, and for others most probably not."""
    return zlib.crc32(repr(sorted(_Forest(run).edges())).encode())


@case("publications", unit="nodes")
def receivers_of(run: Run, event: int) -> Value:
    """Nodes that an event was delivered to, by its place in the order of publication."""
    rows = sorted(run.publications, key=lambda row: row["time"])
    return int(rows[event]["received"])
