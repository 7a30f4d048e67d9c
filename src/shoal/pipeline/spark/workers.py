"""Which Python Spark's workers are."""

from __future__ import annotations

import sys
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
