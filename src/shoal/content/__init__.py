"""The content of events, and filters over it.

A *content model* is a pair of types that fit each other: what an event carries, and a filter over
it. Protocols and brokers see only the interface in :mod:`shoal.content.model` and the tables in
:mod:`shoal.content.tables`; they never ask which model they are working with.

* :mod:`~shoal.content.patterns`: the papers' synthetic model. An event is a set of numbers, a
  subscription one number.
* :mod:`~shoal.content.attributes`: typed attributes, and filters over them in the language of
  :mod:`shoal.content.language`; :data:`F` builds the same filters in Python. For many filters
  there is a matching index, :mod:`shoal.content.index`.
"""

from shoal.content.attributes import AttributeFilter, Attributes, merge
from shoal.content.builder import F, within, within_box
from shoal.content.event import AnyContent, AnyFilter, Event, EventId
from shoal.content.language import FilterError, FilterWarning
from shoal.content.model import Content, Filter
from shoal.content.patterns import Pattern, Patterns
from shoal.content.tables import FilterTable, NaiveTable, PatternTable, Source
from shoal.content.values import Value

__all__ = [
    "AnyContent",
    "AnyFilter",
    "AttributeFilter",
    "Attributes",
    "Content",
    "Event",
    "EventId",
    "F",
    "Filter",
    "FilterError",
    "FilterTable",
    "FilterWarning",
    "NaiveTable",
    "Pattern",
    "PatternTable",
    "Patterns",
    "Source",
    "Value",
    "merge",
    "within",
    "within_box",
]
