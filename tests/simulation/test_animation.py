"""Films of runs: they show what happened, and change nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from shoal.simulation import parse_config, simulate
from shoal.simulation.animation import FRAMES, HEIGHT, WIDTH, Film, layout
from shoal.stack import StackError

RUN: dict[str, Any] = {
    "nodes": 20,
    "duration": 12.0,
    "topology": {
        "name": "full-mesh",
        "joining": 3.0,
        "notice": 0.1,
        "crashes": [[6.0, 0], [6.0, 3]],
    },
    "overlay": {"name": "lstree", "heartbeat": 0},
    "routing": {"name": "flooding"},
    "workload": {"publish_rate": 0},
    "link": {"delay": 0.02},
}


def filmed(**more: Any) -> tuple[Film, str]:
    film = Film()
    result = simulate(parse_config({**RUN, "data_plane": "objects", **more}), film.watch)
    return film, result.fingerprint


def test_a_film_shows_nodes_links_and_messages(tmp_path: Path) -> None:
    film, fingerprint = filmed()
    assert fingerprint == simulate(parse_config({**RUN, "data_plane": "objects"})).fingerprint
    film.write(tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")  # nothing from outside
    found = re.search(r"const film=(.*);\n", page)
    assert found is not None
    data = json.loads(found[1])
    assert len(data["frames"]) == FRAMES + 1
    up: dict[str, Any] = {}
    seen = set()
    for frame in data["frames"]:
        up |= frame.get("n", {})
        seen |= {data["kinds"][kind] for kind, _, _ in frame["m"]}
    assert {node for node, state in up.items() if state is None} == {"0", "3"}
    assert sum(state is not None and state[2] == "root" for state in up.values()) == 1
    assert {"parentrequest", "accept", "attach", "regional"} <= seen
    last = next(frame["l"] for frame in reversed(data["frames"]) if "l" in frame)
    assert len(last) == 17  # a tree of 18


def test_a_picture_shows_moments_before_and_after_a_failure(tmp_path: Path) -> None:
    film, _ = filmed()
    film.write(tmp_path / "run.svg")
    text = (tmp_path / "run.svg").read_text()
    ElementTree.fromstring(text)
    assert re.findall(r"(\d+) nodes<", text) == ["20", "18", "18", "18"]


@pytest.mark.parametrize("overlay", [{"name": "graph"}, {"name": "lstree"}])
def test_any_overlay_can_be_filmed(overlay: dict[str, Any]) -> None:
    film, _ = filmed(overlay=overlay, duration=5.0)
    assert film.frames[-1]["t"] == 5.0
    for x, y in film.places.values():
        assert 0 <= x <= WIDTH
        assert 0 <= y <= HEIGHT


@pytest.mark.parametrize("overlay", ["dhtree", "shopparent"])
def test_trees_of_overlays_without_colours_are_coloured_by_their_root(overlay: str) -> None:
    tables = {"routing": {"name": "subscription-forwarding"}, "reconfiguration": {"name": "timed"}}
    film, _ = filmed(overlay={"name": overlay}, duration=5.0, **tables)
    ends = {node for node, (colour, _, _) in film.states.items() if colour == str(node)}
    assert len(film.states) == 20
    assert ends == {node for node, (_, depth, _) in film.states.items() if depth == 0}
    assert (
        ends >= {node for node, (_, _, parent) in film.states.items() if parent == "root"} != set()
    )
    assert {colour for colour, _, _ in film.states.values()} == set(map(str, ends))


def test_nodes_without_a_colour_are_grey() -> None:
    film = Film()
    film.stills = [(0.0, {0: ["none", 0, None], 1: [None, None, None]}, set(), {})]
    picture = film.picture()
    assert "#ddd" in picture
    assert "hsl" not in picture


def test_too_many_nodes_cannot_be_told_apart() -> None:
    with pytest.raises(StackError, match="at most 300 nodes"):
        filmed(nodes=301)


def test_orphans_are_drawn_as_roots_of_their_own() -> None:
    states: dict[int, list[Any]] = {
        0: ["a", 0, "root"],
        1: ["a", 1, 0],
        2: ["a", 1, 9],
        3: ["a", 2, 2],
    }
    places = layout(states, {(0, 1), (2, 3)}, True)
    assert places[0][1] == places[2][1] < places[1][1] == places[3][1]


def test_radios_are_filmed_where_they_are_with_their_frames_and_losses() -> None:
    film, fingerprint = filmed(
        topology={"name": "air", "width": 400.0, "height": 400.0, "speed": 20.0},
        overlay={"name": "beacons"},
        routing={"name": "broadcast", "threshold": 1.0, "jitter": 0.01},
        workload={"publish_rate": 2.0},
        link={},
        duration=3.0,
    )
    assert fingerprint == filmed_not(film)
    moved = [frame["p"] for frame in film.frames if frame.get("p")]
    assert len(moved) > FRAMES / 2, "nodes move all the time"
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for p in moved for x, y in p.values())
    assert sum(len(frame["r"]) for frame in film.frames) > 50
    assert sum(len(frame["m"]) for frame in film.frames) > 500
    assert sum(len(frame["x"]) for frame in film.frames) > 0
    assert json.loads(data_of(film.page()))["range"] > 100
    ElementTree.fromstring(film.picture())


@pytest.mark.parametrize("overlay", ["maodv", "witree"])
def test_trees_of_radios_that_do_not_hear_each_other_have_their_own_colours(overlay: str) -> None:
    places = [[0.0, 0.0], [50.0, 0.0], [900.0, 0.0], [950.0, 0.0]]
    film, _ = filmed(
        nodes=4,
        topology={"name": "air", "places": places},
        overlay={"name": overlay},
        workload={"publish_rate": 0.0},
        link={},
        duration=20.0,
    )
    colours, depths, _ = zip(*(film.states[node] for node in range(4)), strict=True)
    assert colours[0] == colours[1] != colours[2] == colours[3]
    assert sorted(depths) == [0.0, 0.0, 1.0, 1.0]


def filmed_not(film: Film) -> str:
    """The fingerprint of the same run, seen by nobody."""
    config = {
        **RUN,
        "data_plane": "objects",
        "topology": {"name": "air", "width": 400.0, "height": 400.0, "speed": 20.0},
        "overlay": {"name": "beacons"},
        "routing": {"name": "broadcast", "threshold": 1.0, "jitter": 0.01},
        "workload": {"publish_rate": 2.0},
        "link": {},
        "duration": 3.0,
    }
    return simulate(parse_config(config)).fingerprint


def data_of(page: str) -> str:
    """The film's data in a page."""
    found = re.search(r"const film=(.*);\nconst NS", page)
    assert found is not None
    return found.group(1)
