"""What may know what: protocols never touch the world, and the simulator needs no Spark."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from shared_data import shared

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "shoal"
BELOW_THE_DRIVERS = ("content", "stack", "overlay", "routing", "recovery")
WORLDLY = {
    "asyncio",
    "datetime",
    "multiprocessing",
    "os",
    "pathlib",
    "pyarrow",
    "pyspark",
    "random",
    "secrets",
    "select",
    "socket",
    "subprocess",
    "threading",
    "time",
    "uuid",
}


def imports(path: Path) -> set[str]:
    """Every module that a file imports, wherever in the file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            found.add(str(node.module))
    return found


def modules(package: str) -> list[Path]:
    """A package's files, but those that use the disk, read tables or pick a compiled half."""
    files = sorted((SOURCES / package).rglob("*.py"))
    worldly = ("compiled.py", "storage.py", "machine.py", "native.py", "single.py", "inputs.py")
    return [path for path in files if path.name not in worldly]


def test_the_import_reader_reads() -> None:
    assert "ast" in imports(Path(__file__))
    assert "shared_data" in imports(Path(__file__))


@pytest.mark.parametrize("package", BELOW_THE_DRIVERS)
def test_protocols_never_touch_the_world(package: str) -> None:
    assert modules(package)
    for path in modules(package):
        touched = {name.split(".")[0] for name in imports(path)} & WORLDLY
        assert not touched, f"{path.relative_to(ROOT)} imports {', '.join(sorted(touched))}"


@pytest.mark.parametrize("package", BELOW_THE_DRIVERS)
def test_protocols_do_not_print_or_open_files(package: str) -> None:
    for path in modules(package):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("print", "open", "input", "exec", "eval"), path


DOCUMENTED_ELSEWHERE = {"asyncio.Protocol", "asyncio.Transport", "Collector"}


def documented_above(kind: ast.ClassDef, method: str, known: dict[str, list[ast.ClassDef]]) -> bool:
    """Whether a base class has that method with a docstring."""
    for base in kind.bases:
        name = ast.unparse(base).partition("[")[0]
        if name in DOCUMENTED_ELSEWHERE:
            return True
        for above in known.get(name, ()):
            if has_docstring(above, method) or documented_above(above, method, known):
                return True
    return False


def has_docstring(kind: ast.ClassDef, method: str) -> bool:
    return any(
        isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        and part.name == method
        and ast.get_docstring(part) is not None
        for part in kind.body
    )


def test_public_methods_have_a_docstring_of_their_own_or_inherit_one() -> None:
    files = {path: ast.parse(path.read_text()) for path in SOURCES.rglob("*.py")}
    kinds = [
        (path, part)
        for path, tree in files.items()
        for part in ast.walk(tree)
        if isinstance(part, ast.ClassDef)
    ]
    known: dict[str, list[ast.ClassDef]] = {}
    for _, kind in kinds:
        known.setdefault(kind.name, []).append(kind)
    for path, kind in kinds:
        for part in kind.body if not kind.name.startswith("_") else ():
            if (
                isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
                and not part.name.startswith("_")
                and not any("overload" in ast.unparse(d) for d in part.decorator_list)
            ):
                named = has_docstring(kind, part.name) or documented_above(kind, part.name, known)
                assert named, f"{path.relative_to(ROOT)}: {kind.name}.{part.name}"


ORDER = ["content", "stack", "record", "overlay routing recovery", "simulation live", "pipeline"]


@pytest.mark.parametrize("level", range(len(ORDER)))
def test_imports_go_one_way(level: int) -> None:
    higher = {name for group in ORDER[level + 1 :] for name in group.split()}
    higher |= {"experiments", "cli"}
    for package in ORDER[level].split():
        for path in modules(package):
            known = {name.split(".")[1] for name in imports(path) if name.startswith("shoal.")}
            assert not known & higher, f"{path.relative_to(ROOT)} imports {known & higher}"


def test_brokers_and_the_simulator_do_not_know_each_other() -> None:
    for package, other in (("live", "simulation"), ("simulation", "live")):
        for path in modules(package):
            assert not any(name.startswith(f"shoal.{other}") for name in imports(path)), path


def test_a_broker_starts_without_spark_numba_or_arrow() -> None:
    code = (
        "import sys, shoal, shoal.live.broker, shoal.live.client, shoal.testing;"
        "heavy = ('pyspark', 'py4j', 'numba', 'pyarrow', 'numpy', 'matplotlib');"
        "print([m for m in sys.modules if m.split('.')[0] in heavy])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "[]"


def test_importing_the_simulator_imports_no_spark() -> None:
    code = (
        "import sys, shoal.simulation, shoal.record;"
        "print([m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j', 'matplotlib')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def listed() -> list[str]:
    """The modules that are compiled, as the build script names them."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "COMPILED":
            found: list[str] = ast.literal_eval(node.value)
            return found
    pytest.fail("setup.py names no compiled modules")


def test_what_is_compiled_exists(listed: list[str]) -> None:
    assert len(listed) == len(set(listed)) > 5
    for name in listed:
        assert (ROOT / name).is_file(), name


def test_compiled_modules_define_no_structs(listed: list[str]) -> None:
    """mypyc cannot compile classes with their own metaclass."""
    for name in listed:
        for node in ast.walk(ast.parse((ROOT / name).read_text())):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base) for base in node.bases}
                assert not bases & {"Message", "msgspec.Struct", "Struct", "Filter", "Content"}


def test_exceptions_to_the_rules_carry_their_reason() -> None:
    bare = re.compile(r"#\s*(type: ignore(\[[^\]]*\])?|noqa(:[\w, ]+)?)\s*$")
    for path in sorted(SOURCES.rglob("*.py")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            assert not bare.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()}"


def test_claims_that_tests_name_exist() -> None:
    claims = shared("claims/thesis.yaml")
    if claims is None:
        pytest.skip("the claims are not at hand")
    known = set(re.findall(r"^- id: T(\S+)$", claims.read_text(), re.MULTILINE))
    named = 0
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for chapter, letter in re.findall(r"def test_t(\d+(?:_\d+)*)_([a-z])_", path.read_text()):
            assert f"{chapter.replace('_', '.')}-{letter}" in known, path
            named += 1
    assert named > 10
