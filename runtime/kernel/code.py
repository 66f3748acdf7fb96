"""Compiled stages: each stage becomes one Python function per input, with the operators' functions called in place.

A loop over a batch, a local variable for each value, an `if` for each filter: 70 ns an operator instead of 110 for
closures. The text is kept where tracebacks find it, with the operator of each line, so that errors name operators.
"""

import linecache
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from ...dsl import operators as ops
from ...dsl.operators import Operator
from .shape import Entry, Shape, ends_part
from .stamps import STAMP_SIZE
from .times import EARLIEST, LATEST

FILE_PREFIX = "<fluvial stage "
_OPERATORS: dict[str, dict[int, str]] = {}


def operator_at(file: str, line: int) -> str | None:
    """The operator that a line of compiled code stands for."""
    return _OPERATORS.get(file, {}).get(line)


@dataclass(slots=True)
class Names:
    """The variables that hold a message at one place of the code, and the operator it comes from."""

    key: str = "k"
    value: str = "v"
    timestamp: str = "t"
    headers: str = "h"
    of: str = ""

    def __str__(self) -> str:
        return f"{self.key}, {self.value}, {self.timestamp}, {self.headers}"


@dataclass(slots=True)
class Text:
    """Lines of code being written, each with the operator it stands for."""

    lines: list[str] = field(default_factory=list)
    operators: dict[int, str] = field(default_factory=dict)

    def add(self, depth: int, line: str, operator: str | None = None) -> None:
        self.lines.append("    " * (depth - 1) + line)
        if operator is not None:
            self.operators[len(self.lines)] = operator


@dataclass(slots=True)
class Part:
    """The code of one starting point: where its messages' time is, whether they wait in cells, and what they may meet.

    `risky` says that a message may have more than one effect, so that a failure must take back those before it;
    `looped` that it is the code of a loop over a batch, which counts in local variables.
    """

    start: str
    cell: bool
    risky: bool
    line: int
    watermark: str
    text: Text
    looped: bool = False


