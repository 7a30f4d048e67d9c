"""The filter language: CESQL 1.0, the CloudEvents filter language, widened.

* :mod:`~shoal.content.language.parser` reads it, :mod:`~shoal.content.language.printer` writes it;
* :mod:`~shoal.content.language.syntax` is what lies between;
* :mod:`~shoal.content.language.evaluate` says what an expression is worth on an event.
"""

from shoal.content.language.evaluate import evaluate
from shoal.content.language.functions import Failure
from shoal.content.language.limits import EVENT_BYTES, MAX_COST, FilterError, FilterWarning
from shoal.content.language.parser import parse

__all__ = [
    "EVENT_BYTES",
    "MAX_COST",
    "Failure",
    "FilterError",
    "FilterWarning",
    "evaluate",
    "parse",
]
