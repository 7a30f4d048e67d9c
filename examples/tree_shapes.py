"""What the shape of the tree does to the reconfiguration protocols of Frey's thesis.

python examples/tree_shapes.py [SEEDS]

Prints, for each shape, how much of Strawman's cost the others save (in percent), how many REC
messages Reconfiguration Path sends on the head of the path and over the new link per
reconfiguration, and what all its RECs weigh: the table in docs/not-reproduced.md.
"""

import re
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import mean
from typing import Any

from shoal.experiments.frey_scenarios import EXPERIMENTS
from shoal.pipeline.plan.experiment import merge
from shoal.simulation import parse_config, simulate

NODES = 100
QUIET = EXPERIMENTS["quiet"]
"""The thesis's default scenario without events, in variants that differ in the protocol."""


def children(count: int) -> list[list[int]]:
    """The links of a tree in which every node has so many children."""
    return [[(node - 1) // count, node] for node in range(1, NODES)]


LITERAL = {"name": "subscription-forwarding", "announced": False}
SHAPES: dict[str, dict[str, Any]] = {
    "balanced, at most 4 neighbours": {},
    "balanced, two children each": {"topology": {"links": children(2)}},
    "balanced, three children each": {"topology": {"links": children(3)}},
    "balanced, four children each": {"topology": {"links": children(4), "max_degree": 5}},
    "the same, 200 patterns": {
        "topology": {"links": children(4), "max_degree": 5},
        "workload": {"patterns": 200},
    },
    "grown at random, 200 patterns": {
        "topology": {"shape": "random"},
        "workload": {"patterns": 200},
    },
    "the literal rules": {"routing": LITERAL},
}


def measured(shape: str, protocol: str, seed: int) -> tuple[float, float, float]:
    """Of one run, per reconfiguration: cost, RECs on the head, weight of all RECs."""
    record = {"seed": seed, "record": ["traffic", "links", "repairs", "messages"]}
    raw = merge(QUIET.base, QUIET.variants[protocol], SHAPES[shape], record)
    tables = simulate(parse_config(raw)).tables
    repairs = len(tables["repairs"])
    traffic = [row for row in tables["traffic"].to_pylist() if row["time"] >= 2.9]
    on_head = 0
    for row in tables["messages"].to_pylist():
        if row["kind"] == "rec":
            found = re.search(r"head=\(([^)]*)\)", row["content"])
            on_head += found is not None and str(row["source"]) in re.findall(r"\d+", found[1])
    cost = sum(row["cost"] for row in traffic)
    weight = sum(row["cost"] for row in traffic if row["kind"] == "rec")
    return cost / repairs, on_head / repairs, weight / repairs


def main(seeds: int) -> None:
    """Print the table."""
    print(f"{'tree':32} {'Timed':>9} {'Informed':>9} {'Path':>9} {'REC':>9} {'weight':>9}")
    with ProcessPoolExecutor() as pool:
        for shape in SHAPES:
            found = {}
            for protocol in ("SM", "TDU", "ILA", "RP"):
                runs = pool.map(partial(measured, shape, protocol), range(seeds))
                found[protocol] = [mean(column) for column in zip(*runs, strict=True)]
            strawman = found["SM"][0]
            saved = [100 * (1 - found[p][0] / strawman) for p in ("TDU", "ILA", "RP")]
            numbers = [*saved, found["RP"][1], found["RP"][2]]
            print(f"{shape:32}", *(f"{number:9.1f}" for number in numbers), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
