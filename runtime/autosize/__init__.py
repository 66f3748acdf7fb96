"""Decides how many containers a running pipeline is to have, and into how many key buckets its tasks are split.

Comes in: what containers report. Goes out: a `SizeDecision`, which the supervisor of the containers carries out. Read
`autosizer` first, then `busy_time_autosizer`; `load_meter` makes a `RunLoad` of what containers report."""

from .autosize_options import Autosize
from .autosizer import Autosizer, SizeDecision
from .busy_time_autosizer import BusyTimeAutosizer
from .run_load import ContainerLoad, InputLoad, RunLoad, RunSize, SizeBounds, TaskLoad

__all__ = [
    "Autosize",
    "Autosizer",
    "BusyTimeAutosizer",
    "ContainerLoad",
    "InputLoad",
    "RunLoad",
    "RunSize",
    "SizeBounds",
    "SizeDecision",
    "TaskLoad",
]
