"""The same sweep on a real standalone cluster: only the master's address differs."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pyspark
import pytest
from slow_sweep import small_plan

from shoal.pipeline.spark.java import find_java
from shoal.pipeline.tables.dataframes import find_configuration
from shoal.pipeline.tables.store import Store
from shoal.simulation import simulate

pytestmark = pytest.mark.cluster

SCRIPT = Path(__file__).with_name("slow_sweep.py")
RUNS = 24


@dataclass
class Cluster:
    """A master and its workers, started from the pyspark package on loopback."""

    folder: Path
    url: str = ""
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, workers: int) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self._daemon("master.Master", "--host", "127.0.0.1", "--port", str(port))
        self._wait_for("master.Master", r"I have been elected leader")
        for number in range(workers):
            work = str(self.folder / f"work-{number}")
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "-d", work]
            self._daemon("worker.Worker", *options, self.url)
        self._wait_for("master.Master", r"Registering worker", workers)

    def _daemon(self, name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}  # no Shoal there
        environment |= {"SPARK_HOME": str(home), "JAVA_HOME": str(find_java().home)}
        quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        environment |= {"SPARK_LAUNCHER_OPTS": quick, "SPARK_DAEMON_JAVA_OPTS": quick}
        environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{name}"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons.append(
                subprocess.Popen(
                    [*map(str, command), "--webui-port", "0", *arguments],
                    env=environment,
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                )
            )

    def _wait_for(self, name: str, what: str, times: int = 1) -> None:
        log = self.folder / f"{name}.log"
        until = time.monotonic() + 90
        while len(re.findall(what, log.read_text(errors="replace"))) < times:
            assert time.monotonic() < until, log.read_text(errors="replace")
            assert all(d.poll() is None for d in self.daemons), log.read_text(errors="replace")
            time.sleep(0.2)

    def kill_worker(self) -> int:
        """SIGKILL a worker daemon, its executors and their Python; how many processes that was."""
        return _kill(self.daemons[1])

    def stop(self) -> None:
        for daemon in reversed(self.daemons):
            _kill(daemon)


def _kill(daemon: subprocess.Popen[bytes]) -> int:
    killed = 0
    try:
        family = [psutil.Process(daemon.pid)]
        family += family[0].children(recursive=True)
        for process in family:
            process.kill()
            killed += 1
    except psutil.NoSuchProcess:
        pass
    daemon.wait()
    return killed


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    cluster = Cluster(tmp_path / "cluster")
    try:
        cluster.start(workers=2)
        yield cluster
    finally:
        cluster.stop()


def test_a_sweep_survives_the_death_of_a_worker(cluster: Cluster, out: Path) -> None:
    store = Store(out)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, str(SCRIPT), str(out), cluster.url, str(RUNS), "0.4"]
    sweep = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        until = time.monotonic() + 120
        while not (store.tables / "runs").exists() or len(store.finished()[0]) < RUNS // 4:
            assert sweep.poll() is None, sweep.communicate()
            assert time.monotonic() < until, (out / "spark.log").read_text()
            time.sleep(0.05)
        assert cluster.kill_worker() >= 3  # the daemon, its executor, the executor's Python
        done_then = len(store.finished()[0])
        assert done_then < RUNS
        said, complained = sweep.communicate(timeout=150)
    finally:
        if sweep.poll() is None:
            sweep.kill()
            sweep.communicate()
    assert sweep.returncode == 0, complained
    summary, home = said.splitlines()
    assert summary == f"simulated {RUNS}, reused 0"
    assert "shoal_shipped" in home  # the workers had Shoal from the driver

    # Every run once, each with all its rows.
    planned = small_plan(RUNS)
    found = store.inventory()
    assert not found.failed
    assert not found.damaged
    runs: Counter[str] = Counter()
    events: Counter[str] = Counter()
    for file in store.files(found, "runs"):
        runs.update(pq.read_table(file)["run_id"].to_pylist())
    for file in store.files(found, "publications"):
        events.update(pq.read_table(file)["run_id"].to_pylist())
    assert runs == Counter(run.run_id for run in planned)
    assert events == Counter({run.run_id: 8 for run in planned})
    row = pq.read_table(store.path("runs", planned[-1].run_id)).to_pylist()[0]
    again = simulate(find_configuration(out, row["run_id"]))
    assert row["fingerprint"] == again.fingerprint  # there as here
