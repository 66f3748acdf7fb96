"""A plain, slow interpreter of pipelines over finite inputs: what every engine must come to."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

from fluvial.dsl import Message, Pane, Pipeline
from fluvial.dsl import operators as ops
from fluvial.dsl.message import Headers, Record
from fluvial.dsl.windows.assigners import Unbounded
from oracle.calls import Calls
from oracle.deduplication import KeptTimes
from oracle.joins import Joined, KeptRows
from oracle.lines import Lines, Quiet
from oracle.processing import Due, Emitted, KeptProcess
from oracle.tables import KeptTables
from oracle.types import types_of
from oracle.windows import Firing, KeptWindows
from oracle.wire import UNKNOWN, decode, decode_foreign_key, decode_key, encode, encode_declared_key, encode_key


class OutputMessage(NamedTuple):
    """A message as an engine writes it; equal to the plain tuple of its fields."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


Inputs = Mapping[str, Sequence[Sequence[Record]]]
"""For each source stream, its records by partition, in partition order."""

Outputs = dict[str, list[OutputMessage]]


Dispatch = tuple[Callable[[], None], OutputMessage, str]
"""Something to do whole or not at all, the dead letter of it, and the operator where it begins."""


Turns = Sequence[tuple[str, int] | int]
"""What happens: a record of a stream's partition comes, or so many ms pass by the clock."""


class OracleFailure(Exception):
    """A message failed and the pipeline says to stop."""


def run_oracle(
    pipeline: Pipeline,
    inputs: Inputs,
    *,
    partitions: Mapping[str, int] | None = None,
    remember_sessions: bool = True,
    late: Counter[str] | None = None,
    tasks: Callable[[str], int] = lambda _: 1,
    turns: Turns | None = None,
) -> Outputs:
    """What the pipeline writes, by stream; the order within a stream means nothing. A sink's stream is `sink:{id}`.

    Records of a keyed source must lie in partitions by their keys. Partitions are read in turn, one record each, and a
    message is late only by the least watermark over all of them; so what is late is exact for one source partition,
    and for many partitions the inputs should hold nothing late. `partitions` only checks the shape of the inputs.

    What a trigger fires depends on the order of a key's messages and on the steps of the watermark: these are exact
    for one source partition, which is read record by record. What a window fires while its watermark takes one step
    reaches the windows behind it before they take theirs.

    A message that is not late joins a session within the gap of it, also one whose end + lateness was reached, as the
    rulings say; with `remember_sessions=False` such sessions are forgotten, and it begins a new one. In
    `late` the messages are counted that were late at each operator. What is broadcast by an operator reaches as many
    `tasks` as the engine has behind it. Rows written to a remote table are messages of the stream `remote:{name}`, of
    no time.

    With `turns` records come in that order, partitions may be idle meanwhile, and all end together. Then what is late
    is exact for many partitions of one source too, if what they lead to is behind a border.
    """
    for stream, count in (partitions or {}).items():
        given = len(inputs.get(stream, [()] * count))
        assert given == count, f"{stream} has {count} partitions, the inputs hold {given}"
    with _Run(pipeline, inputs, remember_sessions, Counter() if late is None else late, tasks) as run:
        return run.outcome() if turns is None else run.outcome_of(turns)


