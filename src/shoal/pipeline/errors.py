"""Errors around a sweep, in a user's words."""

from __future__ import annotations


class PipelineError(Exception):
    """The pipeline cannot go on: one line that names the cause and the cure."""

    def __init__(self, cause: str, cure: str) -> None:
        super().__init__(f"{cause}; {cure}")
        self.cause = cause
        self.cure = cure


class UnreachableMasterError(PipelineError):
    """No Spark master answers."""


class SweepInterrupted(KeyboardInterrupt):
    """A sweep was stopped with Ctrl-C: what had finished is kept; the message says how to go on."""
