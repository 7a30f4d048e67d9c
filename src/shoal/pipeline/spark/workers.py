"""Spark's Python workers: which Python they are, and what their garbage collector looks at."""

from __future__ import annotations

import gc
import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def use_this_python(spark: SparkSession) -> None:
    """Let workers on this machine be the Python that runs here, which has Shoal.

    Otherwise Spark takes ``python3`` from the path, which is another one where a virtual
    environment is used without being activated.
    """
    context = spark.sparkContext
    if str(context.master).startswith("local"):
        context.pythonExec = sys.executable


@cache
def settle() -> None:
    """Once per process: take what there is out of the collector's sight.

    Spark has its workers collect garbage after each task. With numba and pyarrow loaded that takes
    longer than a small task itself.
    """
    gc.collect()
    gc.freeze()
