"""The arguments and options of the command line, each declared once under a name of its own."""

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...planner.settings import Guarantee
from ..files import FormatName, ShownAs
from ..launch import EngineName, Until
from ..systems import DEFAULT_SYSTEM

URL = "Where the streams are: log:DIR, kafka://HOST:PORT, or memory:, which is gone at the end."
CONF = "Settings of the Kafka client, NAME=VALUE on each line: TLS, SASL and so on."
LONGEST_LINE = "Most bytes of a line: 500kB, 64MB, 1GB."

# Options of several verbs

Target = Annotated[str, typer.Argument(metavar="PIPELINE", help="file.py, file.py:attribute or module:attribute.")]
Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]
SystemUrl = Annotated[str, typer.Option("--system", metavar="URL", help=URL)]
MaybeSystem = Annotated[str | None, typer.Option("--system", metavar="URL", help=URL)]
KafkaConf = Annotated[Path | None, typer.Option("--kafka-conf", metavar="FILE", help=CONF)]
StateDir = Annotated[
    str | None, typer.Option("--state-dir", metavar="DIR", help="Where the run keeps its state, if not beside the log.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RowLimit = Annotated[int | None, typer.Option(metavar="N", min=0, help="Most rows to print.")]
RecordLimit = Annotated[int | None, typer.Option(metavar="N", min=0, help="Most records to print.")]

# run: the run

_run = partial(typer.Option, rich_help_panel="The run")

RunEngine = Annotated[EngineName, _run(help="What runs it.")]
RunSystem = Annotated[
    str | None, _run(metavar="URL", help=f"{URL} Default: {DEFAULT_SYSTEM}; with --input a temporary log.")
]
RunKafkaConf = Annotated[Path | None, _run("--kafka-conf", metavar="FILE", help=CONF)]
RunUntil = Annotated[Until | None, _run(help="When to return: at the end that inputs have now, or when stopped.")]
RunGuarantee = Annotated[Guarantee, _run(help="Whether a crash may repeat outputs.")]
CommitInterval = Annotated[
    str | None,
    _run(
        metavar="DURATION",
        help="Time between checkpoints: 500ms, 2s, 1min. Default: 1s, and 5s for at_least_once on Kafka.",
    ),
]
IntermediatePartitions = Annotated[int | None, _run(metavar="N", min=1, help="Partitions of intermediate streams.")]
RunStateDir = Annotated[
    str | None,
    _run(metavar="DIR", help="Keep state there; by default beside the log, on Kafka in .fluvial. Always the same."),
]
ReportJson = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
RunQuiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show neither progress nor report.")]

# run: containers

_containers = partial(typer.Option, rich_help_panel="Containers")

Containers = Annotated[
    int | None, _containers(metavar="N", min=1, help="Processes that share the work on this machine.")
]
ContainerNumber = Annotated[
    int | None,
    _containers(
        metavar="K",
        min=0,
        help="Be this container of --containers alone, counted from 0; something else starts the others.",
    ),
]
MaxRestarts = Annotated[
    int, _containers(metavar="N", min=0, help="How often in ten minutes a container that dies is started again.")
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
        help="What a line of the files is. Default: json where --key-field is given or a Serde takes JSON, such as "
        "Avro's; else lines, which the pipeline itself decodes."
    ),
]
KeyFields = Annotated[
    list[str] | None,
    _input(
        metavar="[STREAM=]NAME",
        help="The field with a record's key, encoded as the stream's key= says; repeat it for more streams.",
    ),
]
InputDelimiter = Annotated[str, _input(help="What lies between columns of CSV.")]
InputColumns = Annotated[
    str | None,
    _input(metavar="NAME,NAME,...", help="The names of CSV's columns, of files whose first line has none."),
]
InputMaxLine = Annotated[str, _input(metavar="SIZE", help=LONGEST_LINE)]
SkipMalformedInput = Annotated[bool, _input("--skip-malformed", help="Leave out lines not of the format.")]
InputPartitions = Annotated[int | None, _input(metavar="N", min=1, help="Partitions of the streams made for --input.")]
Append = Annotated[bool, _input("--append", help="Load into streams that hold records.")]

# run: streams to files, Spark, metrics

_output = partial(typer.Option, rich_help_panel="Streams to files")
_spark = partial(typer.Option, rich_help_panel="Spark")
_metrics = partial(typer.Option, rich_help_panel="Metrics")

Outputs = Annotated[
    list[str] | None,
    _output(
        "--output",
        metavar="STREAM=FILE",
        help="Afterwards write the values that came to a stream as lines of JSON, - for standard output.",
    ),
]
Raw = Annotated[bool, _output("--raw", help="Write str and bytes values as they are.")]
Master = Annotated[str | None, _spark(metavar="URL", help="Spark's master, such as local[2].")]
SparkConf = Annotated[list[str] | None, _spark(metavar="NAME=VALUE", help="A setting of Spark; repeat it for more.")]
MetricsPort = Annotated[
    int | None, _metrics(metavar="N", min=0, max=65535, help="Serve metrics over HTTP; 0: at any free port.")
]
MetricsHost = Annotated[str, _metrics(metavar="HOST", help="Where to serve them.")]
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
DrawingFile = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="Where to: .svg .html .mmd .dot .txt .json, - for stdout."),
]
DrawingFormat = Annotated[
    str | None, typer.Option("--format", help="svg, html, mmd, dot, txt or json; by default as the file's name ends.")
]
DrawingView = Annotated[Literal["operators", "stages"], typer.Option(help="All operators, or stages and streams.")]
OpenDrawing = Annotated[bool, typer.Option("--open/--no-open", help="Open the file in the browser.")]
CheckedEngine = Annotated[EngineName, typer.Option(help="What is to run it.")]
Runs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RUN]...", help="The pipeline's name, or PORT or HOST:PORT of each container."),
]
Once = Annotated[bool, typer.Option("--once", help="Print it once, with rates since the start.")]
Every = Annotated[str, typer.Option(metavar="DURATION", help="Time between two looks.")]
OnceJson = Annotated[bool, typer.Option("--json", help="Print it once, as JSON.")]

