"""The test kit for users: runs a pipeline step by step on virtual time, records the steps, and draws them.

Comes in: a pipeline and the messages of a test. Goes out: decoded outputs, recordings, and drawings as SVG.
`fluvial.runtime.testing.strategies` generates inputs. Read `driver` first, then `recording`."""

from .completion_order import Ended
from .drawing import draw_run
from .driver import PipelineDriver
from .driver_state import DriverState
from .recording import Recorder, Recording
from .stream_records import StreamRecords

__all__ = ["DriverState", "Ended", "PipelineDriver", "Recorder", "Recording", "StreamRecords", "draw_run"]
