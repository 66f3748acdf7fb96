"""The graph of a stage: its inputs, which operator follows which, and its watermark nodes."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from ....dsl import operators as ops
from ....planner.plan import Plan
from ..time.stage_input import StageInput
from ..time.watermark_node import WatermarkNode


@dataclass(slots=True)
class StageGraph:
    """A stage as its compiler sees it.

    `node_in[operator]` is the watermark node by which an operator judges its input. `node_out[id]` is the node of an
    input, or the node behind a stateful operator. `tracked` holds the inputs and stateful operators whose messages are
    tracked while they are in flight: all of them, or none. `side_of` maps a side output to its processor. A side output
    is not among the followers of its processor. `exact` says that the nodes must advance with each message, not only
    when state is due. `combining` maps a border that aggregates messages to the operator behind it.
    """

    plan: Plan
    operators: dict[str, ops.Operator]
    inputs: dict[str, StageInput]
    followers: dict[str, tuple[str, ...]]
    tracked: frozenset[str]
    nodes: list[WatermarkNode] = field(default_factory=list)
    node_in: dict[str, int] = field(default_factory=dict)
    node_out: dict[str, int] = field(default_factory=dict)
    side_of: dict[str, str] = field(default_factory=dict)
    exact: bool = False
    combining: dict[str, ops.Operator] = field(default_factory=dict)

    def silent(self, id: str) -> bool:
        """Whether this is a table whose changes nothing follows: no watermark is needed there."""
        return self.operators[id].is_table and all(map(self.silent, self.followers[id]))

    @property
    def places(self) -> bool:
        """Whether an operator is told where messages were read, and may ask something of the run."""
        return any(operator.wants_place for operator in self.operators.values())

    def meets_time(self, operator: str) -> bool:
        """Whether what an operator emits reaches a border, state or an asynchronous call."""
        starts = (operator, *self._side_outputs(operator))
        return any(ends_path(self.operators[id]) for start in starts for id in self.operators_from(start))

    @property
    def breaks_order(self) -> bool:
        """Whether messages whose calls have ended may wait, for other calls or for other messages, so that those behind
        them could overtake them."""
        calls = [id for id, operator in self.operators.items() if operator.async_call is not None]
        return len(calls) > 1 or any(map(self._has_effects_beside_calls, (*self.inputs, *self.operators)))

    def _has_effects_beside_calls(self, start: str) -> bool:
        reached = [self.operators[id] for id in self.operators_from(start)]
        calls = any(operator.async_call is not None for operator in reached)
        return calls and any(changes_state(operator) or has_outputs(operator) for operator in reached)

    def leads_to(self, start: str, operator: str) -> bool:
        """Whether what one operator emits may lead to something at another."""
        starts = (start, *self._side_outputs(start))
        return any(operator in self._reached(one, self._behind) for one in starts)

    def reached_before(self, start: str, ends: Collection[str]) -> frozenset[str]:
        """The operators that what comes from an input may lead to without passing through one of the `ends`."""
        return frozenset(self._reached(start, lambda id: () if id in ends else self._behind(id)))

    def inputs_before(self, operator: str) -> frozenset[str]:
        """The inputs whose messages may lead to something at an operator."""
        return frozenset(stream for stream in self.inputs if operator in self._reached(stream, self._behind))

    def _behind(self, id: str) -> tuple[str, ...]:
        return (*self.followers[id], *self._side_outputs(id))

    def _side_outputs(self, processor: str) -> Iterator[str]:
        return (side for side, of in self.side_of.items() if of == processor)

    def operators_from(self, start: str) -> list[str]:
        """The operators that a message from `start` may reach, up to and including the first that `ends_path`."""
        return self._reached(start, lambda id: () if ends_path(self.operators[id]) else self.followers[id])

    def _reached(self, start: str, following: Callable[[str], Iterable[str]]) -> list[str]:
        """The operators that are reached from an input or an operator, where `following` returns those behind each."""
        reached: dict[str, None] = {}
        rest = list(self.inputs[start].readers if start in self.inputs else self.followers[start])
        while rest:
            id = rest.pop()
            if id not in reached:
                reached[id] = None
                rest.extend(following(id))
        return list(reached)


def ends_path(operator: ops.Operator) -> bool:
    """Whether the code of a starting point ends at an operator. The operators behind it have code of their own, since
    they run in another call: after a firing, after an asynchronous call, or in the next stage."""
    return operator.role == "both" or operator.async_call is not None or operator.is_border


def changes_state(operator: ops.Operator) -> bool:
    """Whether a message that reaches an operator changes state, its own or that of a table."""
    return operator.role == "both" or operator.fills is not None


def has_outputs(operator: ops.Operator) -> bool:
    """Whether a message that reaches an operator is added to a list of outputs."""
    return operator.role == "terminal" and operator.fills is None and operator.async_call is None