class Compiler:
    """Writes the code of one stage. `number[id]` tells an operator's variables from others'."""

    def __init__(self, shape: Shape, stamped: bool) -> None:
        self.shape = shape
        self.stamped = stamped
        self.text = Text()
        self.number = {id: index for index, id in enumerate(shape.operators)}
        self.entry_number = {stream: index for index, stream in enumerate(shape.entries)}

    def compile(self) -> CodeType:
        """The code: running it in a dictionary of the objects it uses defines the stage's functions there."""
        for id, operator in self.shape.operators.items():
            make = _FUNCTIONS.get(type(operator))
            if make is not None:
                make(self, id)
        for entry in self.shape.entries.values():
            self._read(entry)
        return self._load()

    def _load(self) -> CodeType:
        source = "\n".join(self.text.lines) + "\n"
        stage = next(iter(self.shape.entries))
        file = f"{FILE_PREFIX}{stage} {zlib.crc32(source.encode()):08x}>"
        # Tracebacks find the text where the standard library keeps that of interactive input.
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        _OPERATORS[file] = self.text.operators
        return compile(source, file, "exec")

    # Starting points.

    def _part(self, start: str, watermark: str) -> Part:
        passed = self.shape.parts(start)
        first = self.shape.entries[start].readers if start in self.shape.entries else self.shape.followers[start]
        branches = len(first) > 1 or any(self._branches(id) for id in passed)
        spreads = any(isinstance(self.shape.operators[id], ops.FlatMap | ops.Merge) for id in passed)
        line = self.shape.line_out[start]
        return Part(start, start in self.shape.cells, branches or spreads, line, watermark, self.text)

    def _branches(self, id: str) -> bool:
        return not ends_part(self.shape.operators[id]) and len(self.shape.followers[id]) > 1

    def _read(self, entry: Entry) -> None:
        """The loop over a batch of an input's records."""
        number, text = self.entry_number[entry.stream], self.text
        part = self._part(entry.stream, "w")
        part.looped = True
        name = f"read_{number}"
        tells = {"source": "high", "stamps": "last", "given": "_"}[entry.clock]
        counted = self._counted(entry)
        text.add(1, f"def {name}(records, first, {tells}):")
        text.add(2, f"w = now[{part.line}]")
        for id in counted:
            text.add(2, f"c_{self.number[id]} = 0")
        if part.cell:
            text.add(2, "for i, (k, v, t, h) in enumerate(records, first):")
        else:  # which message it is only matters if one fails
            text.add(2, "rest = iter(records)")
            text.add(2, "for k, v, t, h in rest:")
        index = "i" if part.cell else "first + len(records) - rest.__length_hint__() - 1"
        text.add(3, "try:")
        if entry.clock == "stamps":
            self._stamp(part, number)
        text.add(4, f"v0 = None if v is None else decode_{number}(v)", entry.writer)
        if entry.source is not None:
            self._check_key(entry.source, number)
        if entry.source is not None and entry.source.timestamp is not None and entry.clock != "given":
            text.add(4, f"t = timestamp_{number}(v0)", entry.writer)
            text.add(4, "if t.__class__ is not int:", entry.writer)
            text.add(5, "raise wrong_time(t)", entry.writer)
        if entry.clock == "source":
            # One message from the end of time would end the input, in this run and all later ones.
            text.add(4, f"if not {EARLIEST} <= t <= {LATEST}:", entry.writer)
            text.add(5, "raise wrong_time(t)", entry.writer)
        text.add(3, "except Exception as error:")
        text.add(4, f"failed_{number}({index}, error, {entry.writer!r})")
        self._pass(part, 4)
        where = f"failed_{number}({index}, error)"
        opened = f"cell = open_{number}(i, w)"
        self._dispatch(part, list(entry.readers), Names(value="v0", of=entry.writer), 3, where, opened)
        if entry.clock == "source":
            self._advance(number, entry)
        if entry.clock == "source" and not self.shape.exact:
            text.add(2, f"advance_{number}(w)")
        for id in counted:
            text.add(2, f"made[{self.number[id]}] += c_{self.number[id]}")
        text.add(2, f"return {tells}")

    def _counted(self, entry: Entry) -> list[str]:
        """The operators in an input's loop that pass on fewer or more messages than they are given: their outputs are
        counted, in local variables, and from that all counts follow."""
        found: dict[str, None] = {}
        rest = list(entry.readers)
        while rest:
            id = rest.pop()
            operator = self.shape.operators[id]
            if isinstance(operator, ops.Filter | ops.FlatMap):
                found[id] = None
            if not isinstance(operator, ops.Merge) and not ends_part(operator):
                rest.extend(self.shape.followers[id])
        return list(found)

    def _check_key(self, source: ops.Source, number: int) -> None:
        """Refuse a key that is none here: further on keys are bytes, and only decoded where a function sees them."""
        if source.key is None or source.key is bytes:
            return
        quick = " and not k.isascii()" if source.key is str else ""
        self.text.add(4, f"if k is not None{quick}:", source.id)
        self.text.add(5, f"key_of_{number}(k)", source.id)

    def _pass(self, part: Part, depth: int) -> None:
        """Leave a message out; where messages land one by one, it has landed."""
        if part.cell:
            self.text.add(depth, "passed(i)")
        self.text.add(depth, "continue")

    def _stamp(self, part: Part, number: int) -> None:
        text = self.text
        text.add(4, "if v is None:")
        text.add(5, "s, h = h[-1][1], h[:-1]")
        text.add(4, "else:")
        text.add(5, f"s, v = v[-{STAMP_SIZE}:], v[:-{STAMP_SIZE}]")
        text.add(4, "if s != last:")
        text.add(5, "last = s")
        text.add(5, f"w = observe_{number}(s)")
        text.add(5, f"if len(s) != {STAMP_SIZE}:")
        text.add(6, "last = None")
        self._pass(part, 6)

    def _advance(self, number: int, entry: Entry) -> None:
        text = self.text
        lag = entry.source.out_of_order if entry.source else 0
        behind = f"t - {lag}" if lag else "t"
        text.add(3, "if t > high:")
        text.add(4, "high = t")
        if self.shape.exact:
            text.add(4, f"w = advance_{number}({behind})")
            return
        # Only what fires a window needs more than this variable; the lines of time follow at the end of the batch.
        text.add(4, f"if {behind} > w:")
        text.add(5, f"w = {behind}")
        text.add(5, "if w >= wake[0]:")
        text.add(6, f"advance_{number}(w)")

    def _after_firing(self, id: str) -> None:
        """What follows a pane or a joined row: a dispatch of its own."""
        number = self.number[id]
        part = self._part(id, f"now[{self.shape.line_out[id]}]")
        self.text.add(1, f"def after_{number}(k, v, t, h):")
        self.text.add(2, f"made[{number}] += 1", id)
        followers = list(self.shape.followers[id])
        opened = f"cell = open_firing({id!r}, k, v, t, now[{self.shape.line_out[id]}])"
        self._dispatch(part, followers, Names(of=id), 2, f"failed_firing({id!r}, k, v, t, error)", opened)

    def _after_call(self, id: str) -> None:
        """What follows an asynchronous call that has ended."""
        number, text = self.number[id], self.text
        part = Part(id, True, False, self.shape.line_in[id], "cell.watermark", text)
        text.add(1, f"def after_{number}(call):")
        text.add(2, "t, h, cell = call.item")
        text.add(2, "k = call.key")
        text.add(2, "if not cell.failed:")
        text.add(3, "try:")
        text.add(4, "if call.error is not None:", id)
        text.add(5, "raise call.error", id)
        text.add(4, f"made[{number}] += len(call.results)", id)
        text.add(4, "for v in call.results:", id)
        self.follow(part, id, Names(), 5)
        text.add(3, "except Exception as error:")
        text.add(4, "failed_cell(cell, error)")
        self._close(2)

    def _merge(self, id: str) -> None:
        """A merge that several ways lead to is a function, so that what follows it is written once."""
        number, line, cell = self.number[id], self.shape.line_in[id], bool(self.shape.cells)
        part = Part(id, cell, True, line, "w", self.text)
        later = "".join(f", later_{self.number[kept]}" for kept in self._stateful(id)) if not cell else ""
        self.text.add(1, f"def merge_{number}(k, v, t, h, {'cell' if cell else 'w'}{later}):")
        self.follow(part, id, Names(), 2)

    def _stateful(self, start: str) -> list[str]:
        found = self.shape.parts(start)
        return sorted((id for id in found if self.shape.operators[id].role == "both"), key=self.number.__getitem__)

    # A message's way through the operators.

    def _dispatch(self, part: Part, readers: list[str], names: Names, depth: int, failed: str, opened: str) -> None:
        """Pass one message on; if an operator fails, take back what it has done so far."""
        text = self.text
        stateful = self._stateful(part.start) if part.risky and not part.cell else []
        outputs = self._outputs(part.start) if part.risky and not part.cell else []
        if part.cell:
            text.add(depth, opened)
        for id in outputs:
            text.add(depth, f"n{self.number[id]} = len(list_{self.number[id]})")
        for id in stateful:
            text.add(depth, f"later_{self.number[id]} = []")
        if stateful:
            text.add(depth, "undo = []")
        text.add(depth, "try:")
        for reader in readers:
            self._operator(part, reader, names, depth + 1)
        for id in stateful:
            number = self.number[id]
            text.add(depth + 1, f"for message in later_{number}:", id)
            text.add(depth + 2, f"undo.append(undo_{number}(message))", id)
            text.add(depth + 2, f"add_{number}(*message)", id)
        if stateful:
            text.add(depth + 1, "emit_fired()")
        text.add(depth, "except Exception as error:")
        if stateful:
            text.add(depth + 1, "for take_back in reversed(undo):")
            text.add(depth + 2, "take_back()")
            text.add(depth + 1, "drop_fired()")
        for id in outputs:
            text.add(depth + 1, f"del list_{self.number[id]}[n{self.number[id]}:]")
        text.add(depth + 1, "failed_cell(cell, error)" if part.cell else failed)
        if part.cell:
            self._close(depth)

    def _close(self, depth: int) -> None:
        """One branch of a message in a cell has ended; with the last, all that it gave rise to is there."""
        self.text.add(depth, "cell.pending -= 1")
        self.text.add(depth, "if not cell.pending:")
        self.text.add(depth + 1, "close(cell)")

    def _outputs(self, start: str) -> list[str]:
        found = dict.fromkeys(self.shape.parts(start))
        kinds = ops.PartitionBy | ops.SendTo | ops.SinkTo
        return [id for id in found if isinstance(self.shape.operators[id], kinds)]

    def _operator(self, part: Part, id: str, names: Names, depth: int) -> None:
        operator = self.shape.operators[id]
        write = _WRITERS[type(operator)]
        write(self, part, operator, names, depth)

    def follow(self, part: Part, id: str, names: Names, depth: int) -> None:
        """The operators behind this one, of which there is one at least."""
        for follower in self.shape.followers[id]:
            self._operator(part, follower, replace(names, of=id), depth)


