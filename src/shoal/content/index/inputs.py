"""What an index accepts: filters in any form, events one by one or as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from shoal.content.attributes import AttributeFilter, values_of
from shoal.content.model import Content
from shoal.content.normal import NormalForm

if TYPE_CHECKING:
    import pyarrow as pa

Event: TypeAlias = Mapping[str, object] | Content
"""An event's attributes, plain or as :class:`~shoal.content.Attributes`."""
Wanted: TypeAlias = NormalForm | AttributeFilter | str
"""A filter, its text, or its normal form."""


def form_of(wanted: Wanted) -> NormalForm:
    """The normal form of a filter."""
    if isinstance(wanted, NormalForm):
        return wanted
    if isinstance(wanted, str):
        return AttributeFilter(wanted).normalised()
    if isinstance(wanted, AttributeFilter):
        return wanted.normalised()
    raise TypeError(
        f"a {type(wanted).__name__} is no filter over attributes; give one, or its text: 'x > 5'"
    )


def event_of(event: object) -> dict[str, object]:
    """An event's attributes as a dict; empty for content of another kind."""
    if is_table(event):
        raise TypeError(f"a {type(event).__name__} holds many events; match_batch() takes it")
    values = values_of(event)
    return {} if values is None else values if type(values) is dict else dict(values)


def is_table(event: object) -> bool:
    """Whether this is a table of events: of Arrow, pandas, polars or anything that Arrow reads."""
    return hasattr(event, "__arrow_c_stream__") or hasattr(event, "__arrow_c_array__")


def batch_of(table: Any) -> pa.RecordBatch | pa.Table:
    """A table as Arrow's; a batch or table of Arrow's as it is."""
    if hasattr(table, "num_rows") and hasattr(table, "schema"):
        return table
    if not is_table(table):
        raise TypeError(
            f"a {type(table).__name__} is no table of events; give an Arrow table or record batch, "
            "or a DataFrame"
        )
    import pyarrow as pa

    try:
        if hasattr(table, "iloc"):  # pandas: its index is no attribute
            return pa.Table.from_pandas(table, preserve_index=False)
        return pa.table(table)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeError(f"the table cannot be read: {error}; give each column one type") from error
