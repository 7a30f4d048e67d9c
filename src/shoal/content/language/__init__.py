"""The filter language: CESQL 1.0, the CloudEvents filter language, widened.

* :mod:`~shoal.content.language.syntax`: expressions, the parts of a filter;
* :mod:`~shoal.content.language.parser` makes them of text, :mod:`~shoal.content.language.printer`
  text of them;
* :mod:`~shoal.content.language.check` and :mod:`~shoal.content.language.cost` refuse what can never
  match or takes too long;
* :mod:`~shoal.content.language.evaluate` gives the value of an expression on an event.
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
