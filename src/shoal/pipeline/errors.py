"""Errors around a sweep, in a user's words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager


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


@contextmanager
def writing(place: str) -> Iterator[None]:
    """An error of the file system while results are written, as the user's."""
    try:
        yield
    except OSError as error:
        raise PipelineError(
            f"cannot write {place}: {error.strerror or error}", "choose another --out folder"
        ) from None


def python_error(text: str) -> str | None:
    """The last line of Spark's text that names an error of Python, if there is one."""
    lines = [line for line in text.splitlines() if re.match(r"\s*[\w.]*(Error|Exception): ", line)]
    return lines[-1].strip() if lines else None