def _transform(code: str) -> Callable[[Compiler, Part, Operator, Names, int], None]:
    """A writer for an operator that binds a new value, on a line of its own or at the head of a block."""

    def write(compiler: Compiler, part: Part, operator: Operator, names: Names, depth: int) -> None:
        number = compiler.number[operator.id]
        out = names if "v_" not in code else Names(names.key, f"v_{number}", names.timestamp, names.headers)
        part.text.add(depth, code.format(n=number, v=names.value), operator.id)
        if code.endswith(":"):
            depth += 1
            counter = f"c_{number}" if part.looped else f"made[{number}]"
            part.text.add(depth, f"{counter} += 1", operator.id)
        compiler.follow(part, operator.id, out, depth)

    return write


def _map_messages(compiler: Compiler, part: Part, operator: Operator, names: Names, depth: int) -> None:
    n, text = compiler.number[operator.id], part.text
    out = Names(f"k_{n}", f"v_{n}", f"t_{n}", f"h_{n}")
    key = f"None if {names.key} is None else key_{n}({names.key})"
    text.add(depth, f"m_{n} = f_{n}(Message({key}, {names.value}, {names.timestamp}, {names.headers}))", operator.id)
    text.add(depth, f"{out} = encode_key(m_{n}.key), m_{n}.value, m_{n}.timestamp, m_{n}.headers", operator.id)
    # Systems take records as they come, and find what cannot be read back when it is too late.
    text.add(depth, f"if t_{n}.__class__ is not int or not {EARLIEST} <= t_{n} <= {LATEST}:", operator.id)
    text.add(depth + 1, f"raise wrong_time(t_{n})", operator.id)
    text.add(depth, f"if h_{n} != ():", operator.id)
    text.add(depth + 1, f"check_headers(h_{n})", operator.id)
    compiler.follow(part, operator.id, out, depth)


