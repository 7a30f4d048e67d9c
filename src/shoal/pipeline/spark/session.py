"""The only place that starts Spark: quickly, quietly, and the same on every master.

>>> with spark_session("local[2]") as spark:  # doctest: +SKIP
...     spark.range(10).count()

A session on this machine binds to loopback only. On a cluster (``spark://…``) the package itself is
shipped to the workers, so they need Shoal's dependencies but not Shoal. What Spark has to say goes
to ``spark.log`` in the run's folder, never to the terminal.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any
from zipfile import ZIP_DEFLATED, ZipFile

import shoal
from shoal import extras
from shoal.pipeline.errors import PipelineError, UnreachableMasterError
from shoal.pipeline.spark.java import COMPILER, class_data_options, find_java, keep_class_data

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RETRIES = 4
"""Attempts of Spark at a task: a worker that dies takes its task with it."""

PROBE_SECONDS = 3.0
LEAST_MEMORY, MOST_MEMORY = 1 << 30, 4 << 30
"""Bounds of Spark's memory on this machine, in bytes; within them it is a quarter of all memory."""
SHIPPED = "shoal_shipped"
"""The folder on a cluster's worker into which the package is unpacked."""

_MASTERS = re.compile(
    r"local(\[(\d+|\*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|spark://.+|k8s://.+|yarn"
)

_LOG = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
logger.repl.name = org.apache.spark.api.python.PythonGatewayServer
logger.repl.level = warn
"""


@dataclass
class _Running:
    """Resources to release when the session ends."""

    folder: Path
    temporary: bool
    scratch: Path
    archive: Path | None
    """File for the class data that the JVM writes on exit, if it was asked to."""


_running: _Running | None = None


@contextmanager
def spark_session(master: str = "local[*]", folder: Path | None = None) -> Iterator[SparkSession]:
    """A Spark session that ends with the block."""
    spark = start_session(master, folder)
    try:
        yield spark
    except BaseException:
        stop_session(spark, hurry=True)
        raise
    stop_session(spark)


def start_session(master: str = "local[*]", folder: Path | None = None) -> SparkSession:
    """Start Spark on ``master``; its log goes to ``folder`` (a temporary one if not given)."""
    global _running
    check_master(master)
    java = find_java()
    extras.require("spark", "Spark")
    import pyspark
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        raise PipelineError("a Spark session is already running", "stop it first")
    temporary = folder is None
    home = Path(tempfile.mkdtemp(prefix="shoal-")) if folder is None else folder.absolute()
    home.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="shoal-"))
    os.environ["JAVA_HOME"] = str(java.home)
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # The helper JVM that only prints Spark's command line.
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    if _on_this_machine(master):
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    options, archive = class_data_options(java, f"{pyspark.__version__} {pyspark.__file__}")
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(_settings(master, home, scratch, options).items()))
    _running = _Running(home, temporary, scratch, archive)
    try:
        # PySpark warns of things that do not matter here.
        with (home / "spark.log").open("ab") as log, warnings.catch_warnings(action="ignore"):
            streams = {"stdout": log, "stderr": log}
            gateway = launch_gateway(conf, streams)  # type: ignore[no-untyped-call]  # untyped there
            context = SparkContext(conf=conf, gateway=gateway)
        return SparkSession(context)
    except BaseException as error:
        log_text = _tail(home / "spark.log")
        _tidy_up(hurry=True)
        if isinstance(error, Exception):
            raise PipelineError(
                f"Spark did not start on {master}: {_first_line(error)}",
                f"the end of its log: {log_text}" if temporary else f"see {home / 'spark.log'}",
            ) from error
        raise


def stop_session(spark: SparkSession, *, hurry: bool = False) -> None:
    """Stop Spark and its JVM. In a hurry nothing is kept for a quicker start next time."""
    with suppress(Exception):
        spark.stop()
    _tidy_up(hurry)


def check_master(master: str) -> None:
    """An error, within seconds, if ``master`` is no master or does not answer."""
    if not _MASTERS.fullmatch(master):
        raise PipelineError(
            f"'{master}' is no Spark master", "use local[*], local[N] or spark://HOST:PORT"
        )
    if not master.startswith("spark://"):
        return
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise PipelineError(f"'{master}' is no Spark master", "use spark://HOST:PORT")
        try:
            socket.create_connection((host.strip("[]"), int(port)), PROBE_SECONDS).close()
            return
        except OSError as error:
            reasons.append(f"{address}: {error.strerror or error}")
    raise UnreachableMasterError(
        f"no Spark master answers at {master} ({'; '.join(reasons)})",
        "start it, correct the address, or leave --master out to use this machine",
    )


def _on_this_machine(master: str) -> bool:
    return master.startswith("local") or bool(
        re.match(r"spark://(localhost|127\.[\d.]+|\[::1\]):", master)
    )


def _settings(master: str, folder: Path, scratch: Path, java_options: str) -> dict[str, str]:
    """Spark's settings. What a cluster's workers see must not name paths of this machine."""
    log = scratch / "log4j2.properties"
    log.write_text(_LOG.format(file=folder / "spark.log"))
    local = master.startswith("local") and not master.startswith("local-cluster")
    if local:
        cores = re.match(r"local\[(\d+|\*)", master)
        master = f"local[{cores[1] if cores else 1},{RETRIES}]"
    settings = {
        "spark.master": master,
        "spark.app.name": "shoal",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(min(8, max(2, os.cpu_count() or 2)) if local else 16),
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.io.compression.codec": "zstd",
        # Tables are many files, listed by us: no Spark job just to look at them, and small ones
        # are read together.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        "spark.sql.files.openCostInBytes": str(64 * 1024),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Sets and lists are gathered by hashing, however many runs there are: by default Spark
        # sorts all rows once it has met 128 runs.
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000",
        # A task goes to the first free core; there is next to no data to be near to.
        "spark.locality.wait": "0s",
    }
    java_options += f" -Dlog4j2.configurationFile={log.as_uri()}"
    settings["spark.driver.extraJavaOptions"] = java_options
    if _on_this_machine(master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if local:
        settings["spark.driver.memory"] = f"{_memory() >> 20}m"
        settings["spark.local.dir"] = str(scratch)
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = str(scratch)
        root = _package_root()
        if str(root) not in site.getsitepackages():  # run from sources: workers must find them too
            settings["spark.executorEnv.PYTHONPATH"] = str(root)
    else:
        settings["spark.archives"] = f"{_pack(scratch)}#{SHIPPED}"
        settings["spark.executorEnv.PYTHONPATH"] = SHIPPED
        settings["spark.executor.extraJavaOptions"] = COMPILER
    return settings


def _memory() -> int:
    """Bytes of memory that Spark may take on this machine."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(max(there // 4, LEAST_MEMORY), MOST_MEMORY)


