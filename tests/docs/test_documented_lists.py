"""Lists in the documentation name what the code has: neither more nor less."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from shoal.cli.bench import names
from shoal.cli.main import NEEDS
from shoal.experiments import MODULES
from shoal.pipeline.judge.decisions import VERDICTS
from shoal.pipeline.plan.experiment_file import SETTINGS
from shoal.pipeline.simulate.worker import Status
from shoal.record import SCHEMAS
from shoal.simulation import RunConfig
from shoal.simulation.config import LinkParameters

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def section(name: str, heading: str) -> str:
    """A page's text from a heading to the next one of its level."""
    return re.split(r"^## ", page(name).partition(f"\n## {heading}\n")[2], flags=re.M)[0]


def cells(text: str, column: int = 0) -> list[str]:
    """The cells of a column of the tables in a text, without their heads."""
    rows = [re.split(r" ?\| ?", row)[1:-1] for row in re.findall(r"^\|.*\|$", text, flags=re.M)]
    heads = [place - 1 for place, row in enumerate(rows) if set(row[0]) <= {"-"}]
    return [
        row[column] for place, row in enumerate(rows) if place not in heads + [h + 1 for h in heads]
    ]


def words(text: str) -> list[str]:
    """The words in code style."""
    return re.findall(r"`([^`]+)`", text)


def test_every_table_and_column_is_documented_with_its_type() -> None:
    documented: dict[str, list[tuple[str, str]]] = {}
    for line in page("tables").splitlines():
        if table := re.fullmatch(r"## `(\w+)`", line):
            columns = documented.setdefault(table[1], [])
        elif column := re.match(r"\| `(\w+)` \| (\S+) \|", line):
            columns.append((column[1], column[2]))
    assert documented == {
        name: [(field.name, str(field.type)) for field in schema]
        for name, schema in SCHEMAS.items()
    }


def test_the_tables_recorded_by_default_are_those_said_to_be() -> None:
    usual = {"runs", *RunConfig().record}
    off = {t for t in SCHEMAS if "off by default" in section("tables", f"`{t}`")}
    assert off == set(SCHEMAS) - usual
    overview = cells(section("concepts", "Runs, tables, figures"))
    assert [name for cell in overview[:-1] for name in words(cell)] == [
        t for t in SCHEMAS if t in usual
    ]
    assert set(words(overview[-1])) == off


def test_the_settings_of_a_run_are_all_there_with_their_defaults() -> None:
    settings = section("command-line", "A run's configuration")
    keys = cells(settings)
    assert [name for cell in keys for name in words(cell)] == list(RunConfig.__struct_fields__)
    default = dict(zip(keys, cells(settings, 1), strict=True))
    assert default["`nodes`"] == str(RunConfig().nodes)
    assert default["`duration`"] == str(RunConfig().duration)
    assert default["`record`"] == ", ".join(RunConfig().record)
    assert default["`bin`"] == str(RunConfig().bin)
    assert default["`data_plane`"] == RunConfig().data_plane
    (link,) = [row for row in settings.splitlines() if row.startswith("| `link`")]
    assert words(link)[1:] == list(LinkParameters.__struct_fields__)


def test_the_settings_of_an_experiment() -> None:
    (line,) = re.findall(
        r"^- `\[experiment\]`: (.*?);$", section("command-line", "sweep"), re.M | re.S
    )
    assert words(line) == list(SETTINGS)


def test_outcomes_of_a_run() -> None:
    (status,) = [row for row in page("tables").splitlines() if row.startswith("| `status`")]
    assert words(status)[1:] == list(get_args(Status))
    assert set(re.findall(r"status\s+`(\w+)`", page("cluster"))) == set(get_args(Status)) - {"done"}


def test_verdicts() -> None:
    assert [cell.strip("*") for cell in cells(section("claims", "Verdicts"))] == list(VERDICTS)
    told = section("concepts", "Runs, tables, figures").partition("is\njudged")[2]
    assert [" ".join(v.split()) for v in re.findall(r"\*([\w\s]+?)\*", told)] == list(VERDICTS)


def test_papers_and_benchmarks() -> None:
    papers = cells(section("command-line", "reproduce"))
    assert sorted(name for cell in papers for name in words(cell)) == sorted(MODULES)
    listed = section("command-line", "bench").partition("The benchmarks are ")[2]
    assert words(listed.partition(";")[0]) == names()


def test_what_each_extra_is_for() -> None:
    uses = dict(zip(cells(page("installing")), cells(page("installing"), 1), strict=False))
    for extra, commands in NEEDS.items():
        told = {word.removeprefix("shoal ") for word in words(uses[f"`shoal[{extra}]`"])}
        assert {command.__name__ for command in commands} <= told, extra


def test_the_environment() -> None:
    """Variables that only one paper or a build reads are told of where these are described."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    used = {name for text in sources for name in re.findall(r"\"(SHOAL_[A-Z_]+)\"", text)}
    documented = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    assert {name for name in used if f"`{name}" not in documented} == set()
    listed = [word.partition("=")[0] for word in words(section("command-line", "Environment"))]
    assert used - {"SHOAL_MESH", "SHOAL_POSITIONS"} <= set(listed)
