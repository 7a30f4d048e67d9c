"""Data shared with the project: found beside its root, absent elsewhere."""

from __future__ import annotations

from pathlib import Path


def shared(path: str) -> Path | None:
    """A file or folder of ``../shared``, or None where there is none."""
    found = Path(__file__).resolve().parents[2] / "shared" / path
    return found if found.exists() else None
