"""`to_dataframe`: a stream of a pipeline as a DataFrame of Spark's, computed when it is used."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ..dsl.errors import UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.verb_calls import explained_call
from ..planner.planner import plan_on
from ..planner.settings import Settings
from .data_frames.bindings import Backfill, DataFrameOutput, check_streams, data_frames
from .data_frames.connect_server import bounded_calls


@partial(explained_call, error=UsageError)
def to_dataframe(
    pipeline: Pipeline,
    stream: str,
    *,
    inputs: Mapping[str, Any],
    value: Any = None,
    key: str | None = None,
    timestamp: str | None = None,
    backfill: Backfill | None = None,
    settings: Settings | None = None,
) -> Any:
    """The messages that a pipeline writes to a stream, as a DataFrame with typed columns to go on with: SQL, a table, a
    join.

    `inputs` are DataFrames for all streams that the pipeline reads, as of `run`. Where they have an end, Spark computes
    the whole pipeline as a batch each time that the DataFrame is used. A streaming DataFrame is possible for a stream
    that depends on no state; run others with `outputs=`. `value`, `key` and `timestamp` are those of a
    `DataFrameOutput`. What the pipeline writes to other streams is dropped; its sinks write.

    Raises as `run` does, before anything is computed.

    >>> visits = to_dataframe(pipeline, "visits", inputs={"clicks": spark.read.parquet("clicks")})  # doctest: +SKIP
    """
    frames = data_frames(inputs, {stream: DataFrameOutput(_unused, _unused, value, key, timestamp)}, backfill)
    settings = Settings() if settings is None else settings
    plan = plan_on(pipeline, dict.fromkeys([*frames.inputs, stream], 1), settings)
    with bounded_calls(frames):
        check_streams(plan, frames, all_outputs=False)
        from .spark.frames.data_frame import data_frame  # noqa: PLC0415  # pragma: no cover - loads Spark

        return data_frame(plan, stream, frames.outputs[stream], frames, settings)  # pragma: no cover - starts Spark


def _unused(*_: object) -> None:
    """In place of the function that writes an output: none does."""
