"""The published conformance cases of CESQL 1.0.

Found beside the project or through ``SHOAL_CESQL_TCK`` (a folder of YAML files); skipped where
they are absent.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from shared_data import shared
from shoal.content.language import Failure, FilterError, evaluate, parse

REQUIRED = {"specversion": "1.0", "id": "any", "source": "localhost", "type": "any"}


class _Loader(yaml.SafeLoader):
    """Timestamps stay text, as CESQL reads them."""


_LOADER_RESOLVERS = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.yaml_implicit_resolvers = _LOADER_RESOLVERS


def _folder() -> Path | None:
    named = os.environ.get("SHOAL_CESQL_TCK")
    return Path(named) if named else shared("conformance/cesql_tck")


def _cases() -> list[Any]:
    folder = _folder()
    if folder is None:
        return []
    return [
        pytest.param(case, id=f"{path.stem}: {case['name']}")
        for path in sorted(folder.glob("*.yaml"))
        for case in yaml.load(path.read_text("utf-8"), _Loader)["tests"]
    ]


@pytest.mark.skipif(_folder() is None, reason="the conformance cases are not here")
def test_tck_is_whole() -> None:
    assert len(_cases()) == 275


@pytest.mark.parametrize("case", _cases())
def test_tck(case: dict[str, Any]) -> None:
    event = {**case.get("event", REQUIRED), **case.get("eventOverrides", {})}
    outcome: object
    kind: str | None
    try:
        outcome = evaluate(parse(str(case["expression"])), event)
        kind = None
    except FilterError as error:
        outcome, kind = False, error.kind
    if isinstance(outcome, Failure):
        kind, outcome = outcome.kind, outcome.value
    assert kind == case.get("error")
    if "result" in case:
        assert outcome == case["result"]
        assert type(outcome) is type(case["result"])
