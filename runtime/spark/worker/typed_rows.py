"""Messages that leave a query as rows of a DataFrame with typed columns."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from ....dsl.errors import PipelineError
from ....dsl.serde import key_serde, value_serde
from ....dsl.validation import explain
from ....planner.flow import plain
from ...data_frames.column_values import column_values
from ..lowering.output_columns import OutputColumns
from ..lowering.packaging import unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import FRAMES, Head, Messages, TaskReport, decode, decode_head, decode_messages, is_report
from .error_texts import raise_failure

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def typed_rows(shipped: ShippedPlan, stream: str) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that makes typed rows of the rows of a stream. Raises the error of a task that has
    failed before."""
    return partial(_typed, shipped, stream)


def _typed(shipped: ShippedPlan, stream: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    columns = unpack(shipped)[0].frames[stream]
    make = _RowMaker(columns, stream)
    for batch in batches:
        for level, block in zip(batch.column("level").to_pylist(), batch.column("block"), strict=True):
            if level != FRAMES:
                _refuse_failure(block.as_buffer())
                continue
            head = decode_head(block.as_buffer())
            if isinstance(head, Head) and head.stream == stream:
                messages = columns.chosen(decode_messages(block.as_buffer()))
                if messages is not None:
                    yield make(messages)


def _refuse_failure(block: pa.Buffer) -> None:
    if is_report(block) and isinstance(report := decode(block), TaskReport):
        raise_failure(report.report)


class _RowMaker:
    """Makes Arrow batches of the messages of one stream."""

    def __init__(self, columns: OutputColumns, stream: str) -> None:
        self._columns, self._stream = columns, stream
        self._decode = value_serde(columns.value).decode
        self._decode_key = key_serde(bytes if columns.key is None else columns.key_type).decode
        self._of_value = column_values(plain(columns.value))

    def __call__(self, messages: Messages) -> pa.RecordBatch:
        values = [None if value is None else self._decoded(value) for value in messages.values]
        arrays = [self._array(field, self._column(field.name, messages, values)) for field in self._columns.schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns.schema)

    def _array(self, field: pa.Field, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, field.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            wrong = f"a value of stream {self._stream!r} does not fit the column {field.name!r} of type {field.type}: "
            wrong += f"{error}; it is {_unfit(field.type, values)!r}"
            remedy = "map it to a value that fits, such as a text, before send_to"
            raise PipelineError(explain(wrong, "values that fit the column", remedy)) from None

    def _column(self, name: str, messages: Messages, values: Sequence[Any]) -> list[Any]:
        if name == self._columns.key:
            return [None if key is None else self._decode_key(key) for key in messages.keys]
        if name == self._columns.timestamp:
            return [_time(time) for time in messages.times]
        of_value = self._of_value[name]
        return [None if value is None else of_value(value) for value in values]

    def _decoded(self, data: bytes) -> Any:
        try:
            return self._decode(data)
        except Exception as error:
            wrong = f"a message of stream {self._stream!r} cannot be made a row: {error}; it begins with {data[:80]!r}"
            remedy = "pass DataFrameOutput(..., value=...) with the type of what is sent"
            raise PipelineError(explain(wrong, "values of the type that the stream has", remedy)) from None


def _time(milliseconds: int) -> Any:
    """A time as Arrow takes it. What no datetime can say is left to Arrow, as microseconds."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return milliseconds * 1000


def _unfit(type_: pa.DataType, values: list[Any]) -> Any:
    """The first value that a column does not take."""
    for value in values:
        try:
            pa.array([value], type_)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return value
    return None
