"""Descriptions of a protocol's parameters: name, type, range, default, meaning.

All of it stands in the class of the parameters already: types and ranges in the annotations, the
meaning in the docstring below each field. Python keeps no such docstrings, so they are read from
the source.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

import msgspec
from msgspec import inspect as types


class Parameter(msgspec.Struct, frozen=True):
    """One parameter of a protocol, in words."""

    name: str
    type: str
    range: str
    """The values that are allowed, as text; empty if the type says it all."""
    default: Any
    """None if it must be given, or if that is the default."""
    required: bool
    meaning: str


def parameters(struct: type[msgspec.Struct]) -> list[Parameter]:
    """The fields of a class of parameters, in the order in which they are declared."""
    meanings = field_docstrings(struct)
    found = []
    for field in msgspec.structs.fields(struct):
        kind, bounds = _words(types.type_info(field.type))
        default: Any = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        required = default is msgspec.NODEFAULT
        found.append(
            Parameter(
                field.name,
                kind,
                bounds,
                None if required else msgspec.to_builtins(default),
                required,
                meanings.get(field.name, ""),
            )
        )
    return found


def allowed(struct: type[msgspec.Struct], path: str) -> str:
    """The values that a field may have, in words; its path is dotted. Empty if there is no such."""
    kind: Any = struct
    for name in path.split("."):
        fields = msgspec.structs.fields(kind) if hasattr(kind, "__struct_fields__") else ()
        kind = next((field.type for field in fields if field.name == name), None)
    return _words(types.type_info(kind))[0] if kind is not None else ""


def field_docstrings(struct: type) -> dict[str, str]:
    """The docstring below each field of a class and of those that it extends."""
    found: dict[str, str] = {}
    for part in reversed(struct.__mro__):
        try:
            source = textwrap.dedent(inspect.getsource(part))
        except (OSError, TypeError):
            continue
        (definition,) = ast.parse(source).body
        name = ""
        for statement in getattr(definition, "body", ()):
            match statement:
                case ast.AnnAssign(target=ast.Name(id=name)):
                    pass
                case ast.Expr(value=ast.Constant(value=str(text))) if name:
                    found[name] = _plain(text)
                    name = ""
                case _:
                    name = ""
    return found


def _plain(text: str) -> str:
    """A docstring without its markup: ``:mod:`~shoal.x.y``` reads as ``shoal.x.y``."""
    text = re.sub(r":\w+:`~?([^`]*)`", r"\1", " ".join(text.split()))
    return text.replace("``", "")


def _words(kind: types.Type) -> tuple[str, str]:
    """A type and its range, as text."""
    match kind:
        case types.IntType() | types.FloatType():
            return ("whole number" if isinstance(kind, types.IntType) else "number", _range(kind))
        case types.BoolType():
            return "true or false", ""
        case types.StrType():
            return "text", ""
        case types.LiteralType(values=values):
            return "one of " + ", ".join(map(repr, values)), ""
        case types.UnionType(types=parts):
            words = [_words(part) for part in parts if not isinstance(part, types.NoneType)]
            return " or ".join(word for word, _ in words), " or ".join(r for _, r in words if r)
        case types.VarTupleType(item_type=item) | types.ListType(item_type=item):
            word, bounds = _words(item)
            return f"list of {word}", bounds
        case types.TupleType(item_types=items):
            return f"({', '.join(_words(item)[0] for item in items)})", _words(items[0])[1]
        case types.StructType(cls=cls):
            return f"table ({', '.join(cls.__struct_fields__)})", ""
        case _:
            return type(kind).__name__.removesuffix("Type").lower(), ""


def _range(kind: types.IntType | types.FloatType) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    bounds = ((sign, getattr(kind, name)) for name, sign in signs.items())
    return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)
