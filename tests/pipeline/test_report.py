"""The page stands by itself, says everything, and takes nothing on trust."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from shoal.pipeline.errors import PipelineError
from shoal.pipeline.judge.claims import Claim, parse_claim
from shoal.pipeline.judge.samples import Row, Samples
from shoal.pipeline.judge.verdicts import judge
from shoal.pipeline.paper import Figure, Panel, Paper
from shoal.pipeline.plan.experiment import Experiment, plan
from shoal.pipeline.report.figures import draw, styles
from shoal.pipeline.report.lines import lines_of
from shoal.pipeline.report.page import Reproduced, number, render, write_report
from shoal.pipeline.simulate.sweep import Failure, SweepOutcome

EXPERIMENT = Experiment(
    "e",
    "An <experiment>",
    {},
    {
        "SM": {"reconfiguration": {"name": "strawman"}},
        "TDU": {"reconfiguration": {"name": "timed"}},
    },
    axis="topology.rate",
    values=(1, 2, 3),
    axis_label="rate ρ",
    seeds=4,
)


def claim(name: str, variant: str, **check: Any) -> Claim:
    return parse_claim(
        {
            "id": name,
            "where": "section 1",
            "kind": "quantitative",
            "words": f"about {check['expected']} & <b>no more</b>",
            "checks": [
                {"measure": "m", "experiment": "e", "variants": [variant], "neutral": 0, **check}
            ],
        }
    )


CLAIMS = (
    claim("P1-a", "SM", relation="about", expected=10, tolerance=1),
    claim("P1-b", "SM", relation="about", expected=50, tolerance=1),
    claim("P2-a", "SM", relation="about", expected=-50, tolerance=1),
    claim("P2-b", "RP", relation="about", expected=1, tolerance=1),
    claim("P2-c", "SM", relation="at_least", expected=10.1),
    claim("P2-d", "SM", relation="at_least", expected=10.1, significant=False),
)
FIGURES = (
    Figure(
        "1",
        "A figure",
        (
            Panel("e", "m", "cost", ("SM", "TDU")),
            Panel("e", "m", "gain", ("TDU",), relative_to="SM", x_scale="log"),
        ),
        "It says so.",
        ("P1-a", "P1-b"),
    ),
    Figure("2", "Not run", (Panel("e", "other", "cost", ("SM",)),), "Nothing.", ("P2-b",)),
)
PAPER = Paper(
    "p",
    "A <title>",
    "Somebody, 2006",
    (EXPERIMENT,),
    CLAIMS,
    FIGURES,
    {"SM": "Straw", "TDU": "Timed"},
)


class Page(HTMLParser):
    """What a page refers to and names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key == "id" and value:
                self.ids.append(value)
            if key in ("href", "src", "xlink:href", "action", "poster", "srcset") and value:
                self.links.append(value)


@pytest.fixture(scope="module")
def page() -> str:
    rows: list[Row] = [
        ("m", "e", variant, x, seed, base * (1 + 0.01 * seed))
        for variant, base in (("SM", 10.0), ("TDU", 5.0))
        for x in (1.0, 2.0, 3.0)
        for seed in range(4)
    ]
    samples = Samples(rows)
    judgements = judge(CLAIMS, samples)
    failure = Failure("abc", "InvariantViolation: <table> wrong", "shoal simulate --replay abc")
    result = Reproduced(
        PAPER, "quick", judgements, samples, plan([EXPERIMENT]), SweepOutcome(failures=[failure])
    )
    return render([result], Path("out"))


def test_it_fetches_nothing(page: str) -> None:
    parsed = Page(page)
    assert all(link.startswith("#") for link in parsed.links)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    outside = set(re.findall(r"https?://[^\s\"'<>)]+", page))
    assert all("w3.org" in address for address in outside), "namespaces only"


def test_every_claim_is_there_with_its_verdict(page: str) -> None:
    parsed = Page(page)
    for claim in CLAIMS:
        assert claim.id.lower() in parsed.ids
    assert [
        page.count(f'class="claim {v}"')
        for v in ("reproduced", "order-only", "undecided", "not-reproduced", "not-run")
    ] == [2, 1, 1, 1, 1]


def test_a_verdict_by_means_only_is_marked(page: str) -> None:
    rows = re.findall(r'<tr id="(.*?)" class="claim.*?</tr>', page, re.S)
    marked = [row for row in rows if "by means only" in _row(page, row)]
    assert marked == ["p2-d"]
    assert "2</strong> of 5 judged claims reproduced, 1 of them by means only" in page
    assert "leaves it open" in _row(page, "p2-c")


def _row(page: str, name: str) -> str:
    found = re.search(rf'<tr id="{name}".*?</tr>', page, re.S)
    assert found is not None
    return found[0]


