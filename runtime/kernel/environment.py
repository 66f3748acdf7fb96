"""The objects that the compiled code of a task uses: watermarks, state, calls, outputs, counts."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .calls.async_calls import CallPool
from .calls.in_flight import InFlightTracker
from .code.program import Program
from .effects import MessageEffects
from .message_failures import MessageFailures
from .output_buffer import OutputBuffer
from .state_cache import StateBackend
from .stateful_operator import StatefulOperator
from .time.input_progress import InputProgress
from .time.watermarks import WatermarkGraph
from .windows.grown_lateness import Lateness


@dataclass(frozen=True, slots=True)
class StageCounts:
    """What a task has counted: records `fed` by stream, messages `emitted` by the operators' places in the stage,
    `late` and `keyless` ones by operator."""

    fed: dict[str, int]
    emitted: list[int]
    late: dict[str, int] = field(default_factory=dict)
    keyless: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnvironment:
    """What compiled code and operators of one task may call and change; `bind` adds to `stateful`, `pools` and
    `clock_users` what it makes.

    `empty` says that nothing is kept in `backend`. `producer` is the task's number for those who read what it writes.
    `clock_fired` tells up to which time clock timers have rung, by processor; `run` names the run.
    """

    program: Program
    watermarks: WatermarkGraph
    inputs: InputProgress
    tracker: InFlightTracker
    failures: MessageFailures
    effects: MessageEffects
    outputs: OutputBuffer
    counts: StageCounts
    lateness: Lateness
    clock_fired: dict[str, int]
    run: str
    producer: int
    backend: StateBackend
    empty: bool
    make_pool: Callable[..., CallPool]
    stateful: dict[str, StatefulOperator]
    pools: dict[str, CallPool]
    clock_users: list[str] = field(default_factory=list)

    def node_in(self, operator: str) -> int:
        """The line of time by which an operator's input is judged."""
        return self.program.graph.node_in[operator]

    def firing(self, node: int, time: int) -> None:
        """An operator is about to fire what was due at a time."""
        self.outputs.hand_over_if_many()
        self.watermarks.firing(node, time)