class _Run:
    """One pass over the inputs: state of all windows and joins, the sources' clocks, and what was written so far."""

    def __init__(
        self,
        pipeline: Pipeline,
        inputs: Inputs,
        remember_sessions: bool,
        late: Counter[str],
        tasks: Callable[[str], int],
    ) -> None:
        self._pipeline = pipeline
        self._tasks = tasks
        self._inputs = inputs
        self._types = types_of(pipeline)
        # Who reads an operator, and as which of its inputs.
        self._readers: dict[str, list[tuple[ops.Operator, int]]] = {operator.id: [] for operator in pipeline.operators}
        self._windows: dict[str, KeptWindows] = {}
        self._joins: dict[str, KeptRows] = {}
        self._processes: dict[str, KeptProcess] = {}
        self._passed: dict[str, KeptTimes] = {}
        for operator in pipeline.operators:
            for place, source in enumerate(operator.fed_by):  # a stream merged with itself is read twice
                self._readers[source].append((operator, place))
            if isinstance(operator, ops.WindowBy):
                self._windows[operator.id] = KeptWindows(operator, remember_sessions)
            if isinstance(operator, ops.JoinStreams):
                left, right = (self._types[source].value for source in operator.inputs)
                self._joins[operator.id] = KeptRows(operator, (left, right))
            if isinstance(operator, ops.Process):
                self._processes[operator.id] = KeptProcess(operator)
            if isinstance(operator, ops.Deduplicate):
                self._passed[operator.id] = KeptTimes(operator)
        self._stores: dict[str, KeptWindows | KeptRows | KeptProcess | KeptTimes] = {
            **self._windows,
            **self._joins,
            **self._processes,
            **self._passed,
        }
        self._tables = KeptTables(pipeline)
        self._puts: list[tuple[str, bytes | None, Any]] = []
        self._lines = Lines(pipeline)
        self._late = late
        # Of every source partition that is not at its end: its largest timestamp so far - out_of_order.
        self._clocks: dict[tuple[str, int], float] = {}
        self._quiet = Quiet({})
        self._reached: dict[str, float] = {}
        self._outputs: Outputs = {}
        self._staged: list[tuple[str, OutputMessage]] = []
        self._staged_late: list[str] = []
        self._following: list[Dispatch] = []
        self._crossing: list[tuple[ops.Border, OutputMessage]] = []
        self._calls = Calls()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._calls.close()

    def outcome(self) -> Outputs:
        for source, partition, record, last in self._in_turn():
            time = self._read(source, record)
            self._clocks[source.id, partition] = max(self._clocks[source.id, partition], time)
            self._advance()
            if last:  # What a trigger shows tells apart that the last record came and that none will.
                del self._clocks[source.id, partition]
                self._advance()
        self._advance()
        return self._outputs

    def outcome_of(self, turns: Turns) -> Outputs:
        sources = {op.stream: op for op in self._pipeline.operators if isinstance(op, ops.Source)}
        places = {(op.id, number): op for op in sources.values() for number in range(len(self._inputs[op.stream]))}
        self._clocks = dict.fromkeys(places, -math.inf)
        self._quiet = Quiet({place: op.idle_after for place, op in places.items() if op.idle_after is not None})
        queues = {(stream, n): iter(part) for stream, parts in self._inputs.items() for n, part in enumerate(parts)}
        for turn in turns:
            if isinstance(turn, int):
                for _ in range(turn):
                    if self._quiet.tick():
                        self._advance()
                continue
            source = sources[turn[0]]
            place = source.id, turn[1]
            self._quiet.arrived(place)
            time = self._read(source, next(queues[turn]))
            self._clocks[place] = max(self._clocks[place], time)
            self._advance()
        self._clocks = {}
        self._advance()
        return self._outputs

    def _in_turn(self) -> Iterator[tuple[ops.Source, int, Record, bool]]:
        """One record of each partition after the other, and whether it is its partition's last; tables come first."""
        rows = {source for op in self._pipeline.operators if isinstance(op, ops.TableOf) for source in op.inputs}
        queues = [
            (operator, number, list(records))
            for operator in self._pipeline.operators
            if isinstance(operator, ops.Source)
            for number, records in enumerate(self._inputs.get(operator.stream, ()))
            if records
        ]
        self._clocks = {(source.id, number): -math.inf for source, number, _ in queues}
        for source, number, records in queues:
            while source.id in rows and records:
                yield source, number, records.pop(0), not records
        while queues := [queue for queue in queues if queue[2]]:
            for source, number, records in queues:
                yield source, number, records.pop(0), not records

    def _read(self, source: ops.Source, record: Record) -> float:
        """Take in a source's record; what its timestamp makes of the partition's watermark, if it is known."""
        counts = -math.inf

        def work() -> None:
            nonlocal counts
            key, data, timestamp, headers = record
            value = None if data is None else decode(source.value, data)
            known = key if source.key is None or key is None else decode_foreign_key(source.key, key)
            time = timestamp if source.timestamp is None else source.timestamp(value)
            counts = time - source.out_of_order
            self._emit(source, Message(known, value, time, headers))

        self._dispatch(work, OutputMessage(*record), source.id)
        return counts

    def _cross(self, border: ops.Border, record: OutputMessage) -> None:
        """Take in a record of an intermediate stream, on the far side."""

        def work() -> None:
            key: Any = record.key  # behind a broadcast keys stay bytes: nothing there goes by them
            if isinstance(border, ops.PartitionBy) and record.key is not None:
                key = decode_key(border.key, record.key)
            value = None if record.value is None else decode(self._types[border.id].value, record.value)
            self._emit(border, Message(key, value, record.timestamp, record.headers))

        self._dispatch(work, record, border.id)

    def _advance(self) -> None:
        """Bring the watermark to the windows and joins, inputs first.

        What a window fires meets those behind it before they know of the new watermark, so it is not late there, but
        for what `_tell` says.
        """
        for operator in self._pipeline.operators:
            if operator.id not in self._stores:
                continue
            store = self._stores[operator.id]
            watermark = self._lines.at(operator, self._clocks, self._quiet.idle(self._clocks))
            # In front of state time does not go back.
            watermark = self._reached[operator.id] = max(watermark, self._reached.get(operator.id, -math.inf))
            while (due := store.next_due(watermark)) is not None:
                if isinstance(due, Firing):
                    self._tell(operator, due.time)
                self._dispatch(*self._firing(operator, due))
            store.advance(watermark)

    def _tell(self, operator: ops.Operator, time: float) -> None:
        """An early pane of a window without end is told with the watermark before its time to those behind a border:
        its timestamp may be late there."""
        if not (isinstance(operator, ops.WindowBy) and isinstance(operator.assigner, Unbounded)) or time == math.inf:
            return
        for reader in self._pipeline.operators:
            if reader.id in self._stores and (behind := self._lines.behind(operator, reader)) is not None:
                store, watermark = self._stores[reader.id], time - 1 - behind
                while (due := store.next_due(watermark)) is not None:
                    self._dispatch(*self._firing(reader, due))
                store.advance(max(store.watermark, watermark))

    def _firing(self, operator: ops.Operator, due: Firing | Joined | Due | Emitted) -> Dispatch:
        """How a pane, a joined result, or what a processor emits, is emitted on its own: if it fails, it alone is lost.
        A timer is handled on its own, too."""

        def work() -> None:
            if isinstance(due, Due):
                found = self._processes[operator.id].fire(due)
                self._following += [self._firing(operator, one) for one in found]
            elif isinstance(due, Emitted) and due.tag is not None:
                self._emit_aside(operator, due.tag, Message(due.key, due.value, due.timestamp, due.headers))
            else:
                self._emit(operator, self._message_of(operator, due))

        letter = OutputMessage(self._key_bytes(operator, due.key), None, due.timestamp, ())
        return work, letter, operator.id

    def _message_of(self, operator: ops.Operator, due: Firing | Joined | Emitted) -> Message[Any]:
        if isinstance(due, Emitted):
            return Message(due.key, due.value, due.timestamp, due.headers)
        if isinstance(due, Joined):
            return Message(due.key, self._joins[operator.id].value_of(due), due.timestamp, due.headers)
        assert isinstance(operator, ops.WindowBy)
        value = operator.aggregate.result(due.held)
        return Message(due.key, Pane(due.key, due.window, value, due.kind, due.replaces), due.timestamp, ())

    def _dispatch(self, work: Callable[[], None], letter: OutputMessage, at: str) -> None:
        """Do something of one stage, and then what it lets fire, in turn; pass on what crosses to other stages."""
        waiting: list[Dispatch] = [(work, letter, at)]
        while waiting:
            if self._is_done(*waiting.pop(0)):
                crossing = self._crossing
                # What a message lets fire follows all else that the message gives rise to.
                waiting += self._following
                for border, record in crossing:
                    self._cross(border, record)

    def _is_done(self, work: Callable[[], None], letter: OutputMessage, at: str) -> bool:
        """Do something of one stage whole or not at all, and tell which."""
        before = {id: store.snapshot() for id, store in self._stores.items()}
        tables, self._puts = self._tables.snapshot(), []
        self._staged, self._staged_late, self._crossing, self._following = [], [], [], []
        try:
            work()
        except Exception as error:
            action = self._pipeline.on_error.action
            if action == "fail":
                raise OracleFailure(f"{letter} failed behind {at!r}: {error!r}") from error
            for id, store in self._stores.items():
                store.restore(before[id])
            self._tables.restore(tables)
            if action == "dead_letter":
                self._write(f"{self._pipeline.name}-dead-letters", letter)
            return False
        for stream, message in self._staged:
            self._write(stream, message)
        for table, key, row in self._puts:
            self._tables.put(table, key, row)
        self._late.update(self._staged_late)
        return True

    def _write(self, stream: str, message: OutputMessage) -> None:
        self._outputs.setdefault(stream, []).append(message)

    def _emit(self, operator: ops.Operator, message: Message[Any]) -> None:
        for reader, place in self._readers[operator.id]:
            if not isinstance(reader, ops.Side):
                self._apply(reader, message, place)

    def _emit_aside(self, operator: ops.Operator, tag: str, message: Message[Any]) -> None:
        for reader, _ in self._readers[operator.id]:
            if isinstance(reader, ops.Side) and reader.tag.name == tag:
                self._emit(reader, message)

    def _apply(self, operator: ops.Operator, message: Message[Any], place: int) -> None:
        value = message.value
        match operator:
            case ops.Map():
                self._emit(operator, _with(message, operator.fn(value)))
            case ops.Filter():
                if operator.fn(value):
                    self._emit(operator, message)
            case ops.FlatMap():
                for one in list(operator.fn(value)):
                    self._emit(operator, _with(message, one))
            case ops.JoinRemote():
                row = self._calls.row(operator, message.key)
                if row is not None or operator.how == "left":
                    self._emit(operator, _with(message, operator.joined(value, row)))
            case ops.PutRemote():
                self._staged.append((f"remote:{operator.table.name}", self._row(operator, message)))
            case ops.AsyncFlatMap():
                for one in self._calls.results(operator, value):
                    self._emit(operator, _with(message, one))
            case ops.MapMessages():
                self._emit(operator, operator.fn(message))
            case ops.Merge():
                self._emit(operator, message)
            case ops.Split():
                holding = (place for place, holds in enumerate(operator.predicates) if holds(value))
                self._emit_branch(operator, next(holding, len(operator.predicates)), message)
            case ops.WindowBy() | ops.JoinStreams() | ops.Process() | ops.Deduplicate():
                self._keep(operator, message, place)
            case ops.TableOf():
                key = self._key_bytes(operator, message.key)
                changes = value is not None or self._tables.row(operator.id, key) is not None
                self._tables.put(operator.id, key, value)
                if key is not None and changes:
                    letter = OutputMessage(key, None, message.timestamp, ())
                    self._following.append((lambda: self._emit(operator, message), letter, operator.id))
            case ops.JoinTables():
                assert not self._readers[operator.id], "the oracle knows no changes of joined tables"
            case ops.JoinTable():
                key = self._key_bytes(self._pipeline.operator(operator.inputs[0]), message.key)
                row = self._tables.row(operator.uses_table, key)
                if row is not None or operator.how == "left":
                    self._emit(operator, _with(message, operator.fn(value, row)))
            case ops.PutTo():
                self._puts.append((operator.table, self._key_bytes(operator, message.key), value))
            case ops.PartitionBy():
                key = encode_declared_key(operator.fn(value), operator.key)
                self._crossing.append((operator, self._encoded(operator, key, message)))
            case ops.Broadcast():
                record = self._encoded(operator, self._key_bytes(operator, message.key), message)
                self._crossing += self._tasks(operator.id) * [(operator, record)]
            case ops.SendTo():
                # A key that a function gives is of no declared type, whatever type of key the stream has.
                own = self._key_bytes(operator, message.key)
                key = own if operator.key is None else encode_key(operator.key(value))
                self._staged.append((operator.stream, self._encoded(operator, key, message, operator.value)))
            case ops.SinkTo():
                key = self._key_bytes(operator, message.key)
                self._staged.append((f"sink:{operator.id}", self._encoded(operator, key, message)))
            case _:
                raise AssertionError(f"the oracle knows no {operator.kind}")

    def _emit_branch(self, operator: ops.Split, place: int, message: Message[Any]) -> None:
        for reader, _ in self._readers[operator.id]:
            if isinstance(reader, ops.Branch) and reader.place == place:
                self._emit(reader, message)

    def _keep(
        self,
        operator: ops.WindowBy | ops.JoinStreams | ops.Process | ops.Deduplicate,
        message: Message[Any],
        place: int,
    ) -> None:
        before = self._pipeline.operator(operator.inputs[place])
        key = self._key_bytes(before, message.key)
        if key is None:
            raise ValueError("a message without key cannot be kept by key")
        taken: Sequence[Firing | Joined | Emitted] | Literal["late"]
        if isinstance(operator, ops.Process):
            taken = self._processes[operator.id].take(key, message)
        elif isinstance(operator, ops.Deduplicate):
            taken = self._passed[operator.id].take(key, message)
        elif isinstance(operator, ops.WindowBy):
            taken = self._windows[operator.id].take(key, message.key, message.timestamp, message.value)
        else:
            taken = self._joins[operator.id].take(key, place, message)
        if taken != "late":
            self._following += [self._firing(operator, due) for due in taken]
            return
        self._staged_late.append(operator.id)
        if isinstance(operator, ops.WindowBy) and operator.late_to is not None:
            self._staged.append((operator.late_to, self._encoded(before, key, message)))

    def _row(self, operator: ops.PutRemote, message: Message[Any]) -> OutputMessage:
        key = self._key_bytes(self._pipeline.operator(operator.inputs[0]), message.key)
        if key is None:
            raise ValueError("a message without key cannot be the row of one")
        return OutputMessage(key, None if message.value is None else encode(UNKNOWN, message.value), 0, ())

    def _encoded(
        self, operator: ops.Operator, key: bytes | None, message: Message[Any], told: Any = None
    ) -> OutputMessage:
        """A message as bytes, its value as the told type says, else as what the operator is known to emit."""
        kind = self._types[operator.id].value if told is None else told
        data = None if message.value is None else encode(kind, message.value)
        return OutputMessage(key, data, message.timestamp, message.headers)

    def _key_bytes(self, operator: ops.Operator, key: Any) -> bytes | None:
        return encode_key(key, self._types[operator.id].key)


def _with(message: Message[Any], value: Any) -> Message[Any]:
    return Message(message.key, value, message.timestamp, message.headers)
