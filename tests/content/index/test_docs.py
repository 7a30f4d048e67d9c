"""What the page on matching shows is what happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[3] / "docs" / "matching.md"


def test_the_first_example() -> None:
    (example,) = re.findall(
        r"```python\n(from shoal.content.index import.*?)```", PAGE.read_text(), re.S
    )
    names: dict[str, Any] = {}
    for line in example.splitlines():
        code, _, comment = line.partition("#")
        if comment:
            assert str(eval(code, names)) == comment.split(",")[0].strip()
        else:
            exec(code, names)
