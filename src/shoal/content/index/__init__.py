"""The matching index: millions of filters, one event or a batch of events at a time."""

from shoal.content.index.events import Matches
from shoal.content.index.index import MatchIndex

__all__ = ["MatchIndex", "Matches"]
