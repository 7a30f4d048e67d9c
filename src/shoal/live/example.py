"""The example configuration of a broker: every setting with its meaning and its default.

It is made from :class:`~shoal.live.settings.Settings` and the docstrings of its fields, so it
cannot differ from what a broker does.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import textwrap
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from shoal.live import settings
from shoal.live.settings import Settings

HEAD: Final = """\
# A broker's configuration: shoal broker --config FILE
#
# Every setting is here with its default. Behind a '#' stands what has no default, or one that
# follows from other settings.
"""


EXAMPLES: Final = {"reconfiguration": "strawman", "recovery": "…"}
"""Protocols to show where there is none by default."""


def example_config(values: Settings) -> str:
    """A configuration in TOML that equals these settings, with a comment on each."""
    meanings = _meanings()
    lines = [HEAD]
    sections: list[tuple[str, msgspec.Struct | dict[str, Any]]] = []
    for name in Settings.__struct_fields__:
        value = getattr(values, name)
        if isinstance(value, msgspec.Struct | dict):
            sections.append((name, value))
            continue
        lines += _comment(meanings["Settings", name])
        if name in EXAMPLES:
            lines.append(f'# {name} = {{ name = "{EXAMPLES[name]}" }}')
        elif value is None:
            lines.append(f"# {name} = " + ("0" if name == "seed" else '""'))
        else:
            lines.append(f"{name} = {_toml(value)}")
        lines.append("")
    for name, section in sections:
        lines += [*_comment(meanings["Settings", name]), f"[{name}]"]
        if isinstance(section, dict):
            lines += [f"# {key} = {_toml(value)}" for key, value in section.items()]
            lines.append("")
            continue
        kind = type(section).__name__
        for key in section.__struct_fields__:
            lines += _comment(meanings[kind, key])
            lines += [f"{key} = {_toml(getattr(section, key))}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 96, initial_indent="# ", subsequent_indent="# ")


def _toml(value: Any) -> str:
    """A value of a setting in TOML; JSON is the same for those that there are."""
    return json.dumps(msgspec.to_builtins(value))


def _meanings() -> dict[tuple[str, str], str]:
    """The docstring of each field, by class and field: Python keeps them in the source only."""
    tree = ast.parse(inspect.getsource(settings))
    return {
        (block.name, field): meaning
        for block in tree.body
        if isinstance(block, ast.ClassDef)
        for field, meaning in _documented(block.body)
    }


def _documented(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, after in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            yield field.target.id, " ".join(str(after.value.value).split())
