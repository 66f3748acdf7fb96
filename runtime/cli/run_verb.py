"""`fluvial run`: its arguments, and the options that they mean."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import NoReturn

from msgspec import structs

from ...dsl.pipeline import Pipeline
from ...dsl.text import visible
from ...planner.settings import Settings
from ..containers.start import MOST_RESTARTS
from ..files import STANDARD, ReadOptions
from ..metrics.http import LOOPBACK, Address
from ..pipeline_loader import load_pipeline
from ..report import Report
from . import arguments as words
from .autosize_words import AutosizeWords, autosize_of, containers_of
from .commands.load import Loaded
from .commands.run import RunOptions, run_pipeline
from .commands.streams import summary_of
from .display import showing, summary
from .option_values import (
    MAX_LINE,
    elasticity_of,
    group_by_of,
    named_system,
    names_of,
    pairs,
    parsed_duration,
    size,
    values_by_stream,
    wrong_option,
)
from .printing import json_text, print_last, say
from .record_verb import takes_record
from .settings_file import FILE, settings_with


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArguments:
    """The arguments of `fluvial run`, as text."""

    target: words.Target
    engine: words.RunEngine = "local"
    system: words.RunSystem = None
    kafka_conf: words.RunKafkaConf = None
    until: words.RunUntil = None
    guarantee: words.RunGuarantee = None
    commit_interval: words.CommitInterval = None
    elasticity: words.Elasticity = None
    group_by: words.GroupBy = None
    standbys: words.Standbys = None
    heartbeat_timeout: words.HeartbeatTimeout = None
    intermediate_partitions: words.IntermediatePartitions = None
    state_dir: words.RunStateDir = None
    forget_at_end: words.ForgetAtEnd = False
    containers: words.Containers = None
    autosize: words.Autosized = None
    catch_up: words.CatchUpTime = None
    utilization: words.Utilization = None
    container_memory: words.ContainerMemory = None
    container_id: words.ContainerNumber = None
    max_restarts: words.MaxRestarts = MOST_RESTARTS
    on: words.OnCluster = None
    inputs: words.Inputs = None
    input_format: words.InputFormat = None
    key_field: words.KeyFields = None
    delimiter: words.InputDelimiter = ","
    columns: words.InputColumns = None
    max_line: words.InputMaxLine = MAX_LINE
    skip_malformed: words.SkipMalformedInput = False
    partitions: words.InputPartitions = None
    append: words.Append = False
    outputs: words.OutputOptions = None
    raw: words.Raw = False
    master: words.Master = None
    spark_conf: words.SparkConf = None
    spark_buckets: words.SparkBuckets = None
    spark_shuffle_partitions: words.SparkShufflePartitions = None
    spark_batch_records: words.SparkBatchRecords = None
    spark_batch_duration: words.SparkBatchDuration = None
    spark_trigger_interval: words.SparkTriggerInterval = None
    spark_patience: words.SparkPatience = None
    spark_message_ids: words.SparkMessageIds = False
    assigned: words.Assigned = None
    metrics_port: words.MetricsPort = None
    metrics_host: words.MetricsHost = LOOPBACK
    metrics_alias: words.MetricsAlias = None
    as_json: words.ReportJson = False
    quiet: words.RunQuiet = False


@takes_record(RunArguments)
def run_verb(arguments: RunArguments) -> None:
    """Run a pipeline, until it is stopped or has read its inputs to their present end.

    Streams can be filled from files first, and written to files afterwards:

    fluvial run visits.py --input clicks=clicks.jsonl --output visits=-
    """
    pipeline = load_pipeline(arguments.target)
    options = run_options(arguments)
    to_stdout = STANDARD in options.outputs.values()
    if arguments.as_json and to_stdout:
        raise wrong_option("--json", "and an --output to standard output", "one of them", "write the output to a file")
    with showing(quiet=arguments.quiet) as progress:
        report, loaded = run_pipeline(pipeline, options, progress, say)
    if arguments.as_json:
        print_last(json_text(report), sys.stdout)
    elif not arguments.quiet:
        print_last(_summary(pipeline, report, loaded), sys.stderr if to_stdout else sys.stdout)


def run_options(arguments: RunArguments) -> RunOptions:
    """The options that the arguments of `fluvial run` mean."""
    _refuse_idle(arguments)
    sizing = _sizing(arguments)
    autosize = autosize_of(sizing)
    options = RunOptions(
        engine=arguments.engine,
        system=named_system(arguments.system, arguments.kafka_conf),
        inputs=pairs("--input", arguments.inputs or [], "STREAM=FILE", str),
        outputs=pairs("--output", arguments.outputs or [], "STREAM=FILE", str),
        reading=_reading(arguments),
        key_fields=values_by_stream("--key-field", arguments.key_field or []),
        partitions=arguments.partitions,
        append=arguments.append,
        raw=arguments.raw,
        until=arguments.until,
        settings=_settings(arguments, autosized=autosize is not None),
        target=arguments.target,
        metrics=_address(arguments),
        containers=containers_of(sizing),
        autosize=autosize,
        container_id=arguments.container_id,
        most_restarts=arguments.max_restarts,
        on=arguments.on,
        master=arguments.master,
        spark_conf=pairs("--spark-conf", arguments.spark_conf or [], "NAME=VALUE", str),
    )
    if arguments.forget_at_end and options.stops != "end":
        remedy = "write --until end too, or leave out --forget-at-end"
        raise wrong_option("--forget-at-end", "for a run that does not go to the end", "--until end", remedy)
    if options.temporary:
        # Its state stays with it: a folder in the file of settings is for the runs on a system.
        settings = structs.replace(options.settings, forget_at_end=True, state_dir=arguments.state_dir)
        return replace(options, settings=settings)
    return options


_SERVED = {
    "--input": (
        "input_format",
        "key_field",
        "delimiter",
        "columns",
        "max_line",
        "skip_malformed",
        "partitions",
        "append",
    ),
    "--output": ("raw",),
    "--containers": ("max_restarts", "on", "autosize"),
    "--autosize": ("catch_up", "utilization", "container_memory"),
    "--engine spark": ("master", *(name for name in Settings.__struct_fields__ if name.startswith("spark_"))),
}
"""Options that mean something beside another one alone, by that one."""


def _refuse_idle(arguments: RunArguments) -> None:
    """Refuse an option that would be ignored without a word, because the one that it serves is missing."""
    usual = {field.name: field.default for field in fields(RunArguments)}
    there = {
        "--input": arguments.inputs,
        "--output": arguments.outputs,
        "--containers": arguments.containers,
        "--autosize": arguments.autosize,
        "--engine spark": arguments.engine == "spark",
    }
    for needed, names in _SERVED.items():
        given = [name for name in names if getattr(arguments, name) not in (usual[name], [])]
        if given and not there[needed]:
            option = f"--{given[0].replace('_', '-')}"
            raise wrong_option(option, f"without {needed}", needed, f"write {needed} too, or leave out {option}")


def _reading(arguments: RunArguments) -> ReadOptions:
    return ReadOptions(
        arguments.input_format,
        delimiter=arguments.delimiter,
        skip_malformed=arguments.skip_malformed,
        columns=names_of(arguments.columns),
        max_line=size("--max-line", arguments.max_line),
    )


def _settings(arguments: RunArguments, *, autosized: bool) -> Settings:
    settings = settings_with(
        arguments.assigned,
        guarantee=arguments.guarantee,
        commit_interval=_duration("--commit-interval", arguments.commit_interval),
        elasticity=None if autosized else elasticity_of(arguments.elasticity or []),
        group_by=group_by_of(arguments.group_by or []),
        standbys=arguments.standbys,
        heartbeat_timeout=_duration("--heartbeat-timeout", arguments.heartbeat_timeout),
        intermediate_partitions=arguments.intermediate_partitions,
        state_dir=arguments.state_dir,
        forget_at_end=arguments.forget_at_end or None,
        spark_buckets=arguments.spark_buckets,
        spark_shuffle_partitions=arguments.spark_shuffle_partitions,
        spark_batch_records=arguments.spark_batch_records,
        spark_batch_duration=_duration("--spark-batch-duration", arguments.spark_batch_duration),
        spark_trigger_interval=_duration("--spark-trigger-interval", arguments.spark_trigger_interval),
        spark_patience=_duration("--spark-patience", arguments.spark_patience),
        spark_message_ids=arguments.spark_message_ids or None,
    )
    if autosized and not arguments.elasticity and settings.elasticity != 1:
        _refuse_elasticity(f"elasticity={settings.elasticity} of the environment or of {FILE}")
    return settings


def _sizing(arguments: RunArguments) -> AutosizeWords:
    if arguments.autosize is not None and any(text.startswith("elasticity=") for text in arguments.assigned or ()):
        _refuse_elasticity("--set elasticity")
    if arguments.autosize is not None and arguments.container_id is not None:
        remedy = "leave out --container-id: with --autosize this command starts the containers"
        raise wrong_option("--autosize", f"with --container-id {arguments.container_id}", "all containers", remedy)
    return AutosizeWords(
        autosize=arguments.autosize,
        containers=arguments.containers,
        elasticity=arguments.elasticity or [],
        catch_up=arguments.catch_up,
        utilization=arguments.utilization,
        container_memory=arguments.container_memory,
    )


def _refuse_elasticity(given: str) -> NoReturn:
    """Refuse an elasticity that a run which chooses its own would pass over."""
    remedy = "write --elasticity 1..16, or a number for no other"
    raise wrong_option("--autosize", f"with {given}", "the least and the most as an option", remedy)


def _duration(option: str, text: str | None) -> timedelta | None:
    return None if text is None else parsed_duration(option, text)


def _address(arguments: RunArguments) -> Address | None:
    if arguments.metrics_port is None:
        if arguments.metrics_host != LOOPBACK or arguments.metrics_alias:
            asked = "--metrics-host and --metrics-alias"
            raise wrong_option(
                asked, "without --metrics-port", "--metrics-port", "write --metrics-port 0 for any free port"
            )
        return None
    return Address(arguments.metrics_host, arguments.metrics_port, tuple(arguments.metrics_alias or ()))


def _summary(pipeline: Pipeline, report: Report, loaded: Sequence[Loaded]) -> str:
    notes = [visible(summary_of(file)) for file in loaded if file.malformed]
    labels = {operator.id: operator.label for operator in pipeline.operators}
    return "\n".join([*notes, summary(report, labels)])
