"""Settings given as ``--set KEY=VALUE``, and protocols named by options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def assign(
    raw: dict[str, Any], setting: str, default: Callable[[str], dict[str, Any]] = lambda _: {}
) -> None:
    """Carry out ``topology.rate=10``: the value is read as in TOML, or taken as a text.

    ``default`` gives the contents of a section that ``raw`` does not have.
    """
    import tomllib

    from shoal.stack import StackError

    key, equals, text = setting.partition("=")
    if not equals or not key.strip():
        raise StackError(f"--set {setting}: no value; write it as KEY=VALUE, e.g. topology.rate=10")
    try:
        setting.encode()
        value = tomllib.loads(f"value = {text}")["value"]
    except UnicodeEncodeError:
        raise StackError(f"--set {setting!a}: this is no UTF-8; check its characters") from None
    except (ValueError, RecursionError):
        value = text
    *path, last = key.strip().split(".")
    section = raw
    for part in path:
        section = section.setdefault(part, default(part) if section is raw else {})
        if not isinstance(section, dict):
            raise StackError(
                f"--set {setting}: '{part}' has no keys of its own; leave out what follows"
            )
    section[last] = value


def choose(raw: dict[str, Any], **named: str | None) -> None:
    """Put protocols into their sections; the parameters there stay, unless of another protocol."""
    for kind, name in named.items():
        if name is not None:
            was = raw.get(kind)
            before = was if isinstance(was, dict) else {}
            same = before.get("name", name) == name
            raw[kind] = {**(before if same else {}), "name": name}