def _to_merge(compiler: Compiler, part: Part, operator: Operator, names: Names, depth: int) -> None:
    n = compiler.number[operator.id]
    later = [f", later_{compiler.number[id]}" for id in compiler._stateful(operator.id)] if not part.cell else []
    time = "cell" if part.cell else _watermark(compiler, part, operator)
    part.text.add(depth, f"merge_{n}({names}, {time}{''.join(later)})", operator.id)


def _watermark(compiler: Compiler, part: Part, operator: Operator) -> str:
    """The watermark that an operator's input is judged by, as an expression."""
    line = compiler.shape.line_in[operator.id]
    if part.cell:
        return "cell.watermark" if compiler.shape.lines[line].kind == "held" else f"now[{line}]"
    return part.watermark if line == part.line else f"now[{line}]"


def _keep(compiler: Compiler, part: Part, operator: Operator, names: Names, depth: int) -> None:
    n = compiler.number[operator.id]
    message = f"{names}, {_watermark(compiler, part, operator)}"
    if len(operator.inputs) > 1:
        message += f", {operator.inputs.index(names.of)}"
    if part.cell:
        code = f"cell.effects.append(({operator.id!r}, add_{n}, ({message})))"
    elif part.risky:
        code = f"later_{n}.append(({message}))"
    else:
        code = f"add_{n}({message})"
    part.text.add(depth, code, operator.id)


