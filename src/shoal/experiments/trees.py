"""What Frey (2006) says of LSTree that any single run can show, live or simulated."""

from __future__ import annotations

from pathlib import Path

from shoal.pipeline.judge.claims import load_claims

CLAIMS = load_claims(Path(__file__).with_name("trees.claims.yaml"))
"""Checks of ``shoal report --page``; its runs take the place of the variants."""
