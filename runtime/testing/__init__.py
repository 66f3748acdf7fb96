"""The test kit: pipelines on virtual time, and drawings of what they did; `fluvial.runtime.testing.strategies` has
inputs for them."""

from .completion_order import Ended
from .drawing import draw_run
from .driver import PipelineDriver
from .recording import Recorder, Recording

__all__ = ["Ended", "PipelineDriver", "Recorder", "Recording", "draw_run"]
