"""The matching index: millions of filters, one event or a batch of events at a time.

* :class:`MatchIndex` takes filters in normal form and gives handles: insert, remove, match one
  event, match an Arrow record batch;
* :class:`IndexTable` is the same as a routing table, filters by source.

Importing it is cheap: the compiled kernels are loaded when an index first needs them, or by
:func:`warm_up`. How it works, from the outside in: :mod:`~shoal.content.index.index` (updates),
:mod:`~shoal.content.index.vocabulary` (values as numbers), :mod:`~shoal.content.index.lanes`
(filters as *lanes*, boxes of such numbers), :mod:`~shoal.content.index.layout` (how lanes lie in
memory), :mod:`~shoal.content.index.kernels` (how events are compared with them).
"""

from shoal.content.index.index import MatchIndex
from shoal.content.index.matches import Matches
from shoal.content.index.table import IndexTable
from shoal.content.index.warming import warm_up

__all__ = ["IndexTable", "MatchIndex", "Matches", "warm_up"]