def _call(compiler: Compiler, part: Part, operator: Operator, names: Names, depth: int) -> None:
    n = compiler.number[operator.id]
    item = f"({names.timestamp}, {names.headers}, cell)"
    part.text.add(depth, "cell.pending += 1", operator.id)
    part.text.add(depth, f"submit_{n}(Call({names.key}, {names.value}, {item}))", operator.id)


def _output(record: Callable[[Compiler, Part, Any, Names], str]) -> Callable[..., None]:
    """A writer for an operator that puts a record into its list of outputs."""

    def write(compiler: Compiler, part: Part, operator: Operator, names: Names, depth: int) -> None:
        n = compiler.number[operator.id]
        made = record(compiler, part, operator, names)
        code = f"cell.effects.append(({operator.id!r}, release_{n}, ({made},)))" if part.cell else f"out_{n}({made})"
        part.text.add(depth, code, operator.id)

    return write


def _encoded(compiler: Compiler, operator: Operator, names: Names) -> str:
    return f"None if {names.value} is None else encode_{compiler.number[operator.id]}({names.value})"


def _border_record(compiler: Compiler, part: Part, operator: ops.PartitionBy, names: Names) -> str:
    n = compiler.number[operator.id]
    key, rest = f"key_{n}(f_{n}({names.value}))", f"{names.timestamp}, {names.headers}"
    if not compiler.stamped or part.cell:
        return f"({key}, {_encoded(compiler, operator, names)}, {rest})"
    stamp = f"pack_stamp(producer, {_watermark(compiler, part, operator)})"
    whole = f"({key}, encode_{n}({names.value}) + {stamp}, {rest})"
    return f"{whole} if {names.value} is not None else stamped(({key}, None, {rest}), {stamp})"


def _sent_record(compiler: Compiler, _: Part, operator: ops.SendTo, names: Names) -> str:
    key = f"encode_key(f_{compiler.number[operator.id]}({names.value}))" if operator.key else names.key
    return f"({key}, {_encoded(compiler, operator, names)}, {names.timestamp}, {names.headers})"


def _sunk_message(compiler: Compiler, _: Part, operator: ops.SinkTo, names: Names) -> str:
    n = compiler.number[operator.id]
    key = f"None if {names.key} is None else key_{n}({names.key})"
    return f"Message({key}, {names.value}, {names.timestamp}, {names.headers})"


_WRITERS: Mapping[type[Operator], Callable[..., None]] = {
    ops.Map: _transform("v_{n} = f_{n}({v})"),
    ops.Filter: _transform("if f_{n}({v}):"),
    ops.FlatMap: _transform("for v_{n} in f_{n}({v}):"),
    ops.MapMessages: _map_messages,
    ops.Merge: _to_merge,
    ops.WindowBy: _keep,
    ops.JoinStreams: _keep,
    ops.AsyncFlatMap: _call,
    ops.PartitionBy: _output(_border_record),
    ops.SendTo: _output(_sent_record),
    ops.SinkTo: _output(_sunk_message),
}

_FUNCTIONS: Mapping[type[Operator], Callable[[Compiler, str], None]] = {
    ops.Merge: Compiler._merge,
    ops.WindowBy: Compiler._after_firing,
    ops.JoinStreams: Compiler._after_firing,
    ops.AsyncFlatMap: Compiler._after_call,
}