def test_links_lead_somewhere_and_ids_are_unique(page: str) -> None:
    parsed = Page(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link[1:] for link in parsed.links} <= set(parsed.ids)


def test_what_others_wrote_is_escaped(page: str) -> None:
    assert "<b>no more</b>" not in page
    assert "A &lt;title&gt;" in page
    assert "&lt;table&gt; wrong" in page


def test_drawings_follow_the_theme(page: str) -> None:
    drawings = re.findall(r'<svg role="img".*?</svg>', page, re.S)
    assert len(drawings) == 2
    for drawing in drawings:
        assert "var(--series-" in drawing
        assert "var(--ink)" in drawing
        assert not re.search(
            r"#[0-9a-f]{6}\b", re.sub(r'(id|href)="[^"]*"|url\([^)]*\)', "", drawing)
        )
    assert "prefers-color-scheme: dark" in page
    assert 'data-theme="dark"' in page


def test_every_one_of_many_curves_has_a_colour_of_the_theme_and_a_look_of_its_own() -> None:
    variants = {f"v{n}": EXPERIMENT.variants["SM"] for n in range(24)}
    experiment = replace(EXPERIMENT, variants=variants)
    figure = Figure("1", "Many", (Panel("e", "m", "cost"),), "", ())
    paper = Paper("p", "T", "C", (experiment,), (), (figure,), dict.fromkeys(variants, ""))
    rows: list[Row] = [
        ("m", "e", name, x, 0, float(n)) for n, name in enumerate(variants) for x in (1.0, 2.0)
    ]
    result = Reproduced(paper, "quick", [], Samples(rows), plan([experiment]), SweepOutcome())
    page = render([result], Path("out"))
    assert set(re.findall(r"var\((--series-\d+)\)", page)) == set(
        re.findall(r"(--series-\d+): #", page)
    )
    swatches = re.findall(r'<svg class="swatch".*?</svg>', page)
    assert len(set(swatches)) == len(variants)
    assert "stroke-dasharray" in swatches[5]  # as its line is drawn


def test_bars_are_named_beside_them_and_a_legend_explains_only_what_has_a_name() -> None:
    variants = {"SM": EXPERIMENT.variants["SM"], "odd": EXPERIMENT.variants["TDU"]}
    experiment = Experiment("e", "No axis", {}, variants, seeds=1)
    figure = Figure("1", "Bars", (Panel("e", "m", "cost", tuple(variants)),), "We want it.", ())
    paper = Paper("p", "T", "C", (experiment,), (), (figure,), {"SM": "Straw"}, speaker="The aim")
    rows: list[Row] = [("m", "e", variant, math.nan, 0, 3.0) for variant in variants]
    result = Reproduced(paper, "quick", [], Samples(rows), plan([experiment]), SweepOutcome())
    page = render([result], Path("out"))
    legend = re.findall(r'<ul class="legend">(.*?)</ul>', page, re.S)
    assert ["Straw" in legend[0], "odd" in legend[0]] == [True, False]
    assert "<h4>The aim</h4><p>We want it.</p>" in page
    assert "2 simulations, one seed;" in page


@pytest.mark.parametrize("many", [2, 8])
def test_a_bar_is_switched_off_as_a_curve_is(many: int) -> None:
    """The script finds what a series is drawn with by the end of its id."""
    variants = [f"v{n}" for n in range(many)]
    panel = Panel("e", "m", "cost")
    values: list[Row] = [("m", "e", v, math.nan, s, 3.0 + s) for v in variants for s in range(4)]
    svg = draw(panel, lines_of(panel, Samples(values), variants), styles(variants), "x").svg
    for series in range(many):
        assert len(re.findall(rf'id="[^"]*-series-{series}"', svg)) == 1
        assert len(re.findall(rf'id="[^"]*-band-{series}"', svg)) == 1


def test_commands_reproduce_and_replay(page: str) -> None:
    shown = re.findall(r'<pre class="command"><code>(.*?)</code></pre>', page)
    assert "<span>--out</span>" in shown[0], "a line does not break within an option"
    commands = [re.sub("<.*?>", "", command) for command in shown]
    assert "shoal reproduce p --quick --out out" in commands
    assert "shoal reproduce p --quick --claim P1-a --claim P1-b --out out" in commands
    assert any("shoal simulate --replay abc" in command for command in commands)


def test_the_same_results_give_the_same_page(page: str) -> None:
    rows: list[Row] = [
        ("m", "e", "SM", x, seed, 10.0 + seed) for x in (1.0, 2.0) for seed in range(3)
    ]
    samples = Samples(rows)
    result = Reproduced(
        PAPER, "full", judge(CLAIMS, samples), samples, plan([EXPERIMENT]), SweepOutcome()
    )
    assert render([result], Path("out")) == render([result], Path("out"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (12345.6, "12,346"),
        (0.09876, "0.0988"),
        (-3.14159, "−3.14"),
        (123.456, "123.5"),
        (100.0, "100"),
        (-2000.0, "−2,000"),
        ("A < B", "A < B"),
    ],
)
def test_numbers_as_a_reader_wants_them(value: float | str | None, text: str) -> None:
    assert number(value) == text


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="choose another --out"):
        write_report([], tmp_path / "missing")


