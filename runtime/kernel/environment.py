"""The environment of the compiled code of a task: watermarks, state, calls, outputs, counts."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ...dsl.operators import Operator
from .calls.in_flight import InFlightTracker
from .calls.task_calls import Pool
from .code.program import Program
from .effects import MessageEffects
from .firing_pauses import FiringPauses
from .message_failures import MessageFailures
from .message_places import MessagePlaces
from .output_buffer import OutputBuffer
from .state_backend import StateBackend
from .stateful_operator import StatefulOperator
from .task_options import TaskOptions
from .task_requests import RunRequests
from .time.input_progress import InputProgress
from .time.watermarks import WatermarkGraph
from .windows.fired_windows import FiredWindowsOfTask
from .windows.grown_lateness import Lateness


@dataclass(frozen=True, slots=True)
class StageCounts:
    """The counts of a task: records `fed` by stream, those `discarded` as of other key buckets, messages `emitted` by
    operator in the order of the stage, `late` and `keyless` messages by operator. `upto[0]` is the index behind the
    last record of the present batch that was processed."""

    fed: dict[str, int]
    emitted: list[int]
    late: dict[str, int] = field(default_factory=dict)
    keyless: dict[str, int] = field(default_factory=dict)
    discarded: dict[str, int] = field(default_factory=dict)
    upto: list[int] = field(default_factory=lambda: [0])


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEnvironment:
    """The objects that compiled code and operators of one task may use. `bind` fills `stateful`, `pools`,
    `clock_users` and `closers`.

    `options` are those of the task. `empty` says that `backend` holds no state.
    `places` tells where the message at hand was read, `requests` takes what stream tasks ask of the run, and
    `drained[0]` says that the run was told to drain. `closers` are called at the end, each of an operator.
    `clock_fired` is the processing time up to which the clock timers of each processor have fired.
    """

    program: Program
    options: TaskOptions
    watermarks: WatermarkGraph
    inputs: InputProgress
    tracker: InFlightTracker
    failures: MessageFailures
    effects: MessageEffects
    outputs: OutputBuffer
    counts: StageCounts
    lateness: Lateness
    fired_windows: FiredWindowsOfTask
    pauses: FiringPauses
    clock_fired: dict[str, int]
    backend: StateBackend
    empty: bool
    stateful: dict[str, StatefulOperator]
    pools: dict[str, Pool]
    places: MessagePlaces
    requests: RunRequests
    drained: list[bool]
    clock_users: list[str] = field(default_factory=list)
    closers: list[tuple[Operator, Callable[[], None]]] = field(default_factory=list)

    def node_in(self, operator: str) -> int:
        """The watermark node that decides whether a message of this input is late."""
        return self.program.graph.node_in[operator]

    def firing(self, node: int, time: int) -> None:
        """An operator is about to fire what is due at a time."""
        self.outputs.hand_over_if_many()
        self.watermarks.of_nodes.firing(node, time)
