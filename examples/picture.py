"""The picture of the README, from the measures that a reproduction leaves behind.

shoal reproduce frey-routing --claim T7.3-a --out out
python examples/picture.py out docs/images/result.png
"""

import sys
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from scipy.stats import t as student

mpl.use("agg")
import matplotlib.pyplot as plt

NAMES = {
    "SM": "Strawman",
    "TDU": "Timed",
    "NDU": "Notified",
    "ILA": "Informed link activation",
    "RP": "Reconfiguration path",
}


def main(out: Path, picture: Path) -> None:
    """Cost of a repair by the size of the network: means and 95% intervals over seeds."""
    values = pd.read_parquet(out / "measures-frey-routing.parquet")
    cost = values[(values.measure == "cost_per_rec") & (values.experiment == "scale")]
    grouped = cost.groupby(["variant", "x"]).value.agg(["mean", "sem", "count"]).reset_index()
    figure, axes = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
    for variant, name in NAMES.items():
        curve = grouped[grouped.variant == variant]
        axes.plot(curve.x, curve["mean"], marker="o", markersize=4, label=name)
        half = student.ppf(0.975, curve["count"] - 1) * curve["sem"]
        axes.fill_between(
            curve.x, curve["mean"] - half, curve["mean"] + half, alpha=0.2, linewidth=0
        )
    axes.set_xlabel("nodes")
    axes.set_ylabel("messages to repair the tables,\nper replaced link (weighted)")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    picture.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(picture, dpi=150)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
