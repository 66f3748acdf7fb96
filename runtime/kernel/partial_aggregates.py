"""Partial aggregates: what a border sends in place of the messages of a key that lie in the same windows.

The border begins an accumulator for each message. When its outputs are drained, it merges those of a key whose times
lie in one span, and sends one record for them in the place of the first. The window behind the border merges what it is
given. A message is sent as it is where its accumulator cannot be begun or merged: it then fails behind the border, or
not, as it would without all this.

The watermark may not close a window between messages that travel together: then some would have come in time and others
not. So messages are merged only as long as the watermark at the border is before the end of their span.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec

from ...dsl.message import Headers, Record
from ...dsl.serde import Serde
from ...dsl.windows.aggregates import Aggregate
from ..process.interruptions import INTERRUPTIONS
from .time.border_watermarks import pack_trailer, watermark_of, with_trailer, without_trailer
from .time.bounds import START

PARTIAL_HEADER = "fluvial-partial"
"""The header of a record that is a partial aggregate: its value is the kind of aggregate, and how many messages."""
_MARK = b"\xc1"
"""The first byte of the value of a partial aggregate. No text and no JSON begins with it, so that nobody takes the
value for that of a message."""
MOST_KEY_BYTES = 1 << 10
"""Messages with longer keys are sent as they are, with their check of the size of records."""
MOST_BYTES = 16 << 10
"""Accumulators that are longer are not sent, but the messages as they are."""
LEAST_LIMIT = 32 << 10
"""Where a stream takes smaller records alone, a partial aggregate could be too large though its messages are not."""
TRIAL = 1000
"""By so many messages a border judges whether to aggregate is worth it."""
LEAST_MERGED = 0.25
"""It is if this share of them went into the record of another."""
LONG_TRIAL = 10_000
"""So many messages are judged before the outputs are drained."""
PAUSE = 16
"""If it is not, so many times as many are sent as they are before some are tried again."""


class Partial(msgspec.Struct, frozen=True, gc=False):
    """A partial aggregate of so many messages, as the operator that takes it is given it."""

    accumulator: Any
    messages: int


class PendingPartial(msgspec.Struct, gc=False):
    """The accumulator of a message, which waits for others of its key and span. The watermark is that of the border at
    the message; None where records carry none. `data` is the encoded accumulator, where it is known already."""

    key: bytes
    end: int
    accumulator: Any
    data: bytes | None
    timestamp: int
    watermark: int | None


Outgoing = Record | PendingPartial
"""What a border that aggregates has among its outputs until they are drained."""
_AS_IT_IS: dict[Any, Callable[[Any], bool]] = {
    str: str.isascii,
    int: lambda number: number.bit_length() < 64,
    bool: lambda _: True,
}
"""Whether a value of just this type comes out of a border as it went in. Texts may hold what UTF-8 has not."""
_encode = msgspec.json.Encoder().encode


class Combiner:
    """The code of a border that aggregates messages: for which aggregate, whose accumulators are of the type `state`,
    in spans of so many ms. `serde` is that of the values, and `check` the check of the size of records. `producer` is
    the number of the task in trailers, None where records have none, and `outputs` holds what waits.

    Where few messages of a key come together, a partial aggregate costs more than a message: then most are sent as they
    are, and some are tried again now and then.
    """

    def __init__(
        self,
        aggregate: Aggregate[Any, Any],
        state: Any,
        span: int,
        serde: Serde[Any],
        check: Callable[..., None] | None,
        producer: int | None,
        outputs: list[Any],
    ) -> None:
        self._outputs, self._producer = outputs, producer
        self._aggregate, self._span, self._serde, self._check = aggregate, span, serde, check
        self._decode_accumulator = msgspec.json.Decoder(state).decode
        self._tried = self._merged = 0
        self._rest, self._waiting = [0], [0]
        """So many messages more are sent as they are; so many wait to be merged."""
        self.item = self._item()

    def _item(self) -> Callable[[bytes | None, Any, int, Headers, int | None], Outgoing]:
        # A closure over locals: this runs for each message.
        span, rest, waiting, begun, sent = self._span, self._rest, self._waiting, self._begun, self._sent
        encode, check = self._serde.encode, self._check
        type_ = self._serde.type if check is None else None
        same, as_it_is = (type_, _AS_IT_IS[type_]) if type_ in _AS_IT_IS else (None, bool)

        def item(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int | None) -> Outgoing:
            """A message as a partial aggregate, or else as a record. Raises what its encoding or its size check
            raises."""
            data = None
            if value is not None and (rest[0] or value.__class__ is not same or not as_it_is(value)):
                data = encode(value)
            if check is not None:
                check(key, data, headers)
            if rest[0]:
                rest[0] -= 1
            elif isinstance(key, bytes) and len(key) <= MOST_KEY_BYTES:  # a Serde of the user's may make others
                accumulator, encoded = begun(value, data)
                if accumulator is not None:
                    waiting[0] += 1
                    if waiting[0] == LONG_TRIAL:
                        self._judge_waiting()
                    end = timestamp - timestamp % span + span
                    return PendingPartial(key, end, accumulator, encoded, timestamp, watermark)
            if data is None and value is not None:
                data = encode(value)
            return sent((key, data, timestamp, headers), watermark)

        return item

    def _begun(self, value: Any, data: bytes | None) -> tuple[Any, bytes | None]:
        """The accumulator of a message, encoded too if its type is the user's to keep; None if the message is to be
        sent as it is. The aggregate is given a value of its own, as it comes out of the border."""
        aggregate, combines = self._aggregate, self._aggregate.combines
        try:
            own = value if data is None else self._serde.decode(data)
            accumulator = aggregate.add(aggregate.init(), own)
            if combines is None or not combines(accumulator):
                return None, None
            return accumulator, self._checked(accumulator) if aggregate.is_ordered else None
        except INTERRUPTIONS:
            raise
        except BaseException:  # it is raised again where the message is added to its window
            return None, None

    def _checked(self, accumulator: Any) -> bytes:
        """An encoded accumulator. Raises an error if another one would be decoded, as where it is of another type than
        was declared, or if it is too long."""
        data = _encode(accumulator)
        if len(data) > MOST_BYTES or _encode(self._decode_accumulator(data)) != data:
            raise ValueError("the accumulator does not travel")
        return data

    def send_alone(self) -> None:
        """Send all messages as they are."""
        self._rest[0] = sys.maxsize

    def _judge_waiting(self) -> None:
        partials = [item for item in self._outputs if isinstance(item, PendingPartial)]
        self._judge(len(partials), len(partials) - len({(item.key, item.end) for item in partials}))

    def released(self, item: Outgoing, watermark: int | None) -> Outgoing:
        """An item of a message that was in flight, with the watermark of now."""
        if isinstance(item, PendingPartial):
            item.watermark = watermark
            return item
        return self._sent(item, watermark)

    def _sent(self, record: Record, watermark: int | None) -> Record:
        if watermark is None or self._producer is None:
            return record
        return with_trailer(record, pack_trailer(self._producer, watermark))

    def records(self, items: list[Outgoing]) -> list[Record]:
        """The records to send, in the order of the first message of each."""
        grouped = self._grouped(items)
        self._waiting[0] = 0
        self._merged += len(items) - len(grouped)
        if self._tried >= TRIAL:
            self._judge(self._tried, self._merged)
            self._tried = self._merged = 0
        return [record for group in grouped for record in (self._of(group) if isinstance(group, list) else (group,))]

    def _grouped(self, items: list[Outgoing]) -> list[Record | list[PendingPartial]]:
        """The items that are merged together. Where the order of a key's messages may matter, those of one span are
        merged only as long as none of another span, and no message that is sent as it is, comes between them."""
        in_order = self._aggregate.is_ordered
        waiting: dict[Any, list[PendingPartial]] = {}
        grouped: list[Record | list[PendingPartial]] = []
        passed = START
        for item in items:
            if not isinstance(item, PendingPartial):
                if in_order and isinstance(item[0], bytes):
                    waiting.pop(item[0], None)
                record, passed = self._not_before(item, passed) if waiting else (item, passed)
                grouped.append(record)
                continue
            self._tried += 1
            if item.watermark is not None:
                item.watermark = passed = max(item.watermark, passed)
            name = item.key if in_order else (item.key, item.end)
            group, is_open = waiting.get(name), item.watermark is None or item.watermark < item.end
            if group is not None and group[0].end == item.end and is_open:
                group.append(item)
                continue
            waiting[name] = [item]
            grouped.append(waiting[name])
        return grouped

    def _not_before(self, record: Record, passed: int) -> tuple[Record, int]:
        """A record whose watermark is no earlier than one that messages before it had; and its watermark. Where a
        source is no longer idle, the watermark goes back, and those before it may travel with an earlier one."""
        if self._producer is None:
            return record, passed
        watermark = watermark_of(record)
        return (record, watermark) if watermark >= passed else (self._sent(without_trailer(record), passed), passed)

    def _judge(self, tried: int, merged: int) -> None:
        """Decide how the next messages are sent, by how many of these were merged."""
        if merged < tried * LEAST_MERGED:
            self._rest[0] = PAUSE * tried

    def _of(self, group: list[PendingPartial]) -> list[Record]:
        """The record of items that are merged. Where that fails, they are sent apart: what cannot be merged fails
        again, and is reported, behind the border."""
        first, merge = group[0], self._aggregate.merge
        if len(group) == 1 or merge is None:
            return [self._record(item, item.accumulator, item.data) for item in group]
        try:
            accumulator = first.accumulator
            for item in group[1:]:
                accumulator = merge(accumulator, item.accumulator)
            data = self._checked(accumulator)
        except INTERRUPTIONS:
            raise
        # Of the user's aggregate, whatever it raises.
        except BaseException:
            return [self._record(item, item.accumulator, item.data) for item in group]
        latest = max(item.timestamp for item in group)
        return [self._record(first, accumulator, data, len(group), latest)]

    def _record(
        self,
        item: PendingPartial,
        accumulator: Any,
        data: bytes | None,
        messages: int = 1,
        timestamp: int | None = None,
    ) -> Record:
        headers = ((PARTIAL_HEADER, f"{self._aggregate.kind} {messages}".encode()),)
        value = _MARK + (_encode(accumulator) if data is None else data)
        return self._sent(
            (item.key, value, item.timestamp if timestamp is None else timestamp, headers), item.watermark
        )


def partial_decoder(
    decode: Callable[[bytes], Any], aggregate: Aggregate[Any, Any], state: Any, count: Callable[[int], None]
) -> Callable[[bytes | None, Headers], Any]:
    """What decodes a record behind a border that has headers: as a `Partial` of an aggregate, whose accumulator is of
    the type `state`, or as the value of a message, by `decode`. `count` is given the number of messages of a record
    beyond the first. It raises ValueError for a partial aggregate of another kind."""
    decode_accumulator = msgspec.json.Decoder(state).decode

    def decoded(value: bytes | None, headers: Headers) -> Any:
        if value is None:
            return None
        if headers[0][0] != PARTIAL_HEADER or not value.startswith(_MARK):
            return decode(value)
        kind, _, messages = headers[0][1].decode().partition(" ")
        if kind != aggregate.kind:
            raise ValueError(
                f"a partial aggregate by {kind}(), from before the window aggregated by {aggregate.kind}()"
            )
        partial = Partial(decode_accumulator(value[len(_MARK) :]), int(messages))
        count(partial.messages - 1)
        return partial

    return decoded


def taking_partials(aggregate: Aggregate[Any, Any]) -> Aggregate[Any, Any]:
    """The aggregate, whose `add` takes partial aggregates, too."""
    fold, merge = aggregate.add, aggregate.merge
    initial = cache(lambda: _encode(aggregate.init()))

    def add(accumulator: Any, value: Any) -> Any:
        if value.__class__ is not Partial:
            return fold(accumulator, value)
        # The user's `merge` may not know what `init` gives.
        if merge is None or _encode(accumulator) == initial():
            return value.accumulator
        return merge(accumulator, value.accumulator)

    return replace(aggregate, add=add)


def messages_in(value: Any) -> int:
    """The number of messages that a value stands for."""
    return value.messages if value.__class__ is Partial else 1
