"""Where tests find data that is too large, or not ours, to be in the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def shared(path: str) -> Path | None:
    """A file or folder under ``../shared`` beside the project, or None where it is absent."""
    found = ROOT.parent / "shared" / path
    return found if found.exists() else None