# produce, consume

File = Annotated[str, typer.Argument(metavar="FILE", help="The file, plain or gzipped, - for standard input.")]
FileFormat = Annotated[FormatName, typer.Option("--format", help="What a line of the file is.")]
NewPartitions = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Partitions of the stream; 1 if it is new.")
]
KeyField = Annotated[str | None, typer.Option(metavar="NAME", help="The field with a record's key.")]
TimestampField = Annotated[
    str | None, typer.Option(metavar="NAME", help="The field with its time: ms since epoch, or ISO 8601. Default: now.")
]
Delimiter = Annotated[str, typer.Option(help="What lies between the columns of CSV.")]
Columns = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME,...", help="The names of CSV's columns, of a file whose first line has none."),
]
MaxLine = Annotated[str, typer.Option(metavar="SIZE", help=LONGEST_LINE)]
SkipMalformed = Annotated[bool, typer.Option("--skip-malformed", help="Count lines not of the format, leave them out.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")]
FromOffset = Annotated[
    int | None,
    typer.Option(metavar="N", min=0, help="The first offset of each partition. Default: the first there is."),
]
ConsumeUntil = Annotated[Until, typer.Option(help="Return at the end that there is now, or go on until stopped.")]
ValuesAlone = Annotated[bool, typer.Option("--values/--records", help="Print values alone, or whole records.")]
ValueFormat = Annotated[
    ShownAs, typer.Option("--format", help="How to show values; auto: as JSON where they are, else text or base64.")
]

# state, reset

Table = Annotated[str, typer.Argument(metavar="TABLE", help="The id of a table, or of a join of tables.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key: text, a number, or JSON of a tuple.")]
ResetStates = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="OPERATOR", help="Remove the state of this operator; repeat it for more."),
]
ResetInputs = Annotated[
    list[str] | None,
    typer.Option(
        "--stream", metavar="STREAM", help="Read this topic from its start in the next run; repeat it for more."
    ),
]
KeepOffsets = Annotated[
    bool,
    typer.Option("--keep-offsets", help="With --stream: go on at its offsets; it was made anew with its messages."),
]
ResetAll = Annotated[
    bool, typer.Option("--all", help="Remove checkpoints, stores, changelogs and streams between stages; needs --yes.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it; else --all tells what it would do.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be removed, and remove nothing.")]
ResetEngine = Annotated[EngineName, typer.Option(help="Whose state it is.")]
