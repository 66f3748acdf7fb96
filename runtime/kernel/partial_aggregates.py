"""Partial aggregates: what a border sends in place of the messages of a key that lie in the same windows.

The border begins an accumulator for each message. When its outputs are drained, it merges those of a key whose times
lie in one span, and sends one record for them in the place of the first. The window behind the border merges what it is
given. A message is sent as it is where its accumulator cannot be begun or merged: it then fails behind the border, or
not, as it would without all this.

The watermark may not close a window between messages that travel together: then some would have come in time and others
not. So messages are merged only as long as the watermark at the border is before the end of their span.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from inspect import isclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, is_typeddict

import msgspec

from ...dsl.message import Headers, Record
from ...dsl.windows.aggregates import Aggregate
from ..process.interruptions import INTERRUPTIONS
from .time.border_watermarks import pack_trailer, with_trailer

PARTIAL_HEADER = "fluvial-partial"
"""The header of a record that is a partial aggregate: its value is the number of messages."""
_MARK = b"\xc1"
"""The first byte of its value. No text, JSON or MessagePack begins with it: who expects a message cannot decode it."""
MOST_KEY_BYTES = 1 << 10
"""Messages with longer keys are sent as they are, with their check of the size of records."""


TRIAL = 1000
"""By so many messages a border judges whether to aggregate is worth it."""
LEAST_MERGED = 0.25
"""It is if this share of them went into the record of another."""
LONG_TRIAL = 10_000
"""So many messages are judged before the outputs are drained."""
PAUSE = 16
"""If it is not, so many times as many are sent as they are before some are tried again."""


class Partial(msgspec.Struct, gc=False):
    """A partial aggregate of so many messages, as the operator that takes it is given it."""

    accumulator: Any
    messages: int


class PendingPartial(Partial, gc=False):
    """A partial aggregate that waits for others of its key and span. `timestamp` is the greatest of its messages. The
    watermark is that of the border at its first message; None where records carry none."""

    key: bytes
    end: int
    timestamp: int
    watermark: int | None


Outgoing = Record | PendingPartial
"""What a border that aggregates has among its outputs until they are drained."""


class Combiner:
    """The code of a border that aggregates messages: for which aggregate, in spans of so many ms. Values of these
    `classes` come out of the border as they went in; None stands for all. `encode` and `check` are for messages that
    are sent as they are. `producer` is the number of the task in trailers, and `outputs` holds what waits.

    Where few messages of a key come together, a partial aggregate costs more than a message: then most are sent as they
    are, and some are tried again now and then.
    """

    def __init__(
        self,
        aggregate: Aggregate[Any, Any],
        span: int,
        classes: frozenset[type] | None,
        encode: Callable[[Any], bytes],
        check: Callable[..., None] | None,
        producer: int,
        outputs: list[Any],
    ) -> None:
        self._outputs = outputs
        self._aggregate, self._span, self._classes = aggregate, span, classes
        self._encode, self._check, self._producer = encode, check, producer
        self._tried = self._merged = 0
        self._rest, self._waiting = [0], [0]
        """So many messages more are sent as they are; so many wait to be merged."""
        self.item = self._item()

    def _item(self) -> Callable[[bytes | None, Any, int, Headers, int | None], Outgoing]:
        # A closure over locals: this runs for each message.
        init, fold, span, classes = self._aggregate.init, self._aggregate.add, self._span, self._classes
        may_combine, as_it_is, rest, waiting = self._aggregate.combines, self._as_it_is, self._rest, self._waiting

        def item(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int | None) -> Outgoing:
            """A message as a partial aggregate, or else as a record. Raises what its encoding or its size check
            raises."""
            if rest[0]:
                rest[0] -= 1
            elif key is not None and len(key) <= MOST_KEY_BYTES and (classes is None or value.__class__ in classes):
                try:
                    accumulator = fold(init(), value)
                    if may_combine is not None and may_combine(accumulator):
                        waiting[0] += 1
                        if waiting[0] == LONG_TRIAL:
                            self._judge_waiting()
                        end = timestamp - timestamp % span + span
                        return PendingPartial(accumulator, 1, key, end, timestamp, watermark)
                except INTERRUPTIONS:
                    raise
                except BaseException:  # noqa: S110 - it is raised again where the message is added to its window
                    pass
            return as_it_is(key, value, timestamp, headers, watermark)

        return item

    def _judge_waiting(self) -> None:
        partials = [item for item in self._outputs if isinstance(item, PendingPartial)]
        self._judge(len(partials), len(partials) - len({(item.key, item.end) for item in partials}))

    def _as_it_is(
        self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int | None
    ) -> Record:
        data = None if value is None else self._encode(value)
        if self._check is not None:
            self._check(key, data, headers)
        return self._sent((key, data, timestamp, headers), watermark)

    def released(self, item: Outgoing, watermark: int | None) -> Outgoing:
        """An item of a message that was in flight, with the watermark of now."""
        if isinstance(item, PendingPartial):
            item.watermark = watermark
            return item
        return self._sent(item, watermark)

    def _sent(self, record: Record, watermark: int | None) -> Record:
        return record if watermark is None else with_trailer(record, pack_trailer(self._producer, watermark))

    def records(self, items: list[Outgoing]) -> list[Record]:
        """The records to send, in the order of the first message of each. Where the order of a key's messages may
        matter, those of one span are merged only as long as none of another span comes between them."""
        in_order, tried = self._aggregate.is_ordered, 0
        waiting: dict[Any, PendingPartial] = {}
        sent: list[Outgoing] = []
        for item in items:
            if not isinstance(item, PendingPartial):
                waiting.pop(item[0], None)
                sent.append(item)
                continue
            tried += 1
            name = item.key if in_order else (item.key, item.end)
            first = waiting.get(name)
            if first is not None and first.end == item.end and self._is_open(item) and self._merge(first, item):
                continue
            waiting[name] = item
            sent.append(item)
        self._waiting[0] = 0
        self._tried, self._merged = self._tried + tried, self._merged + len(items) - len(sent)
        if self._tried >= TRIAL:
            self._judge(self._tried, self._merged)
            self._tried = self._merged = 0
        return [self._record(item) if isinstance(item, PendingPartial) else item for item in sent]

    def _judge(self, tried: int, merged: int) -> None:
        """Decide how the next messages are sent, by how many of these were merged."""
        if merged < tried * LEAST_MERGED:
            self._rest[0] = PAUSE * tried

    @staticmethod
    def _is_open(item: PendingPartial) -> bool:
        return item.watermark is None or item.watermark < item.end

    def _merge(self, first: PendingPartial, item: PendingPartial) -> bool:
        """Merge a partial aggregate into another. Returns whether the user's function did not fail."""
        merge = self._aggregate.merge
        try:
            if merge is not None:
                first.accumulator = merge(first.accumulator, item.accumulator)
        except INTERRUPTIONS:
            raise
        except BaseException:  # it fails again, and is told, where both are merged behind the border
            return False
        first.messages += item.messages
        first.timestamp = max(first.timestamp, item.timestamp)
        return True

    def _record(self, item: PendingPartial) -> Record:
        headers = ((PARTIAL_HEADER, b"%d" % item.messages),)
        return self._sent((item.key, _MARK + _encode(item.accumulator), item.timestamp, headers), item.watermark)


