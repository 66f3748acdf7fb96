"""The test kit: pipelines on virtual time; `fluvial.runtime.testing.strategies` has inputs for them."""

from .driver import PipelineDriver
from .gates import Ended

__all__ = ["Ended", "PipelineDriver"]
