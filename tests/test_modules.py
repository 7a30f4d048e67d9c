"""Files with protocols of one's own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shoal.modules import load_module
from shoal.stack import StackError

REGISTERS = """
import msgspec
from shoal.routing import Flooding
from shoal.stack import register

class Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass

register("routing", "{name}", Flooding, Parameters, needs={{"links"}})
"""


def test_a_file_takes_no_name_of_a_module_that_may_be_imported_later(tmp_path: Path) -> None:
    name = "this"  # of the standard library, and imported by nobody
    assert name not in sys.modules
    file = tmp_path / f"{name}.py"
    file.write_text(REGISTERS.format(name="of-this"))
    load_module(str(file))
    assert name not in sys.modules
    assert f"{name}_" in sys.modules


def test_a_package_that_breaks_while_its_part_is_looked_for_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package").mkdir()
    (tmp_path / "broken_package" / "__init__.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        StackError, match=r"'broken_package\.part' does not load: ZeroDivisionError"
    ):
        load_module("broken_package.part")
