"""The verb `run`: loads files into streams, runs the pipeline, and writes streams to files."""

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from ....dsl import operators as ops
from ....dsl.errors import FluvialError, UsageError
from ....dsl.pipeline import Pipeline
from ....dsl.text import error_text
from ....dsl.validation import explain
from ....planner.planner import plan
from ....planner.settings import Settings
from ....planner.type_inference import flows, written_flow
from ...autosize.autosize_options import Autosize
from ...containers.running_child import Starting
from ...containers.start import (
    MOST_RESTARTS,
    SupervisedContainers,
    check_autosize,
    on_spark,
    refuse_on_cluster,
    run_containers,
)
from ...files import STANDARD, OutputProblem, ReadOptions, Render, json_of_bytes, json_of_type, open_output, unobeyed
from ...foreground_run import run
from ...launch import EngineName, Until, check_containers, check_joining, refuse_impossible
from ...metrics.http import Address, Metrics, serving
from ...preflight.requirements import check_requirements
from ...process.signals import unwinding
from ...report import OnProgress, Report
from ...systems import DEFAULT_SYSTEM, LogSystem, open_system
from ...systems.contract import ProducingSystem, System
from ...systems.reads import read_to_ends
from ..option_values import wrong_option
from .input_files import EVERY_STREAM, encoding_of, reading_of
from .load import Loaded, load


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of `fluvial run`. `inputs` and `outputs` are files by stream, `key_fields` the fields with the keys.

    The default of `system` is a temporary log if there are inputs, else the default log; that of `until` is "end" if
    there are inputs, else "stopped".

    With `containers` all of them run, as child processes that load `target`, or with `on` as tasks of the Spark cluster
    with this master; with `container_id` only that one runs. With `autosize` their number follows the load."""

    engine: EngineName = "local"
    system: System | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    reading: ReadOptions = field(default_factory=ReadOptions)
    key_fields: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    append: bool = False
    raw: bool = False
    until: Until | None = None
    settings: Settings = field(default_factory=Settings)
    target: str = ""
    containers: int | None = None
    autosize: Autosize | None = None
    container_id: int | None = None
    most_restarts: int = MOST_RESTARTS
    on: str | None = None
    metrics: Address | None = None
    master: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def stops(self) -> Until:
        """When the run returns: as `until` says, or by default."""
        return self.until or ("end" if self.inputs else "stopped")

    @property
    def supervises(self) -> bool:
        """Whether the run starts its containers, in other processes than this one."""
        if self.on is not None or self.autosize is not None:
            return True
        # With one on Kafka, too: such a run can get more of them.
        scalable = self.stops == "stopped" and isinstance(self.system, ProducingSystem)
        return self.container_id is None and (self.containers or 0) > (0 if scalable else 1)

    @property
    def temporary(self) -> bool:
        """Whether the run is on a log that it makes for its inputs, and removes afterwards."""
        return self.system is None and bool(self.inputs)


def run_pipeline(
    pipeline: Pipeline, options: RunOptions, progress: OnProgress | None, say: Callable[[str], None] = print
) -> tuple[Report, list[Loaded]]:
    """Load the inputs, run the pipeline, write the outputs. Returns the report, and the results of loading.

    `say` prints the lines of containers that run as child processes."""
    _check_streams(pipeline, options)
    _check_container(options)
    _spark_arguments(options)
    check_requirements(options.engine, at=f"--engine {options.engine}")
    with serving(None if options.supervises else options.metrics, say) as metrics, _system(options) as system:
        check_autosize(options.engine, system, options.stops, options.autosize)
        hosts = None if options.on is None else _hosts(options.on, pipeline, system, options, say)
        check_containers(options.engine, system, options.containers or 1)
        if options.containers is None and options.container_id is not None:
            check_joining(options.engine, system, options.stops, options.container_id)
        # A file that was loaded stays in its stream: a second try after an error would add it once more.
        fed = dict.fromkeys(options.inputs, options.partitions)
        refuse_impossible(pipeline, options.engine, system, options.settings, fed)
        loaded = _load_inputs(pipeline, system, options)
        before = _ends(system, options.outputs)
        report = _run(pipeline, system, options, progress, say, metrics, hosts)
        for stream, path in options.outputs.items():
            _write(system, stream, before[stream], path, pipeline, raw=options.raw)
        return report, loaded


def _run(
    pipeline: Pipeline,
    system: System,
    options: RunOptions,
    progress: OnProgress | None,
    say: Callable[[str], None],
    metrics: Metrics | None,
    hosts: AbstractContextManager[Starting] | None,
) -> Report:
    if options.supervises:
        containers = SupervisedContainers(
            number=options.containers or 1,
            most_restarts=options.most_restarts,
            hosts=hosts,
            autosize=options.autosize,
            metrics=options.metrics,
        )
        return run_containers(
            pipeline,
            options.target,
            system,
            options.settings,
            options.stops,
            containers,
            progress=progress,
            say=say,
        )
    return run(
        pipeline,
        engine=options.engine,
        system=system,
        settings=options.settings,
        until=options.stops,
        progress=progress,
        metrics=metrics,
        spark=options.master,
        container_id=options.container_id if options.containers is None else options.container_id or 0,
        containers=options.containers,
    )


def _hosts(
    master: str, pipeline: Pipeline, system: System, options: RunOptions, say: Callable[[str], None]
) -> AbstractContextManager[Starting]:
    """The cluster that `--on` names, once it is known that containers can use it."""
    at = f"--on {master}"
    refuse_on_cluster(options.engine, system, at)
    return on_spark(master, pipeline, options.settings, say, "--on")


def _check_container(options: RunOptions) -> None:
    """Refuse a container number out of range, files for a single container, and a cluster for what cannot use one."""
    if options.on is not None and options.temporary:
        expected = "a system that all workers see"
        raise wrong_option("--on", f"{options.on} without --system", expected, "write --system kafka://HOST:PORT")
    if options.on is not None and options.container_id is not None:
        given = f"{options.on} with --container-id {options.container_id}"
        raise wrong_option("--on", given, "all containers", "leave out --container-id")
    if options.container_id is None:
        return
    given = f"--container-id {options.container_id}"
    if options.containers is not None and not 0 <= options.container_id < options.containers:
        last = options.containers - 1
        raise wrong_option(
            given, f"of --containers {options.containers}", f"0 to {last}", f"write --container-id {last}"
        )
    if options.inputs or options.outputs:
        remedy = "use fluvial produce before the run, and fluvial consume after it"
        raise wrong_option(given, "with --input or --output", "files with a run of all containers only", remedy)


def _check_streams(pipeline: Pipeline, options: RunOptions) -> None:
    """Refuse files for streams that the pipeline does not have, and a temporary log without one of its inputs."""
    planned = plan(pipeline)
    sources = [stream.name for stream in planned.streams if stream.kind == "source"]
    written = [stream.name for stream in planned.streams if stream.kind != "source"]
    for option, given, streams, does in (
        ("--input", options.inputs, sources, "reads"),
        ("--output", options.outputs, written, "writes"),
    ):
        for name, path in given.items():
            if name not in streams:
                meant = get_close_matches(name, streams, 1)
                remedy = f"write {option} {meant[0]}={path}" if meant else "name one of them"
                expected = f"a stream that {pipeline.name} {does}: {', '.join(streams) or 'none'}"
                raise wrong_option(option, f"{name}={path}", expected, remedy)
    for name in options.key_fields:
        if name != EVERY_STREAM and name not in options.inputs:
            remedy = f"correct the name, or write --input {name}=FILE too"
            raise wrong_option("--key-field", f"{name}={options.key_fields[name]}", "the stream of an --input", remedy)
    if options.temporary and options.settings.state_dir is not None:
        wrong = f"{options.settings.state_dir} without --system, for a temporary log"
        remedy = "name the --system too, or leave it out"
        raise wrong_option("--state-dir", wrong, "state and a log that stay together", remedy)
    missing = [name for name in sources if name not in options.inputs]
    if options.temporary and missing:
        wrong = f"no --input for {', '.join(missing)}: without --system a run with --input has a new, temporary log"
        remedy = f"write --input {missing[0]}=FILE, or name the system where the stream is"
        raise UsageError(explain(wrong, "a file for each stream that is read", remedy, "the command line"))
    _check_files(options)


def _check_files(options: RunOptions) -> None:
    """Refuse a file that is named for more than one stream, and outputs in folders that do not exist."""
    used: dict[Path, str] = {}
    for name, path in options.inputs.items():
        if path == STANDARD and list(options.inputs.values()).count(STANDARD) > 1:
            raise wrong_option(
                "--input", f"{name}={path}", "standard input for one stream alone", "write the rest to files"
            )
        used[Path(path).resolve()] = f"--input {name}={path}"
    for name, path in options.outputs.items():
        if path == STANDARD:
            continue
        if other := used.get(file := Path(path).resolve()):
            expected = f"a file of its own; {other} was given too"
            raise wrong_option("--output", f"{name}={path}", expected, "name another file")
        used[file] = f"--output {name}={path}"
        if not Path(path).parent.is_dir():
            wrong = f"there is no folder {str(Path(path).parent)!r}"
            raise UsageError(
                explain(wrong, "a path in a folder that exists", "make the folder first", f"--output {path}")
            )


@contextmanager
def _system(options: RunOptions) -> Iterator[System]:
    """The system that was named; else a temporary log if there are inputs, or the default log."""
    if not options.temporary:
        yield options.system or open_system(DEFAULT_SYSTEM)
        return
    with unwinding(), _temporary() as system:
        yield system


@contextmanager
def _temporary() -> Iterator[System]:
    """A log in a folder that is removed afterwards, unless it holds outputs that could not be written to files."""
    folder = tempfile.mkdtemp(prefix="fluvial-")
    # The log does not outlive the run, so fsync would gain nothing.
    log = LogSystem(Path(folder, "log"), fsync=False)
    keep = False
    try:
        yield log
    except OutputProblem as problem:
        keep = True
        stays = f"The run is done, and its log stays: fluvial consume STREAM --values --system {log.url}"
        raise OutputProblem(f"{problem}\n{stays}\nRemove it afterwards: rm -r {folder}") from problem
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _load_inputs(pipeline: Pipeline, system: System, options: RunOptions) -> list[Loaded]:
    admin = system.admin()
    for stream in options.inputs:
        if not options.append and any(admin.ends(stream) if admin.partitions(stream) else []):
            wrong = f"--input for {stream!r}, which holds records in {system.url}"
            remedy = "write --append to add to them, or leave out --input to read what is there"
            raise UsageError(explain(wrong, "an empty stream or a new one", remedy, "the command line"))
    readings = {stream: reading_of(pipeline, stream, options.reading, options.key_fields) for stream in options.inputs}
    encodings = {stream: encoding_of(pipeline, stream, reading) for stream, reading in readings.items()}
    return [
        load(system, stream, path, readings[stream], options.partitions, encodings[stream])
        for stream, path in options.inputs.items()
    ]


def _ends(system: System, streams: Sequence[str] | Mapping[str, str]) -> dict[str, list[int]]:
    admin = system.admin()
    return {stream: admin.ends(stream) if admin.partitions(stream) else [] for stream in streams}


def _write(system: System, stream: str, before: list[int], path: str, pipeline: Pipeline, *, raw: bool) -> None:
    """Write the values that were added to a stream since it had these ends."""
    render = _render(pipeline, stream, raw=raw)
    ends = system.admin().ends(stream)
    with open_output(path) as file:
        for batch in read_to_ends(system, stream, before or [0] * len(ends), ends):
            for offset, record in zip(batch.offsets, batch.records, strict=True):
                try:
                    line = render(record[1])
                except FluvialError:  # the registry is out of reach
                    raise
                except Exception as error:  # a Serde may be the user's, and raise anything
                    raise _undecodable(stream, batch.partition, offset, error) from error
                # With --raw values are for another program, as they are; JSON means the same.
                file.write((unobeyed(line) if path == STANDARD and not raw else line) + b"\n")


def _undecodable(stream: str, partition: int, offset: int, error: Exception) -> OutputProblem:
    wrong = f"a value cannot be shown: {error_text(error)}"
    remedy = f"correct the value's Serde, or see the bytes: fluvial consume {stream} --format base64"
    at = f"stream {stream}, partition {partition}, offset {offset}"
    return OutputProblem(explain(wrong, "values that their type or Serde decodes", remedy, at))


def _render(pipeline: Pipeline, stream: str, *, raw: bool) -> Render:
    """How to show the values of a stream that the pipeline writes."""
    kinds = [_kind(pipeline, pipeline.operator(id)) for id in plan(pipeline).stream(stream).written_by]
    if kinds and all(kind == kinds[0] for kind in kinds):
        return json_of_type(kinds[0], raw=raw)
    # Dead letters have the values of any stream, and operators may write different types.
    return json_of_type(bytes, raw=True) if raw else json_of_bytes("auto")


def _kind(pipeline: Pipeline, operator: ops.Operator) -> object:
    """The type or Serde of what an operator writes."""
    return written_flow(operator, flows(pipeline)).value


def _spark_arguments(options: RunOptions) -> None:
    """Pass settings of Spark to its launcher: those of a session cannot set the memory of the driver."""
    if options.engine != "spark" and options.on is None and options.spark_conf:
        remedy = "write one of them too, or leave it out"
        raise wrong_option("--spark-conf", "without Spark", "--engine spark, or --on URL", remedy)
    if options.spark_conf:
        given = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
        ours = (word for name, value in options.spark_conf.items() for word in ("--conf", f"{name}={value}"))
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join(ours)} {given}"
