"""What one message causes: done whole or not at all, the oracle's part that knows failures."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from fluvial.dsl import Message, Pipeline
from fluvial.dsl.operators import Operator
from oracle.calls import Calls
from oracle.kinds import ORACLE_KINDS
from oracle.kinds.row import Due, State
from oracle.outputs import OutputMessage, Outputs
from oracle.tables import KeptTables
from oracle.types import Types
from oracle.wire import encode, encode_key


class OracleFailure(Exception):
    """A message failed and the pipeline says to stop."""


class Dispatch(NamedTuple):
    """Something to do whole or not at all, the dead letter of it, and the operator where it begins."""

    do: Callable[[], None]
    letter: OutputMessage
    at: str


class Dispatcher:
    """Does what messages and time cause, and holds what came of it: states, tables, outputs and late messages.

    It is what operators see as their effects.
    """

    def __init__(
        self, pipeline: Pipeline, remember_sessions: bool, late: Counter[str], tasks: Callable[[str], int]
    ) -> None:
        self.pipeline = pipeline
        self._tasks = tasks
        self._types = _types_of(pipeline)
        # Who reads an operator, and as which of its inputs.
        self._readers: dict[str, list[tuple[Operator, int]]] = {operator.id: [] for operator in pipeline.operators}
        self.states: dict[str, State] = {}
        for operator in pipeline.operators:
            for index, source in enumerate(operator.fed_by):  # a stream merged with itself is read twice
                self._readers[source].append((operator, index))
            if (kept := ORACLE_KINDS[operator].state) is not None:
                inputs = [self._types[source] for source in operator.inputs]
                self.states[operator.id] = kept.make(operator, inputs, remember_sessions)
        self.tables = KeptTables(pipeline)
        self.calls = Calls()
        self.outputs: Outputs = {}
        self._late = late
        self._puts: list[tuple[str, bytes | None, Any]] = []
        self._staged: list[tuple[str, OutputMessage]] = []
        self._staged_late: list[str] = []
        self._following: list[Dispatch] = []
        self._crossing: list[tuple[Operator, OutputMessage]] = []

    def dispatch(self, first: Dispatch) -> None:
        """Do something of one stage, and then what it lets fire, in turn; pass on what crosses to other stages."""
        waiting = [first]
        while waiting:
            if self._is_done(waiting.pop(0)):
                crossing = self._crossing
                # What a message lets fire follows all else that the message gives rise to.
                waiting += self._following
                for border, record in crossing:
                    self.dispatch(Dispatch(partial(self._read, border, record), record, border.id))

    def _read(self, operator: Operator, record: OutputMessage) -> None:
        """Take in a record of the stream that an operator reads."""
        self.emit(operator, self.decoded(operator, record))

    def decoded(self, operator: Operator, record: OutputMessage) -> Message[Any]:
        """A record of the stream that an operator reads, as a message."""
        read = ORACLE_KINDS[operator].read
        assert read is not None, f"{operator.label} reads no stream"
        return read(operator, self._types[operator.id], record)

    def firing(self, operator: Operator, due: Due) -> Dispatch:
        """How something that a state has due is done on its own: if it fails, it alone is lost."""
        kept = ORACLE_KINDS[operator].state
        assert kept is not None, f"{operator.label} keeps no state"
        return self._alone(operator, due.key, due.timestamp, lambda: kept.fire(self, operator, due))

    def _alone(self, operator: Operator, key: Any, timestamp: int, do: Callable[[], None]) -> Dispatch:
        return Dispatch(do, OutputMessage(self.key_bytes(operator, key), None, timestamp, ()), operator.id)

    def _is_done(self, dispatch: Dispatch) -> bool:
        """Do something of one stage whole or not at all, and tell which."""
        action = self.pipeline.on_error.action
        # Where a failure ends the run, nothing is ever taken back.
        before = {} if action == "fail" else {id: state.snapshot() for id, state in self.states.items()}
        tables, self._puts = None if action == "fail" else self.tables.snapshot(), []
        self._staged, self._staged_late, self._crossing, self._following = [], [], [], []
        try:
            dispatch.do()
        except Exception as error:
            if tables is None:
                raise OracleFailure(f"{dispatch.letter} failed behind {dispatch.at!r}: {error!r}") from error
            for id, state in self.states.items():
                state.restore(before[id])
            self.tables.restore(tables)
            if action == "dead_letter":
                self._add_output(f"{self.pipeline.name}-dead-letters", _cut(dispatch.letter))
            return False
        for stream, message in self._staged:
            self._add_output(stream, message)
        for table, key, row in self._puts:
            self.tables.put(table, key, row)
        self._late.update(self._staged_late)
        return True

    def _add_output(self, stream: str, message: OutputMessage) -> None:
        self.outputs.setdefault(stream, []).append(message)

    # What operators see: `oracle.kinds.row.Effects` says what each does.

    def is_read(self, operator: Operator) -> bool:
        return bool(self._readers[operator.id])

    def tasks(self, operator: Operator) -> int:
        return self._tasks(operator.id)

    def emit(self, operator: Operator, message: Message[Any], output: int | str | None = None) -> None:
        for reader, index in self._readers[operator.id]:
            kind = ORACLE_KINDS[reader]
            if kind.output(reader) == output:
                kind.take(self, reader, message, index)

    def follow(self, operator: Operator, key: Any, timestamp: int, do: Callable[[], None]) -> None:
        self._following.append(self._alone(operator, key, timestamp, do))

    def fire(self, operator: Operator, due: Due) -> None:
        self._following.append(self.firing(operator, due))

    def write(self, stream: str, message: OutputMessage) -> None:
        self._staged.append((stream, message))

    def put(self, table: str, key: bytes | None, row: Any) -> None:
        self._puts.append((table, key, row))

    def cross(self, border: Operator, record: OutputMessage) -> None:
        self._crossing.append((border, record))

    def count_late(self, operator: Operator) -> None:
        self._staged_late.append(operator.id)

    def key_bytes(self, operator: Operator, key: Any) -> bytes | None:
        return encode_key(key, self._types[operator.id].key)

    def encoded(self, operator: Operator, key: bytes | None, message: Message[Any], kind: Any = None) -> OutputMessage:
        declared = self._types[operator.id].value if kind is None else kind
        data = None if message.value is None else encode(declared, message.value)
        return OutputMessage(key, data, message.timestamp, message.headers)


def _types_of(pipeline: Pipeline) -> dict[str, Types]:
    """The types of what each operator emits, by its id."""
    known: dict[str, Types] = {}
    for operator in pipeline.operators:
        known[operator.id] = ORACLE_KINDS[operator].types(operator, [known[id] for id in operator.inputs])
    return known


def _cut(letter: OutputMessage) -> OutputMessage:
    """A dead letter has 64 KB of a key and of a value at most, here always of ASCII."""
    key, value, timestamp, headers = letter
    return OutputMessage(key and key[:65_536], value and value[:65_536], timestamp, headers)
