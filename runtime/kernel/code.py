"""Compiled stages: each stage becomes one Python function per input, with the operators' functions called in place.

A loop over a batch, a local variable for each value, an `if` for each filter: 70 ns an operator instead of 110 for
closures. The text is kept where tracebacks find it, with the operator of each line, so that errors name operators.
"""

import linecache
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import CodeType

from ...dsl import operators as ops
from ...dsl.operators import Operator
from .shape import Entry, Shape, ends_part
from .stamps import STAMP_SIZE
from .text import FILE_PREFIX, Names, Part, Text, remember
from .times import EARLIEST, LATEST
from .writers import WRITERS


class Compiler:
    """Writes the code of one stage. `number[id]` tells an operator's variables from others'."""

    def __init__(self, shape: Shape, stamped: bool) -> None:
        self.shape = shape
        self.stamped = stamped
        self.text = Text()
        self.takes_back = bool(shape.cells)
        """Whether what a message has done to state may have to be taken back."""
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
        remember(file, self.text)
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
        operator = self.shape.operators[id]
        one_way = ends_part(operator) or isinstance(operator, ops.Split)
        return not one_way and len(self.shape.followers[id]) > 1

    def _read(self, entry: Entry) -> None:
        """The loop over a batch of an input's records."""
        number, text = self.entry_number[entry.stream], self.text
        part = self._part(entry.stream, "w")
        part.looped = True
        name = f"read_{number}"
        tells = "high" if entry.clock == "source" else "_"
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
        if entry.source is not None and entry.source.timestamp is not None:
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
            if isinstance(operator, ops.Filter | ops.Branch | ops.FlatMap | ops.JoinTable):
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
        text.add(4, f"if s not in seen_{number}:")
        text.add(5, f"w = observe_{number}(s)")
        text.add(5, f"if len(s) != {STAMP_SIZE}:")
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
        """What follows a pane, a joined row, a change of a table, or what a processor emits: a dispatch of its own."""
        looked_up = isinstance(self.shape.operators[id], ops.TableOf | ops.JoinTables)
        if looked_up and not self.shape.followers[id]:  # it may be there for nothing else
            return
        number = self.number[id]
        part = self._part(id, f"now[{self.shape.line_out[id]}]")
        self.text.add(1, f"def after_{number}(k, v, t, h):")
        self.text.add(2, f"made[{number}] += 1", id)
        followers = list(self.shape.followers[id])
        # Time waits for what is under way behind a processor, whichever output it took.
        origin = operator.inputs[0] if isinstance(operator := self.shape.operators[id], ops.Side) else id
        opened = f"cell = open_firing({origin!r}, k, v, t, now[{self.shape.line_out[id]}])"
        self._dispatch(part, followers, Names(of=id), 2, f"failed_firing({origin!r}, k, v, t, error)", opened)

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
        text.add(5, "raise call.take_error()", id)
        text.add(4, f"made[{number}] += len(call.results)", id)
        if self.shape.followers[id]:
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
        """The operators by which a message from there may change state."""
        found = self.shape.parts(start)
        return sorted((id for id in found if _keeps(self.shape.operators[id])), key=self.number.__getitem__)

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
            self.takes_back = True
            text.add(depth, "undo = []")
        text.add(depth, "try:")
        for reader in readers:
            self._operator(part, reader, names, depth + 1)
        if not readers:  # of a processor, side outputs may be all that is read
            text.add(depth + 1, "pass")
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
        kinds = ops.Border | ops.SendTo | ops.SinkTo
        return [id for id in found if isinstance(self.shape.operators[id], kinds)]

    def _operator(self, part: Part, id: str, names: Names, depth: int) -> None:
        operator = self.shape.operators[id]
        write = WRITERS[type(operator)]
        write(self, part, operator, names, depth)

    def follow(self, part: Part, id: str, names: Names, depth: int) -> None:
        """The operators behind this one, of which there is one at least."""
        for follower in self.shape.followers[id]:
            self._operator(part, follower, replace(names, of=id), depth)


def _keeps(operator: Operator) -> bool:
    return operator.role == "both" or isinstance(operator, ops.PutTo)


_FUNCTIONS: Mapping[type[Operator], Callable[[Compiler, str], None]] = {
    ops.Merge: Compiler._merge,
    ops.WindowBy: Compiler._after_firing,
    ops.JoinStreams: Compiler._after_firing,
    ops.TableOf: Compiler._after_firing,
    ops.JoinTables: Compiler._after_firing,
    ops.Process: Compiler._after_firing,
    ops.Side: Compiler._after_firing,
    ops.AsyncFlatMap: Compiler._after_call,
    ops.JoinRemote: Compiler._after_call,
    ops.PutRemote: Compiler._after_call,
}
