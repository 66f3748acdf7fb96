"""`run`: runs a pipeline in this process, or supervises its containers on a cluster, until it has ended."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..dsl.errors import UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain
from ..dsl.verb_calls import explained_call
from ..planner.settings import Settings
from .autosize.autosize_options import Autosize
from .containers.start import HostsArguments, prepared_on_hosts, refuse_without_hosts
from .data_frames.bindings import Backfill, data_frames
from .launch import EngineName, Until, checked_progress, prepared
from .local.coordination.membership import ContainerId
from .report import OnProgress, Report
from .systems.contract import System

if TYPE_CHECKING:
    from .metrics.http import Metrics


@partial(explained_call, error=UsageError)
def run(
    pipeline: Pipeline,
    *,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
    until: Until = "stopped",
    progress: OnProgress | None = None,
    metrics: "Metrics | None" = None,
    spark: Any = None,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    backfill: Backfill | None = None,
    container_id: int | None = None,
    containers: int | None = None,
    hosts: Any = None,
    autosize: Autosize | None = None,
) -> Report:
    """Run a pipeline until it is stopped (SIGINT, SIGTERM), or up to the ends that its inputs have now.

    `until="caught-up"` processes what the inputs hold now; the next run goes on, as by a schedule. `until="end"` takes
    that for all input there is: all windows fire.
    `engine` is "local" or "spark"; `system` is where the streams live: `log:DIR`, `memory:`, or a System. `spark` is a
    SparkSession or a master's URL, for that engine. `progress` is called about once a second; `metrics` serves what is
    measured, see `Metrics`.

    `inputs` and `outputs` are DataFrames of Spark's, for that engine: by stream, a DataFrame or a `DataFrameInput`, and
    a function that is given the DataFrame of each batch, or a `DataFrameOutput`. Where the inputs have an end, the run
    is a batch job, and may write a part of its outputs anew: see `Backfill`.

    With `containers` more than 1 this process is one container of the local engine, the one with the number
    `container_id` from 0, which must be given then, and runs its share of the tasks; start one process for each. With
    `container_id` alone, on Kafka, it joins a run of any number, and takes over its share while the others run.
    With `hosts`, a SparkSession or a master's URL, this process supervises them instead: each of `containers` runs as a
    task on that cluster, and is started again if it dies. With `autosize` in place of `containers` their number, and
    the elasticity, follow the load: see `Autosize`.

    Raises a `FluvialError`: `PlanError` or `UnsupportedError` before anything starts, `MessageError` for a message that
    failed under `on_error=fail()` or a function that called `sys.exit`, `SystemProblem` when the system is out of
    reach, `NoProgressError` after a stall; `ContainerFailed` for a container on `hosts` that cannot go on; `UsageError`
    for a wrong argument, `MissingExtraError` for an engine that is not installed.

    >>> streams = open_system("memory:")
    >>> streams.admin().create("words", 1)
    >>> writing = streams.producer().begin()
    >>> writing.append("words", 0, [(None, b"tea", 1_700_000_000_000, ())])  # key, value, timestamp, headers
    >>> writing.commit()
    >>> pipeline = Pipeline("shout")
    >>> pipeline.stream("words", value=str).map(str.upper).send_to("loud")
    >>> run(pipeline, system=streams, until="end").written
    {'loud': 1}
    """
    checked_progress(progress)
    frames = data_frames(inputs, outputs, backfill)
    if hosts is not None:
        if container_id is not None:
            wrong = f"container_id={container_id!r} beside hosts=, which starts all containers"
            raise UsageError(explain(wrong, "one of the two", "leave out container_id="))
        asked = HostsArguments(engine, until, spark, metrics, hosts, containers, bool(frames), autosize)
        return prepared_on_hosts(pipeline, system, settings, asked)(progress)
    refuse_without_hosts(autosize)
    container = _checked_container(container_id, containers)
    return prepared(pipeline, engine, system, settings, until, spark, container, metrics, frames=frames)(progress)


def _checked_container(container_id: object, containers: object) -> ContainerId:
    if containers is None and type(container_id) is int and container_id >= 0:
        return ContainerId(container_id, 0)
    containers = 1 if containers is None else containers
    number = 0 if container_id is None and containers == 1 else container_id
    if not (isinstance(containers, int) and isinstance(number, int) and 0 <= number < containers):
        wrong = f"container_id={container_id!r}, containers={containers!r}"
        remedy = "pass container_id= in each process; fluvial run --containers starts all of them"
        raise UsageError(explain(wrong, "a number of containers, 1 or more, and one of them, counted from 0", remedy))
    return ContainerId(number, containers)