def _package_root() -> Path:
    return Path(shoal.__file__).resolve().parent.parent


def _pack(folder: Path) -> Path:
    """The package as an archive: sources, and compiled modules for workers that can load them."""
    root = _package_root()
    package = folder / "shoal.zip"
    files = [f for f in (root / "shoal").rglob("*") if f.is_file() and f.suffix != ".pyc"]
    if any(f.suffix == ".so" for f in files):
        files += root.glob("*__mypyc*.so")  # what the compiled modules have in common
    with ZipFile(package, "w", ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(files):
            archive.write(file, file.relative_to(root))
    return package


def _tidy_up(hurry: bool) -> None:
    """End the JVM, keep its class data, remove what was temporary."""
    global _running
    from pyspark import SparkContext

    running, _running = _running, None
    gateway: Any = SparkContext._gateway
    # Spark keeps its JVM for a next session in the same process, which may want another master.
    SparkContext._gateway = None
    SparkContext._jvm = None
    process = getattr(gateway, "proc", None)
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
    if process is not None:
        with suppress(OSError):
            process.stdin.close()
        writes_class_data = running is not None and running.archive is not None
        try:
            process.wait((0 if writes_class_data else 5) if hurry else 60)
        except TimeoutExpired:
            hurry = True
            process.kill()
            process.wait()
    if running is None:
        return
    if running.archive is not None:
        keep_class_data(running.archive, whole=not hurry)
    shutil.rmtree(running.scratch, ignore_errors=True)
    if running.temporary:
        shutil.rmtree(running.folder, ignore_errors=True)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    java = getattr(error, "java_exception", None)
    if java is not None:
        with suppress(Exception):
            text = str(java.getMessage() or java.toString())
    return text.splitlines()[0] if text else type(error).__name__


def _tail(log: Path) -> str:
    with suppress(OSError):
        lines = log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "(empty)"
    return "(none)"
