"""The filter language: CESQL 1.0, the CloudEvents filter language, widened.

* :mod:`~shoal.content.language.parser` reads it, :mod:`~shoal.content.language.printer` writes it;
* :mod:`~shoal.content.language.syntax` is what lies between;
* :mod:`~shoal.content.language.evaluate` says what an expression is worth on an event.
"""

from shoal.content.language.evaluate import Outcome, evaluate, holds
from shoal.content.language.functions import Failure
from shoal.content.language.limits import (
    EVENT_BYTES,
    MAX_COST,
    MAX_DEPTH,
    MAX_DISJUNCTS,
    MAX_ELEMENTS,
    MAX_LENGTH,
    FilterError,
    FilterWarning,
)
from shoal.content.language.parser import parse
from shoal.content.language.printer import show
from shoal.content.language.syntax import Expression

__all__ = [
    "EVENT_BYTES",
    "MAX_COST",
    "MAX_DEPTH",
    "MAX_DISJUNCTS",
    "MAX_ELEMENTS",
    "MAX_LENGTH",
    "Expression",
    "Failure",
    "FilterError",
    "FilterWarning",
    "Outcome",
    "evaluate",
    "holds",
    "parse",
    "show",
]
