"""Runs a pipeline on the local engine or on Spark, and operates it.

Comes in: a pipeline, and the system that has its streams. Goes out: a `Report`. Read `launch` first: it plans,
checks, and calls an engine."""

from typing import TYPE_CHECKING

from .lazy_names import lazy_names

if TYPE_CHECKING:
    from ..planner.settings import Settings
    from .background_run import RunHandle, start
    from .data_frames.bindings import Backfill, DataFrameInput, DataFrameOutput
    from .dead_letters import DeadLetter
    from .executor.keyed_executor import KeyedExecutor
    from .executor.submission import Submission
    from .foreground_run import run
    from .kernel.calls.call_keys import call_key, call_keys
    from .local.input_offsets import InputOffset, OffsetChange
    from .metrics.http import Metrics
    from .pipeline_drain import drain
    from .pipeline_frame import to_dataframe
    from .pipeline_letters import (
        HandledLetters,
        LetterGroup,
        drop_dead_letters,
        list_dead_letters,
        replay_dead_letters,
        show_dead_letter,
    )
    from .pipeline_offsets import SetOffsets, committed_offsets, export_offsets, import_offsets, set_offsets
    from .pipeline_reset import reset
    from .pipeline_scale import scale
    from .report import Progress, Report
    from .reset_step import ResetStep
    from .systems import KafkaSystem, open_system

__all__ = [
    "Backfill",
    "DataFrameInput",
    "DataFrameOutput",
    "DeadLetter",
    "HandledLetters",
    "InputOffset",
    "KafkaSystem",
    "KeyedExecutor",
    "LetterGroup",
    "Metrics",
    "OffsetChange",
    "Progress",
    "Report",
    "ResetStep",
    "RunHandle",
    "SetOffsets",
    "Settings",
    "Submission",
    "call_key",
    "call_keys",
    "committed_offsets",
    "drain",
    "drop_dead_letters",
    "export_offsets",
    "import_offsets",
    "list_dead_letters",
    "open_system",
    "replay_dead_letters",
    "reset",
    "run",
    "scale",
    "set_offsets",
    "show_dead_letter",
    "start",
    "to_dataframe",
]

# Names are imported when they are used: Spark starts many processes that need one module of this package each.
_HOMES = {
    "Backfill": ".data_frames.bindings",
    "DataFrameInput": ".data_frames.bindings",
    "DataFrameOutput": ".data_frames.bindings",
    "DeadLetter": ".dead_letters",
    "HandledLetters": ".pipeline_letters",
    "InputOffset": ".local.input_offsets",
    "KafkaSystem": ".systems",
    "LetterGroup": ".pipeline_letters",
    "KeyedExecutor": ".executor.keyed_executor",
    "Metrics": ".metrics.http",
    "OffsetChange": ".local.input_offsets",
    "Progress": ".report",
    "Report": ".report",
    "ResetStep": ".reset_step",
    "RunHandle": ".background_run",
    "SetOffsets": ".pipeline_offsets",
    "Settings": "..planner.settings",
    "committed_offsets": ".pipeline_offsets",
    "drop_dead_letters": ".pipeline_letters",
    "export_offsets": ".pipeline_offsets",
    "import_offsets": ".pipeline_offsets",
    "list_dead_letters": ".pipeline_letters",
    "Submission": ".executor.submission",
    "drain": ".pipeline_drain",
    "call_key": ".kernel.calls.call_keys",
    "call_keys": ".kernel.calls.call_keys",
    "open_system": ".systems",
    "replay_dead_letters": ".pipeline_letters",
    "reset": ".pipeline_reset",
    "run": ".foreground_run",
    "scale": ".pipeline_scale",
    "set_offsets": ".pipeline_offsets",
    "show_dead_letter": ".pipeline_letters",
    "start": ".background_run",
    "to_dataframe": ".pipeline_frame",
}

if not TYPE_CHECKING:  # with `__getattr__` type checkers would accept any name
    __getattr__ = lazy_names(__name__, _HOMES)
