"""How far one task has come: the watermarks of its operators, and whether messages are in flight."""

from collections.abc import Callable, Collection, Mapping
from functools import cache

from ..calls.in_flight import InFlightTracker
from .bounds import END
from .input_progress import InputProgress
from .operator_watermarks import reached_by
from .watermarks import WatermarkGraph


class TaskProgress:
    """The progress of a task. `node_in` is the watermark node that each operator's input is judged by, and
    `inputs_before` returns the inputs that lead to an operator."""

    def __init__(
        self,
        watermarks: WatermarkGraph,
        node_in: Mapping[str, int],
        inputs: InputProgress,
        inputs_before: Callable[[str], Collection[str]],
        tracker: InFlightTracker,
        *,
        asynchronous: bool,
    ) -> None:
        self._watermarks = watermarks
        self._node_in = node_in
        self._inputs = inputs
        self._inputs_before = cache(inputs_before)
        self._tracker = tracker
        self._asynchronous = asynchronous

    @property
    def busy(self) -> bool:
        """Whether messages or firings are in flight."""
        return self._asynchronous and len(self._tracker) > 0

    def watermark_of(self, operator: str) -> int:
        """The watermark of an operator's input, in ms since epoch; END once its inputs have ended. It is never less
        than the watermark up to which the operator has fired."""
        self._watermarks.catch_up()
        return max(self._watermarks.now[self._node_in[operator]], reached_by(self._watermarks, operator))

    def has_ended(self, operator: str) -> bool:
        """Whether no more comes to an operator in this run, once nothing is in flight."""
        if self._inputs.ends.catches_up:
            return not self._watermarks.paused[0] and all(map(self._inputs.ends.ended, self._inputs_before(operator)))
        return self.watermark_of(operator) == END

    def is_idle(self, operator: str) -> bool:
        """Whether all inputs of an operator are idle, so that next stages need not wait for its watermark."""
        self._watermarks.catch_up()
        return self._watermarks.idle[self._node_in[operator]]

    def next_due(self) -> tuple[int, int]:
        """The watermark, and the processing time, at which something is due if no message comes; END for never."""
        self._watermarks.catch_up()
        return self._watermarks.next_fire[0], self._watermarks.clock_users.next_due()

    def fired_up_to(self, operator: str) -> int | None:
        """The watermark up to which an operator has fired; within a firing that has paused it is before the time that
        fires. None if the task has no such operator with state."""
        self._watermarks.catch_up()
        return reached_by(self._watermarks, operator) if operator in self._watermarks.of_nodes.operators else None

    def reported_watermark_of(self, operator: str) -> int:
        """The watermark that the messages of an operator's input have given it: the end of input does not count."""
        self._watermarks.catch_up()
        return max(self._watermarks.of_nodes.reported(self._node_in[operator]), reached_by(self._watermarks, operator))
