"""Compiles a stage to one Python function for each input, which calls the operators' functions in place.

The function is a loop over a batch, with a local variable for each value and an `if` for each filter: 70 ns an operator
instead of 110 for closures. Tracebacks show its text, and the operator of each line is known, so that errors name it.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import CodeType

from ....dsl.operators import Operator
from ....planner.plan import Plan
from ....planner.type_inference import flows
from ...size_limit import SizeLimit
from ..code.program import Clients, Program, RemoteTableClients
from ..code.source_code import write_source
from ..code.source_text import CodePath, SourceText, Variables, compiled
from ..code.stage_graph import StageGraph, changes_state, ends_path, has_outputs
from ..kinds import KERNEL_KINDS
from ..time.border_watermarks import TRAILER_SIZE
from ..time.bounds import EARLIEST, LATEST
from ..time.stage_input import StageInput, TimeSource
from .graph_builder import build_stage_graph
from .stream_limits import limits_of_operators


def compile_stage(
    plan: Plan,
    stage: str,
    clocks: Mapping[str, TimeSource],
    *,
    trailers: bool,
    remotes: RemoteTableClients | None = None,
    limits: Mapping[str, SizeLimit] | None = None,
    clients: Clients | None = None,
    by_time: Collection[str] = (),
    without_offsets: Collection[str] = (),
    split: bool = False,
) -> Program:
    """Compile a stage. `clocks` says where the time of each input comes from, and `trailers` whether records of
    intermediate streams carry the watermark. Programs with the same `remotes` share the clients of remote tables.
    `limits` are those of the records of streams, where a stream has one. `clients` has, by the time that a task is
    made, what the resources of the stage have opened. The messages of streams `by_time` are read in the order of their
    times, those of streams `without_offsets` are numbered anew in each batch. With `split` each task processes one key
    bucket of its inputs."""
    graph = build_stage_graph(plan, stage, dict(clocks), by_time, split=split)
    of_operators = limits_of_operators(graph, limits or {}, trailers)
    compiler = Compiler(graph, trailers, of_operators)
    code = compiler.compile()
    return Program(
        plan,
        stage,
        graph,
        code,
        flows(plan.pipeline),
        trailers,
        compiler.takes_back,
        remotes={} if remotes is None else remotes,
        limits=of_operators,
        clients={} if clients is None else clients,
        without_offsets=frozenset(without_offsets),
    )


class Compiler:
    """Writes the code of one stage. `number[id]` distinguishes the variables of an operator from those of others."""

    def __init__(self, graph: StageGraph, trailers: bool, limits: Mapping[str, SizeLimit]) -> None:
        self.graph = graph
        self.trailers = trailers
        self.limits = limits
        self.text = SourceText()
        self.takes_back = bool(graph.tracked)
        """Whether effects of a message on state may have to be taken back."""
        self.number = {id: index for index, id in enumerate(graph.operators)}
        self.input_number = {stream: index for index, stream in enumerate(graph.inputs)}

    def compile(self) -> CodeType:
        """The code. Executed in a dictionary of the objects it uses, it defines the functions of the stage there."""
        for id, operator in self.graph.operators.items():
            define = KERNEL_KINDS[operator].define
            if define is not None:
                define(self, id)
        for stage_input in self.graph.inputs.values():
            self._read(stage_input)
        return compiled(self.text, next(iter(self.graph.inputs)))

    def path(self, start: str, watermark: str) -> CodePath:
        """The code path behind an input or an operator. `watermark` is the expression of its messages' watermark."""
        passed = self.graph.operators_from(start)
        first = self.graph.inputs[start].readers if start in self.graph.inputs else self.graph.followers[start]
        branches = len(first) > 1 or any(self._branches(id) for id in passed)
        spreads = any(self._spreads(self.graph.operators[id]) for id in passed)
        node = self.graph.node_out[start]
        return CodePath(start, start in self.graph.tracked, branches or spreads, node, watermark, self.text)

    @staticmethod
    def _spreads(operator: Operator) -> bool:
        """Whether one message may have several effects behind an operator. A function that several callers share is
        written for several effects."""
        return not ends_path(operator) and (operator.emits == "many" or KERNEL_KINDS[operator].define is not None)

    def _branches(self, id: str) -> bool:
        operator = self.graph.operators[id]
        one_way = ends_path(operator) or operator.emits == "routed"
        return not one_way and len(self.graph.followers[id]) > 1

    def _read(self, stage_input: StageInput) -> None:
        """Write the loop over a batch of records of an input."""
        number, text = self.input_number[stage_input.stream], self.text
        path = self.path(stage_input.stream, "w")
        path.looped = True
        name = f"read_{number}"
        high = "high" if stage_input.clock == "source" else "_"
        counted = self._counted(stage_input)
        text.add(1, f"def {name}(records, first, {high}{', buckets' if stage_input.split else ''}):")
        text.add(2, f"w = now[{path.node}]")
        for id in counted:
            text.add(2, f"c_{self.number[id]} = 0")
        index = self._loop(path, split=stage_input.split)
        depth = self._decode(path, stage_input, number, index)
        where = f"failed_{number}({index}, error)"
        opened = f"in_flight = open_{number}(i, w)"
        names = Variables(value="v0", of=stage_input.writer)
        tells_place = self.graph.places and not path.tracked
        if tells_place:
            text.add(depth, f"at[0] = {index}")
        self.dispatch(path, list(stage_input.readers), names, depth, where, opened)
        if stage_input.clock == "source":
            self._advance(number, stage_input, index)
        if tells_place:
            self._stop_if("asked[0]", 3, f"{index} + 1")
        if stage_input.clock == "source" and not self.graph.exact:
            text.add(2, f"advance_{number}(w)")
        for id in counted:
            text.add(2, f"emitted[{self.number[id]}] += c_{self.number[id]}")
        text.add(2, f"return {high}")

    def _loop(self, path: CodePath, *, split: bool) -> str:
        """Write the head of the loop over the records of a batch. Returns the expression of the index of a record."""
        record, text = "(k, v, t, h)", self.text
        if path.tracked:
            each = f"i, ({record}, b)" if split else f"i, {record}"
            text.add(2, f"for {each} in enumerate({'zip(records, buckets)' if split else 'records'}, first):")
            return "i"
        # The index of a message is needed only if it fails.
        text.add(2, "rest = iter(records)")
        text.add(2, f"for {record}, b in zip(rest, buckets):" if split else "for k, v, t, h in rest:")
        return "first + len(records) - rest.__length_hint__() - 1"

    def _decode(self, path: CodePath, stage_input: StageInput, number: int, index: str) -> int:
        """Write the code that decodes a record, which skips one that fails, or that is of another key bucket. Returns
        how deep the code for the message is nested."""
        text, own_time = self.text, stage_input.clock == "source"
        # A message of another key bucket advances the time of a source: it is skipped behind that.
        skips = stage_input.split and own_time
        timed = skips and stage_input.source is not None and stage_input.source.timestamp is not None
        depth = 4 if skips and not timed else 3
        if depth == 4:
            text.add(3, "if b != own_bucket:")
            self._pass_timed(path, 4)
            text.add(3, "else:")
        text.add(depth, "try:")
        if stage_input.clock == "trailer":
            self._read_trailer(path, number, index, split=stage_input.split)
        if stage_input.source is None:
            partial = f"partial_{number}(v, h) if h else " if stage_input.partials else ""
            text.add(depth + 1, f"v0 = {partial}None if v is None else decode_{number}(v)", stage_input.writer)
        else:
            write_source(text, depth + 1, stage_input.source, number, checked=not own_time)
        text.catch(depth)
        if timed:
            text.add(depth + 1, "if b == own_bucket:")
        text.add(depth + (2 if timed else 1), f"failed_{number}({index}, error, {stage_input.writer!r})")
        if depth == 4:
            # Key buckets that do not decode it count its time, and all of a number have one time.
            self._pass_timed(path, 5)
            text.add(4, "else:")
            return 5
        self._pass(path, depth + 1)
        if not timed:
            return depth
        if path.tracked:
            text.add(3, "if b != own_bucket:")
            text.add(4, "passed(i)")
        text.add(3, "else:" if path.tracked else "if b == own_bucket:")
        return 4

    def _pass_timed(self, path: CodePath, depth: int) -> None:
        """Pass over a message that is not decoded here, or cannot be, whose time counts all the same if it is one."""
        if path.tracked:
            self.text.add(depth, "passed(i)")
        self.text.add(depth, f"if not {EARLIEST} <= t <= {LATEST}:")
        self.text.add(depth + 1, "continue")

    def _counted(self, stage_input: StageInput) -> list[str]:
        """The operators in the loop of an input that emit fewer or more messages than they are given. Their outputs are
        counted in local variables; all other counts follow: see `message_counts`."""
        counted: dict[str, None] = {}
        rest = list(stage_input.readers)
        while rest:
            id = rest.pop()
            operator = self.graph.operators[id]
            if ends_path(operator):
                continue
            if operator.emits in ("some", "many"):
                counted[id] = None
            if KERNEL_KINDS[operator].define is None:  # otherwise the operators behind it are counted in that function
                rest.extend(self.graph.followers[id])
        return list(counted)

    def _pass(self, path: CodePath, depth: int, index: str | None = None) -> None:
        """Skip a record. Where messages are tracked, it has landed. The record at `index` may have made a firing pause:
        then stop behind it."""
        if path.tracked:
            self.text.add(depth, "passed(i)")
        if index is not None:
            self._stop_if_paused(depth, f"{index} + 1")
        self.text.add(depth, "continue")

    def _stop_if_paused(self, depth: int, upto: str) -> None:
        """Stop reading where a firing has paused, or has calls in flight that exclude messages; `upto` is the index
        behind the last message that was processed."""
        self._stop_if("paused[0] or firings" if self.graph.tracked else "paused[0]", depth, upto)

    def _stop_if(self, condition: str, depth: int, upto: str) -> None:
        self.text.add(depth, f"if {condition}:")
        self.text.add(depth + 1, f"upto[0] = {upto}")
        self.text.add(depth + 1, "break")

    def _read_trailer(self, path: CodePath, number: int, index: str, *, split: bool) -> None:
        text = self.text
        text.add(4, "if v is None:")
        text.add(5, "s, h = h[-1][1], h[:-1]")
        text.add(4, "else:")
        text.add(5, f"s, v = v[-{TRAILER_SIZE}:], v[:-{TRAILER_SIZE}]")
        text.add(4, f"if s not in seen_{number}:")
        text.add(5, f"w = observe_{number}(s)")
        text.add(5, f"if len(s) != {TRAILER_SIZE}:")
        self._pass(path, 6, index)
        self._stop_if_paused(5, index)
        if split:
            text.add(4, "if b != own_bucket:")
            self._pass(path, 5)

    def _advance(self, number: int, stage_input: StageInput, index: str) -> None:
        text = self.text
        lag = stage_input.source.out_of_order if stage_input.source else 0
        behind = f"t - {lag}" if lag else "t"
        text.add(3, "if t > high:")
        text.add(4, "high = t")
        if self.graph.exact:
            text.add(4, f"w = advance_{number}({behind})")
            self._stop_if_paused(4, f"{index} + 1")
            return
        # The nodes advance at the end of the batch. Until then this variable is enough, unless it reaches what is due.
        text.add(4, f"if {behind} > w:")
        text.add(5, f"w = {behind}")
        text.add(5, "if w >= next_fire[0]:")
        text.add(6, f"advance_{number}(w)")
        self._stop_if_paused(6, f"{index} + 1")

    def stateful(self, start: str) -> list[str]:
        """The operators whose state a message from `start` may change."""
        passed = self.graph.operators_from(start)
        keeping = (id for id in passed if changes_state(self.graph.operators[id]))
        return sorted(keeping, key=self.number.__getitem__)

    def dispatch(
        self, path: CodePath, readers: list[str], names: Variables, depth: int, failed: str, opened: str
    ) -> None:
        """Write the code that passes on one message. If an operator fails, the effects so far are taken back."""
        text = self.text
        stateful = self.stateful(path.start) if path.risky and not path.tracked else []
        outputs = self._outputs(path.start) if path.risky and not path.tracked else []
        if path.tracked:
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
            self._operator(path, reader, names, depth + 1)
        if not readers:  # a processor may have only side outputs
            text.add(depth + 1, "pass")
        for id in stateful:
            number = self.number[id]
            text.add(depth + 1, f"for message in later_{number}:", id)
            text.add(depth + 2, f"undo.append(undo_{number}(message))", id)
            text.add(depth + 2, f"add_{number}(*message)", id)
        if stateful:
            text.add(depth + 1, "emit_fired()")
        text.catch(depth)
        if stateful:
            text.add(depth + 1, "for take_back in reversed(undo):")
            text.add(depth + 2, "take_back()")
            text.add(depth + 1, "drop_fired()")
        for id in outputs:
            text.add(depth + 1, f"del list_{self.number[id]}[n{self.number[id]}:]")
        text.add(depth + 1, "failed_in_flight(in_flight, error)" if path.tracked else failed)
        if path.tracked:
            text.add(depth, "fed(in_flight)")

    def close(self, depth: int) -> None:
        """One branch of a message in flight has ended. When the last one ends, release the effects of the message."""
        self.text.add(depth, "in_flight.pending -= 1")
        self.text.add(depth, "if not in_flight.pending:")
        self.text.add(depth + 1, "close(in_flight)")

    def _outputs(self, start: str) -> list[str]:
        return [id for id in self.graph.operators_from(start) if has_outputs(self.graph.operators[id])]

    def _operator(self, path: CodePath, id: str, names: Variables, depth: int) -> None:
        operator = self.graph.operators[id]
        KERNEL_KINDS[operator].write(self, path, operator, names, depth)

    def follow(self, path: CodePath, id: str, names: Variables, depth: int) -> None:
        """Write the code of the operators behind this one, of which there is at least one."""
        for follower in self.graph.followers[id]:
            self._operator(path, follower, replace(names, of=id), depth)
