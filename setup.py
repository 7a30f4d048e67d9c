"""Compiles the modules that carry most of a simulation's messages, where a C compiler is at hand.

The same sources run uncompiled with the same results: set ``SHOAL_NO_COMPILE=1`` to leave the step
out of a build, or ``SHOAL_PURE=1`` to ignore compiled modules at run time.
"""

import os
import shutil
import sys

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
    "src/shoal/routing/table.py",
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
    "src/shoal/simulation/kernel.py",
    "src/shoal/simulation/oracle.py",
    "src/shoal/simulation/recorder.py",
    "src/shoal/simulation/topology.py",
    "src/shoal/simulation/network.py",
    "src/shoal/simulation/player.py",
    "src/shoal/simulation/dataplane/mirror.py",
]


def extensions() -> list[object]:
    """The compiled modules, or none."""
    if os.environ.get("SHOAL_NO_COMPILE") or not (shutil.which("cc") or shutil.which("gcc")):
        print(
            "shoal: no C compiler (or SHOAL_NO_COMPILE set): building pure Python", file=sys.stderr
        )
        return []
    from mypyc.build import mypycify

    # Single events against the matching index; numba takes its place where this does not build.
    single = Extension(
        "shoal.content.index._single",
        ["src/shoal/content/index/single.c"],
        extra_compile_args=["-O3"],
        optional=True,
    )
    return [*mypycify([*COMPILED, "--config-file=pyproject.toml"], opt_level="3"), single]


setup(
    ext_modules=extensions(),
    # The benchmarks come along, so that `shoal bench` works wherever Shoal is installed.
    packages=[*find_packages("src"), "shoal.benchmarks"],
    package_dir={"": "src", "shoal.benchmarks": "benchmarks"},
)