_encode = msgspec.json.Encoder().encode


def classes_of(type_: Any) -> frozenset[type] | None:
    """The classes of the values that come out of a border of this type as they went in; None for all of them."""
    if type_ is Any:
        return None
    origin, parts = get_origin(type_), get_args(type_)
    if origin in (Union, UnionType):
        all_of = [classes_of(part) for part in parts]
        return None if None in all_of else frozenset().union(*(classes for classes in all_of if classes is not None))
    if is_typeddict(type_):
        return frozenset([dict])
    return frozenset([found for found in (origin or type_,) if isclass(found)])


def partial_decoder(
    decode: Callable[[bytes], Any], type_: Any, count: Callable[[int], None]
) -> Callable[[bytes | None, Headers], Any]:
    """What decodes a record behind a border, by its headers: as a `Partial` whose accumulator is of a type, or as the
    value of a message, by `decode`. `count` is given the number of messages of a record that has more than one."""
    decode_accumulator = msgspec.json.Decoder(type_).decode

    def decoded(value: bytes | None, headers: Headers) -> Any:
        if value is None:
            return None
        if headers[0][0] != PARTIAL_HEADER:
            return decode(value)
        messages = int(headers[0][1])
        partial = Partial(decode_accumulator(value[len(_MARK) :]), messages)
        count(messages - 1)
        return partial

    return decoded


def taking_partials(aggregate: Aggregate[Any, Any]) -> Aggregate[Any, Any]:
    """The aggregate, whose `add` takes partial aggregates, too."""
    fold, merge = aggregate.add, aggregate.merge
    initial = cache(aggregate.init)

    def add(accumulator: Any, value: Any) -> Any:
        if value.__class__ is not Partial:
            return fold(accumulator, value)
        # The user's function may not know what `init` gives.
        if merge is None or accumulator == initial():
            return value.accumulator
        return merge(accumulator, value.accumulator)

    return replace(aggregate, add=add)


def messages_in(value: Any) -> int:
    """The number of messages that a value stands for."""
    return value.messages if value.__class__ is Partial else 1
