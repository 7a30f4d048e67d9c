"""Compiles the modules that carry most of a simulation's messages, where a C compiler is at hand.

The same sources run uncompiled with the same results: set ``SHOAL_NO_COMPILE=1`` to leave the step
out of a build, or ``SHOAL_PURE=1`` to ignore compiled modules at run time.
"""

import os
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup

# Not stack/chance.py: its products of 64-bit words gain nothing by it, and mypyc takes one that is
# cut short by Ctrl-C for a lack of memory, and aborts.
COMPILED = [
    "src/shoal/content/tables.py",
    "src/shoal/content/index/index.py",
    "src/shoal/content/index/lanes.py",
    "src/shoal/content/index/levels.py",
    "src/shoal/content/index/recent.py",
    "src/shoal/stack/host.py",
    "src/shoal/stack/layer.py",
    "src/shoal/stack/node.py",
    "src/shoal/overlay/graph.py",
    "src/shoal/overlay/graph_leave.py",
    "src/shoal/overlay/graph_links.py",
    "src/shoal/overlay/sampling.py",
    "src/shoal/overlay/shopparent.py",
    "src/shoal/overlay/shopparent_costs.py",
    "src/shoal/overlay/shopparent_interests.py",
    "src/shoal/overlay/shopparent_join.py",
    "src/shoal/overlay/shopparent_member.py",
    "src/shoal/overlay/handover.py",
    "src/shoal/overlay/chord.py",
    "src/shoal/overlay/chord_lookup.py",
    "src/shoal/overlay/chord_neighbours.py",
    "src/shoal/overlay/dhtree.py",
    "src/shoal/overlay/dhtree_links.py",
    "src/shoal/overlay/reference_tree.py",
    "src/shoal/overlay/lstree.py",
    "src/shoal/overlay/lstree_caches.py",
    "src/shoal/overlay/lstree_leave.py",
    "src/shoal/overlay/lstree_member.py",
    "src/shoal/overlay/lstree_relation.py",
    "src/shoal/overlay/lstree_search.py",
    "src/shoal/routing/allowance.py",
    "src/shoal/routing/table.py",
    "src/shoal/routing/dps/choice.py",
    "src/shoal/routing/dps/dps.py",
    "src/shoal/routing/dps/epidemic.py",
    "src/shoal/routing/dps/healing.py",
    "src/shoal/routing/dps/labels.py",
    "src/shoal/routing/dps/leadership.py",
    "src/shoal/routing/dps/publishing.py",
    "src/shoal/routing/dps/states.py",
    "src/shoal/routing/dps/trees.py",
    "src/shoal/routing/dps/views.py",
    "src/shoal/routing/event_forwarding.py",
    "src/shoal/routing/flooding.py",
    "src/shoal/routing/subscription_forwarding.py",
    "src/shoal/routing/hierarchical_forwarding.py",
    "src/shoal/routing/advertisement_forwarding.py",
    "src/shoal/routing/horizon.py",
    "src/shoal/routing/seen.py",
    "src/shoal/routing/semiprobabilistic.py",
    "src/shoal/routing/adaptive.py",
    "src/shoal/routing/broadcast.py",
    "src/shoal/recovery/budget.py",
    "src/shoal/recovery/buffer.py",
    "src/shoal/recovery/delivered.py",
    "src/shoal/recovery/interests.py",
    "src/shoal/recovery/losses.py",
    "src/shoal/recovery/stream.py",
    "src/shoal/recovery/arrivals.py",
    "src/shoal/recovery/streams.py",
    "src/shoal/recovery/numbering.py",
    "src/shoal/recovery/copies.py",
    "src/shoal/recovery/counting.py",
    "src/shoal/recovery/holding.py",
    "src/shoal/recovery/gossip.py",
    "src/shoal/recovery/pull.py",
    "src/shoal/recovery/pulls.py",
    "src/shoal/recovery/push.py",
    "src/shoal/simulation/air/host.py",
    "src/shoal/simulation/channels.py",
    "src/shoal/simulation/host.py",
    "src/shoal/simulation/kernel.py",
    "src/shoal/simulation/oracle.py",
    "src/shoal/simulation/recorder.py",
    "src/shoal/simulation/shopping.py",
    "src/shoal/simulation/topology.py",
    "src/shoal/simulation/network.py",
    "src/shoal/simulation/connections.py",
    "src/shoal/simulation/player.py",
    "src/shoal/simulation/dataplane/mirror.py",
]

METADATA = {"egg_info", "dist_info", "sdist"}
"""Commands that compile nothing: installers run one or two of them before the build itself."""


def _uncompiled() -> str:
    """Why nothing can be compiled here; empty if it can."""
    if os.environ.get("SHOAL_NO_COMPILE"):
        return "SHOAL_NO_COMPILE is set"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if not shutil.which(compiler):
        return f"no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").is_file():
        return "no Python headers (Debian: apt-get install python3-dev)"
    return ""


def extensions() -> list[object]:
    """The compiled modules, or none."""
    why = _uncompiled()
    if why:
        print(f"shoal: {why}: building pure Python", file=sys.stderr)
        return []
    # What is worth C; Python, or numba, takes its place where it is not built.
    in_c = [
        Extension(
            f"shoal.{name}",
            [f"src/shoal/{source}"],
            extra_compile_args=["-O3", "-g0"],
            optional=True,
        )
        for name, source in {
            "content._building": "content/index/building.c",
            "content.index._single": "content/index/single.c",
            "simulation._pages": "simulation/pages.c",
            "stack._chance": "stack/chance.c",
        }.items()
    ]
    if METADATA.intersection(sys.argv):
        return in_c
    from mypyc.build import mypycify

    level = os.environ.get("MYPYC_OPT_LEVEL", "1")  # 3 takes gcc twice the time, 0 a third
    modules = mypycify([*COMPILED, "--config-file=mypyc.ini"], opt_level=level, debug_level="0")
    if os.name == "posix":
        for module in modules:
            # Nobody reads warnings on generated C. One of them takes gcc three quarters of its
            # time, also under -w, which prints none but looks for all the same.
            module.extra_compile_args += ["-w", "-Wno-misleading-indentation"]
            # Two passes take a seventh of gcc's time, and the code is no faster for them.
            module.extra_compile_args += ["-fno-tree-pta", "-fno-tree-dominator-opts"]
            # All lies in one library: calls within it need no table that others could redirect.
            module.extra_compile_args.append("-fvisibility=hidden")
    return [*modules, *in_c]


setup(
    ext_modules=extensions(),
    # The benchmarks come along, so that `shoal bench` works wherever Shoal is installed.
    packages=[*find_packages("src"), "shoal.benchmarks"],
    package_dir={"": "src", "shoal.benchmarks": "benchmarks"},
)