def test_every_drawing_brings_its_numbers(page: str) -> None:
    found = [json.loads(text) for text in re.findall(r'class="data">(.*?)</script>', page, re.S)]
    assert [data["labels"]["y"] for data in found] == ["cost", "gain"]
    costs = {line["variant"]: line["points"] for line in found[0]["series"]}
    assert [point["x"] for point in costs["SM"]] == [1.0, 2.0, 3.0]
    assert costs["SM"][0]["mean"] == pytest.approx(10.15)
    assert costs["SM"][0]["low"] < 10.15 < costs["SM"][0]["high"]
    widths = [float(width) for width in re.findall(r'role="img"[^>]*viewBox="0 0 ([\d.]+)', page)]
    for data, width in zip(found, widths, strict=True):
        assert all(
            0 < point["at"][0] < width for line in data["series"] for point in line["points"]
        )


def test_values_that_the_paper_prints_are_drawn_and_tabled() -> None:
    printed = claim("P3-a", "SM", relation="about", expected=12, tolerance=1, x=[2, 2])
    paper = replace(PAPER, claims=(printed,))
    samples = Samples([("m", "e", "SM", x, 0, 10.0) for x in (1.0, 2.0)])
    result = Reproduced(paper, "quick", [], samples, plan([EXPERIMENT]), SweepOutcome())
    page = render([result], Path("out"))
    assert "printed in the paper" in page
    assert len(re.findall(r'id="[^"]*-series-0"', page)) == 2  # the curve and the value: one switch
    assert re.search(r"<td>SM</td><td>2</td><td>10</td><td>–</td><td>12</td>", page)
    assert re.search(r"<td>SM</td><td>1</td><td>10</td><td>–</td><td>–</td>", page)


@pytest.mark.parametrize("apart", [0.0, 0.005])
def test_curves_that_coincide_differ_in_width(apart: float) -> None:
    """Also those that only the width of a line keeps apart, on an axis from zero."""
    values: list[Row] = [
        ("m", "e", variant, x, 0, 0.9 + 0.02 * x + shift)
        for variant, shift in (("SM", 0.0), ("TDU", apart))
        for x in (1.0, 2.0)
    ]
    lines = lines_of(FIGURES[0].panels[0], Samples(values), ["SM", "TDU"])
    drawing = draw(FIGURES[0].panels[0], lines, styles(["SM", "TDU"]), "x").svg
    widths = [
        float(re.search(r"stroke-width: ([\d.]+)", group)[1])  # type: ignore[index]  # it is there
        for group in re.findall(r'<g id="[^"]*series-\d">(.*?)</g>', drawing, re.S)
    ]
    assert widths[0] > widths[1] + 1


def test_an_axis_ends_where_the_quantity_does() -> None:
    panel = Panel("e", "m", "share")
    lines = lines_of(panel, Samples([("m", "e", "SM", x, 0, 0.99) for x in (1.0, 2.0)]), ["SM"])
    svg = draw(panel, lines, styles(["SM"]), "x", (), (0, 1)).svg
    axis = svg[svg.index("matplotlib.axis_2") :]
    labels = [float(label) for label in re.findall(r">([\d.]+)</text>", axis)]
    assert max(labels) == 1.0


def test_an_axis_that_nearly_reaches_the_end_shows_it() -> None:
    panel = Panel("e", "m", "share")
    values: list[Row] = [("m", "e", "SM", x, 0, 0.95 + 0.02 * x) for x in (1.0, 2.0)]
    svg = draw(panel, lines_of(panel, Samples(values), ["SM"]), styles(["SM"]), "x", (), (0, 1)).svg
    labels = re.findall(r">([\d.]+)</text>", svg[svg.index("matplotlib.axis_2") :])
    assert labels[-1] == "1"


def test_counts_have_thousands_apart_on_an_axis_that_begins_at_zero() -> None:
    panel = Panel("e", "m", "messages")
    values = [("m", "e", "SM", 1.0, 0, 0.0), ("m", "e", "SM", 2.0, 0, 160_000.0)]
    svg = draw(panel, lines_of(panel, Samples(values), ["SM"]), styles(["SM"]), "x").svg
    labels = re.findall(r">([^<>]+)</text>", svg[svg.index("matplotlib.axis_2") :])
    assert labels[0] == "0"
    assert "100,000" in labels
