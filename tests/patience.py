"""How long tests wait. No test passes or fails by how fast the machine is."""

from __future__ import annotations

from typing import Final

CONDITION: Final = 120.0
"""Seconds after which a condition that does not hold counts as one that never will."""
STORY: Final = 600.0
"""Seconds after which a whole test, or a process it started, counts as hung."""
