"""The arguments and options of the command line, each declared once under a name of its own."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...planner.settings import Guarantee
from ..files import FormatName, ShownAs
from ..launch import EngineName, Until
from ..systems import DEFAULT_SYSTEM
from ..systems.reads import StreamEnd

URL = "Where the streams are: log:DIR, kafka://HOST:PORT, or memory:, which ends with the process."
CONF = "Settings of the Kafka client, NAME=VALUE on each line: TLS, SASL and so on."
LONGEST_LINE = "The largest line, in bytes: 500kB, 64MB, 1GB."

MOST = sys.maxsize
"""The most rows or records that can be asked for: what counts them takes no larger number."""

# Options of several verbs

Target = Annotated[str, typer.Argument(metavar="PIPELINE", help="file.py, file.py:attribute or module:attribute.")]
Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]
SystemUrl = Annotated[str, typer.Option("--system", metavar="URL", help=URL)]
MaybeSystem = Annotated[str | None, typer.Option("--system", metavar="URL", help=URL)]
KafkaConf = Annotated[Path | None, typer.Option("--kafka-conf", metavar="FILE", help=CONF)]
StateDir = Annotated[
    str | None,
    typer.Option("--state-dir", metavar="DIR", help="Folder for the state of the run, if not beside the log."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RowLimit = Annotated[int | None, typer.Option(metavar="N", min=0, max=MOST, help="Print at most so many rows.")]
RecordLimit = Annotated[int | None, typer.Option(metavar="N", min=0, max=MOST, help="Print at most so many records.")]

# run: the run

_run = partial(typer.Option, rich_help_panel="The run")

RunEngine = Annotated[EngineName, _run(help="The engine that runs it.")]
RunSystem = Annotated[
    str | None, _run(metavar="URL", help=f"{URL} Default: {DEFAULT_SYSTEM}; with --input a temporary log.")
]
RunKafkaConf = Annotated[Path | None, _run("--kafka-conf", metavar="FILE", help=CONF)]
RunUntil = Annotated[
    Until | None,
    _run(
        help="When to return: when stopped; caught up with the present ends of the inputs, for runs by a schedule; or "
        "at these ends as the end of all input, where all windows fire."
    ),
]
RunGuarantee = Annotated[
    Guarantee | None, _run(help="Whether a crash may repeat outputs. Default: at_least_once, which may.")
]
CommitInterval = Annotated[
    str | None,
    _run(
        metavar="DURATION",
        help="Time between checkpoints: 500ms, 2s, 1min. Default: 1s, and 5s for at_least_once on Kafka.",
    ),
]
_ELASTICITY = (
    "Key buckets that each task is split into: 1, 2, 4 ... 64, so that more containers than partitions have work; "
    "repeatable, with the id of a stage for that one. Default: 1. Engine local."
)
_RUN_ELASTICITY = f"{_ELASTICITY} With --autosize the least and the most, as 1..16."
Elasticity = Annotated[list[str] | None, _run(metavar="[STAGE=]N|A..B", help=_RUN_ELASTICITY)]
_GROUP_BY = (
    "Which partitions a task reads: one of each stream (partition), or one of one stream (stream-partition), where "
    "stages have no joins, tables and state; repeatable, with the id of a stage for that one. Default: partition. "
    "Engine local."
)
GroupBy = Annotated[list[str] | None, _run(metavar="[STAGE=]GROUPING", help=_GROUP_BY)]
PlanGroupBy = Annotated[list[str] | None, typer.Option("--group-by", metavar="[STAGE=]GROUPING", help=_GROUP_BY)]
_ASSIGNED = (
    "A setting by its name, such as cached_bytes=64MB or stall_timeout=10min; repeat it for more. One that has an "
    "option of its own is given by that first."
)
Assigned = Annotated[list[str] | None, _run("--set", metavar="NAME=VALUE", help=_ASSIGNED)]
PlanAssigned = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=_ASSIGNED)]
PlanElasticity = Annotated[list[str] | None, typer.Option("--elasticity", metavar="[STAGE=]N", help=_ELASTICITY)]
Standbys = Annotated[
    int | None,
    _run(
        metavar="N",
        min=0,
        help="Containers that keep a warm copy of each task's state, and take it over if its own is silent. Kafka.",
    ),
]
HeartbeatTimeout = Annotated[
    str | None,
    _run(metavar="DURATION", help="After so long without a heartbeat a container is taken for dead. Default: 10s."),
]
IntermediatePartitions = Annotated[int | None, _run(metavar="N", min=1, help="Partitions of intermediate streams.")]
RunStateDir = Annotated[
    str | None,
    _run(
        metavar="DIR",
        help="Folder for state; default: beside the log, on Kafka .fluvial. Use the same one in every run.",
    ),
]
ForgetAtEnd = Annotated[
    bool,
    _run(
        "--forget-at-end",
        help="Keep no windows that fire at the end of input; for a pipeline that runs once. A run on a temporary log "
        "keeps none.",
    ),
]
ReportJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
RunQuiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show neither progress nor report.")]

# run: how many containers

_containers = partial(typer.Option, rich_help_panel="Containers")

Containers = Annotated[
    str | None,
    _containers(
        metavar="N|A..B",
        help="Processes that share the work, on this machine if not --on another; with --autosize the least and the "
        "most.",
    ),
]
Autosized = Annotated[
    Literal["on", "advise"] | None,
    _containers(
        "--autosize",
        metavar="[=advise]",
        help="Change the number of containers, and the elasticity, with the load, or advise to. Kafka.",
    ),
]
CatchUpTime = Annotated[
    str | None,
    _containers(metavar="DURATION", help="With --autosize: the time in which to process what waits. Default: 5min."),
]
Utilization = Annotated[
    float | None,
    _containers(
        metavar="FRACTION",
        help="With --autosize: the fraction of time in which a container may be busy, 0.1 to 0.95. Default: 0.7.",
    ),
]
ContainerMemory = Annotated[
    str | None, _containers(metavar="SIZE", help="With --autosize: the memory that a container may take, such as 2GB.")
]
ContainerNumber = Annotated[
    int | None,
    _containers(
        metavar="K",
        min=0,
        help="Run only this container, from 0; start the others yourself.",
    ),
]
MaxRestarts = Annotated[
    int,
    _containers(
        metavar="N", min=0, help="How often in ten minutes of its work a container that has died is started again."
    ),
]
OnCluster = Annotated[
    str | None,
    _containers(
        "--on",
        metavar="URL",
        help="Run the containers as tasks of a Spark cluster, by the URL of its master: spark://HOST:7077, yarn, "
        "k8s://HOST:PORT.",
    ),
]

# run: files to streams

_input = partial(typer.Option, rich_help_panel="Files to streams")

Inputs = Annotated[
    list[str] | None,
    _input(
        "--input",
        metavar="STREAM=FILE",
        help="Load a file into a stream first, - for standard input; repeat it for more.",
    ),
]
InputFormat = Annotated[
    FormatName | None,
    _input(
        help="The format of the files. Default: json if --key-field is given or a Serde accepts JSON, such as Avro's; "
        "else lines, which the pipeline itself decodes."
    ),
]
KeyFields = Annotated[
    list[str] | None,
    _input(
        metavar="[STREAM=]NAME",
        help="The field with a record's key, encoded as the stream's key= says; repeat it for more streams.",
    ),
]
InputDelimiter = Annotated[str, _input(help="The separator of CSV columns.")]
InputColumns = Annotated[
    str | None,
    _input(metavar="NAME,NAME,...", help="The names of the CSV columns, if the first line does not have them."),
]
InputMaxLine = Annotated[str, _input(metavar="SIZE", help=LONGEST_LINE)]
SkipMalformedInput = Annotated[bool, _input("--skip-malformed", help="Skip malformed lines.")]
InputPartitions = Annotated[int | None, _input(metavar="N", min=1, help="Partitions of the streams made for --input.")]
Append = Annotated[bool, _input("--append", help="Load into streams that already have records.")]

# run: streams to files, Spark, metrics

_output = partial(typer.Option, rich_help_panel="Streams to files")
_spark = partial(typer.Option, rich_help_panel="Spark")
_metrics = partial(typer.Option, rich_help_panel="Metrics")

OutputOptions = Annotated[
    list[str] | None,
    _output(
        "--output",
        metavar="STREAM=FILE",
        help="After the run, write the values that it added to a stream as lines of JSON, - for standard output.",
    ),
]
Raw = Annotated[bool, _output("--raw", help="Write str and bytes values as they are.")]
Master = Annotated[str | None, _spark(metavar="URL", help="Spark's master, such as local[2].")]
SparkConf = Annotated[list[str] | None, _spark(metavar="NAME=VALUE", help="A setting of Spark; repeat it for more.")]
SparkBuckets = Annotated[
    int | None,
    _spark(metavar="N", min=1, max=4096, help="Key buckets: the most tasks that ever keep state. Default: 64."),
]
SparkShufflePartitions = Annotated[
    int | None,
    _spark(
        metavar="N",
        min=1,
        help="Tasks that keep state, a divisor of the buckets. Default: as before; at first as many as cores.",
    ),
]
SparkBatchRecords = Annotated[
    int | None, _spark(metavar="N", min=1, help="Most messages of one batch. Default: 2000000.")
]
SparkTriggerInterval = Annotated[
    str | None, _spark(metavar="DURATION", help="Time between two batches. Default: none, as fast as they come.")
]
SparkBatchDuration = Annotated[
    str | None,
    _spark(metavar="DURATION", help="How long a batch is to take: its bound is fitted to that. Default: no such aim."),
]
SparkPatience = Annotated[
    str | None, _spark(metavar="DURATION", help="How long Spark's Python processes may take to come up. Default: 40s.")
]
SparkMessageIds = Annotated[
    bool,
    _spark(
        "--spark-message-ids",
        help="Give outputs on Kafka a header fluvial.id, which a message that is written again has again.",
    ),
]
MetricsPort = Annotated[
    int | None, _metrics(metavar="N", min=0, max=65535, help="Serve metrics over HTTP; 0: any free port.")
]
MetricsHost = Annotated[str, _metrics(metavar="HOST", help="The address at which they are served.")]
MetricsAlias = Annotated[
    list[str] | None,
    _metrics(
        metavar="NAME", help="Another name that requests may use for that host, such as a proxy's; repeat it for more."
    ),
]

# plan, draw, check, top

StreamPartitions = Annotated[
    list[str] | None, typer.Option(metavar="STREAM=N", help="The partition count of a stream; repeat it for more.")
]
PlanColumns = Annotated[
    bool, typer.Option("--columns", help="Show the columns that each stream has in a DataFrame of Spark's instead.")
]
DrawingFile = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="Where to: .svg .html .mmd .dot .txt .json, - for stdout."),
]
DrawingFormat = Annotated[
    str | None, typer.Option("--format", help="svg, html, mmd, dot, txt or json; by default as the file's name ends.")
]
DrawingView = Annotated[Literal["operators", "stages"], typer.Option(help="All operators, or stages and streams.")]
OpenDrawing = Annotated[bool, typer.Option("--open/--no-open", help="Open the file in the browser.")]
CheckedEngine = Annotated[EngineName, typer.Option(help="The engine that will run it.")]
Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="The pipeline's name, or PORT or HOST:PORT of each container."),
]
Once = Annotated[bool, typer.Option("--once", help="Print it once, with rates since the start.")]
Every = Annotated[str, typer.Option(metavar="DURATION", help="Time between two updates.")]
OnceJson = Annotated[bool, typer.Option("--json", help="Print it once, as JSON.")]

# produce, consume

File = Annotated[str, typer.Argument(metavar="FILE", help="The file, plain or gzipped, - for standard input.")]
FormatOption = Annotated[FormatName, typer.Option("--format", help="The format of the file.")]
NewPartitions = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Partitions of the stream; 1 if it is new.")
]
KeyField = Annotated[str | None, typer.Option(metavar="NAME", help="The field with a record's key.")]
TimestampField = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The field with its timestamp: ms since epoch, or ISO 8601. Default: now."),
]
Delimiter = Annotated[str, typer.Option(help="The separator of CSV columns.")]
Columns = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME,...", help="The names of the CSV columns, if the first line does not have them."),
]
MaxLine = Annotated[str, typer.Option(metavar="SIZE", help=LONGEST_LINE)]
SkipMalformed = Annotated[bool, typer.Option("--skip-malformed", help="Skip malformed lines, and count them.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
FromOffset = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="The first offset of each partition. Default: the first that can be read."),
]
ConsumeUntil = Annotated[StreamEnd, typer.Option(help="Return at the present end, or continue until stopped.")]
ValuesAlone = Annotated[bool, typer.Option("--values/--records", help="Print values alone, or whole records.")]
ValueFormat = Annotated[
    ShownAs, typer.Option("--format", help="How to show values; auto: JSON if they are JSON, else text or base64.")
]

# scale

NewContainers = Annotated[
    int | None, typer.Option("--containers", metavar="N", min=1, help="The number of containers that it is to have.")
]
_NEW_ELASTICITY = (
    "Key buckets that each task is to be split into: 1, 2, 4 ... 64; repeatable, with the id of a stage for that one."
)
NewElasticity = Annotated[list[str] | None, typer.Option("--elasticity", metavar="[STAGE=]N", help=_NEW_ELASTICITY)]
RunningSystem = Annotated[
    str, typer.Option("--system", metavar="URL", help="The system that it runs on: kafka://HOST:PORT.")
]
DrainedSystem = Annotated[
    str, typer.Option("--system", metavar="URL", help="The system that it runs on: kafka://HOST:PORT or log:FOLDER.")
]
DrainDryRun = Annotated[bool, typer.Option("--dry-run", help="Show the offsets of the inputs, and change nothing.")]
DrainTimeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="How long to wait; the run drains on after that.")
]
ScaleDryRun = Annotated[bool, typer.Option("--dry-run", help="List the tasks that would move, and change nothing.")]
ScaleTimeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="Go back if tasks have not moved within this time.")
]
