"""The command line: `fluvial run`, `plan`, `draw`, `check`, `produce`, `consume`, `state`, `reset` and `top`."""

import sys
import traceback
import webbrowser
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from ...dsl.errors import FluvialError
from ...dsl.text import visible
from ...planner.settings import Guarantee, Settings
from ..containers.start import MOST_RESTARTS
from ..files import STANDARD, FormatName, ReadOptions, cannot_write
from ..launch import EngineName, Until
from ..metrics.http import LOOPBACK, Address
from ..pipeline_loader import load_pipeline
from ..process.resource_limits import exhausted, remedy_for
from ..process.standard_streams import flush_stdout, forgiving_stderr
from ..systems import DEFAULT_SYSTEM
from . import arguments as options
from .commands import check as checking
from .commands import plan as planning
from .commands import streams, top
from .commands.run import RunOptions, run_pipeline
from .display import showing, summary
from .produce_consume import MAX_LINE, consume_verb, names_of, produce_verb
from .reset import reset_verb
from .shared_options import KAFKA_CONF, URL, Json, KafkaConf, MaybeSystem, StateDir, Target, print_json
from .state import state
from .top_screen import screen

app = typer.Typer(
    name="fluvial",
    help="Typed stream processing: one pipeline, run by its own engine or by Spark.",
    epilog="Exit codes: 0 done, 1 no such row, 2 usage, 3 pipeline or plan is wrong, 4 system is out of reach, "
    "5 a message failed, 6 no progress.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(state)
app.command("reset")(reset_verb)
app.command("produce")(produce_verb)
app.command("consume")(consume_verb)

_RUN, _INPUT, _OUTPUT, _METRICS = "The run", "Files to streams", "Streams to files", "Metrics"
_CONTAINERS = "Containers"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code. Errors are told on stderr, with a traceback under `--debug`."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    with forgiving_stderr():
        # Taken out here, so that it may stand anywhere and holds for errors in the words themselves.
        code = _run([word for word in words if word != "--debug"], debug=debug)
        problem = flush_stdout()
        if problem is None or code:
            return code
        if isinstance(problem, BrokenPipeError):
            return 1
        return _told(cannot_write(STANDARD, problem), debug=debug)


def _run(words: list[str], *, debug: bool) -> int:
    try:
        app(words, prog_name="fluvial")
    except FluvialError as error:
        return _told(error, debug=debug)
    except Exception as error:
        if isinstance(error, OSError) and remedy_for(error) is not None:
            return _told(exhausted(error, "this command, or its standard output"), debug=debug)
        _print_traceback(error)
        return 1
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def _told(error: FluvialError, *, debug: bool) -> int:
    print(error, file=sys.stderr)
    if debug:
        _print_traceback(error)
    return error.exit_code


def _print_traceback(error: BaseException) -> None:
    print(visible("".join(traceback.format_exception(error))), end="", file=sys.stderr)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"fluvial {version('fluvial')}")
        raise typer.Exit


@app.callback()
def options_of_all(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    _debug: Annotated[bool, typer.Option("--debug", help="Print the traceback of an error; stands anywhere.")] = False,
) -> None:
    """Options that stand before a verb."""


@app.command("run")
def run_verb(
    target: Target,
    engine: Annotated[EngineName, typer.Option(help="What runs it.", rich_help_panel=_RUN)] = "local",
    system: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help=f"{URL} Default: {DEFAULT_SYSTEM}; with --input a temporary log.", rich_help_panel=_RUN
        ),
    ] = None,
    kafka_conf: Annotated[
        Path | None, typer.Option("--kafka-conf", metavar="FILE", help=KAFKA_CONF, rich_help_panel=_RUN)
    ] = None,
    until: Annotated[
        Until | None,
        typer.Option(help="When to return: at the end that inputs have now, or when stopped.", rich_help_panel=_RUN),
    ] = None,
    guarantee: Annotated[
        Guarantee, typer.Option(help="Whether a crash may repeat outputs.", rich_help_panel=_RUN)
    ] = "at_least_once",
    commit_interval: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Time between checkpoints: 500ms, 2s, 1min. Default: 1s, and 5s for at_least_once on Kafka.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    intermediate_partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Partitions of intermediate streams.", rich_help_panel=_RUN)
    ] = None,
    state_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Keep state there; by default beside the log, on Kafka in .fluvial. Always the same.",
            rich_help_panel=_RUN,
        ),
    ] = None,
    containers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Processes that share the work on this machine.", rich_help_panel=_CONTAINERS
        ),
    ] = None,
    container_id: Annotated[
        int | None,
        typer.Option(
            metavar="K",
            min=0,
            help="Be this container of --containers alone, counted from 0; something else starts the others.",
            rich_help_panel=_CONTAINERS,
        ),
    ] = None,
    max_restarts: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            help="How often in ten minutes a container that dies is started again.",
            rich_help_panel=_CONTAINERS,
        ),
    ] = MOST_RESTARTS,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="STREAM=FILE",
            help="Load a file into a stream first, - for standard input; repeat it for more.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    input_format: Annotated[
        FormatName | None,
        typer.Option(
            help="What a line of the files is. Default: json where --key-field is given or a Serde takes JSON, such as "
            "Avro's; else lines, which the pipeline itself decodes.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    key_field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[STREAM=]NAME",
            help="The field with a record's key, encoded as the stream's key= says; repeat it for more streams.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    delimiter: Annotated[str, typer.Option(help="What lies between columns of CSV.", rich_help_panel=_INPUT)] = ",",
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="The names of CSV's columns, of files whose first line has none.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    max_line: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Most bytes of a line: 500kB, 64MB, 1GB.", rich_help_panel=_INPUT),
    ] = MAX_LINE,
    skip_malformed: Annotated[
        bool, typer.Option("--skip-malformed", help="Leave out lines not of the format.", rich_help_panel=_INPUT)
    ] = False,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Partitions of the streams made for --input.", rich_help_panel=_INPUT),
    ] = None,
    append: Annotated[
        bool, typer.Option("--append", help="Load into streams that hold records.", rich_help_panel=_INPUT)
    ] = False,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            metavar="STREAM=FILE",
            help="Afterwards write the values that came to a stream as lines of JSON, - for standard output.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write str and bytes values as they are.", rich_help_panel=_OUTPUT)
    ] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark's master, such as local[2].", rich_help_panel="Spark")
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of Spark; repeat it for more.", rich_help_panel="Spark"),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="Serve metrics over HTTP; 0: at any free port.",
            rich_help_panel=_METRICS,
        ),
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(metavar="HOST", help="Where to serve them.", rich_help_panel=_METRICS)
    ] = LOOPBACK,
    metrics_alias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Another name that requests may use for that host, such as a proxy's; repeat it for more.",
            rich_help_panel=_METRICS,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show neither progress nor report.")] = False,
) -> None:
    """Run a pipeline, until it is stopped or until the end that its inputs have now.

    Streams can be filled from files first, and written to files afterwards:

    fluvial run visits.py --input clicks=clicks.jsonl --output visits=-
    """
    pipeline = load_pipeline(target)
    wanted = RunOptions(
        engine=engine,
        system=options.system(system, kafka_conf),
        inputs=options.pairs("--input", inputs or [], "STREAM=FILE", str),
        outputs=options.pairs("--output", outputs or [], "STREAM=FILE", str),
        reading=ReadOptions(
            input_format,
            delimiter=delimiter,
            skip_malformed=skip_malformed,
            columns=names_of(columns),
            max_line=options.size("--max-line", max_line),
        ),
        key_fields=options.by_stream("--key-field", key_field or []),
        partitions=partitions,
        append=append,
        raw=raw,
        until=until,
        settings=Settings(
            guarantee=guarantee,
            commit_interval=None if commit_interval is None else options.duration("--commit-interval", commit_interval),
            intermediate_partitions=intermediate_partitions,
            state_dir=state_dir,
        ),
        target=target,
        metrics=None if metrics_port is None else Address(metrics_host, metrics_port, tuple(metrics_alias or ())),
        containers=containers,
        container_id=container_id,
        most_restarts=max_restarts,
        master=master,
        spark_conf=options.pairs("--spark-conf", spark_conf or [], "NAME=VALUE", str),
    )
    to_stdout = STANDARD in wanted.outputs.values()
    if as_json and to_stdout:
        raise options.refused(
            "--json", "and an --output to standard output", "one of them", "write the output to a file"
        )
    with showing(quiet=quiet) as progress:
        report, loaded = run_pipeline(pipeline, wanted, progress, _say)
    if as_json:
        print_json(report)
    elif not quiet:
        notes = [visible(streams.told(file)) for file in loaded if file.malformed]
        labels = {operator.id: operator.label for operator in pipeline.operators}
        print(*notes, summary(report, labels), sep="\n", file=sys.stderr if to_stdout else sys.stdout)


@app.command("plan")
def plan_verb(
    target: Target,
    system: MaybeSystem = None,
    kafka_conf: KafkaConf = None,
    partitions: Annotated[
        list[str] | None, typer.Option(metavar="STREAM=N", help="The partition count of a stream; repeat it for more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what a pipeline means: stages, operators, streams, stores, and which engine can run it."""
    counts = options.pairs("--partitions", partitions or [], "STREAM=N", options.count)
    made = planning.planned(load_pipeline(target), options.system(system, kafka_conf), counts)
    if as_json:
        print(made.to_json())
    else:
        _console().print(planning.tables(made, system or ""))


@app.command("draw")
def draw_verb(
    target: Target,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Where to: .svg .html .mmd .dot .txt .json, - for stdout."),
    ] = STANDARD,
    format: Annotated[
        str | None,
        typer.Option("--format", help="svg, html, mmd, dot, txt or json; by default as the file's name ends."),
    ] = None,
    view: Annotated[
        Literal["operators", "stages"], typer.Option(help="All operators, or stages and streams.")
    ] = "operators",
    system: MaybeSystem = None,
    kafka_conf: KafkaConf = None,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open the file in the browser.")] = False,
) -> None:
    """Draw a pipeline's plan, as text unless told."""
    made = planning.planned(load_pipeline(target), options.system(system, kafka_conf), {})
    planning.save(planning.drawing(made, output, format, view), output)
    if show and output != STANDARD:
        webbrowser.open(Path(output).resolve().as_uri())


@app.command("check")
def check_verb(
    target: Target,
    engine: Annotated[EngineName, typer.Option(help="What is to run it.")] = "local",
    system: MaybeSystem = None,
    kafka_conf: KafkaConf = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Find out what would keep a pipeline from running: plan, system, streams, kept state, types, functions.

    Exit code 3 if something would, 4 if the system is out of reach.
    """
    found = list(
        checking.check(load_pipeline(target), engine, options.system(system, kafka_conf), Settings(state_dir=state_dir))
    )
    if as_json:
        print_json(found)
    else:
        print(*(visible(str(finding)) for finding in found), sep="\n")
    raise typer.Exit(max(finding.code for finding in found))


@app.command("top")
def top_verb(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN]...", help="The pipeline's name, or PORT or HOST:PORT of each container."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Print it once, with rates since the start.")] = False,
    every: Annotated[str, typer.Option(metavar="DURATION", help="Time between two looks.")] = "1s",
    as_json: Annotated[bool, typer.Option("--json", help="Print it once, as JSON.")] = False,
) -> None:
    """Show what a run does, live: its rates, lag, watermark, operators, commits, memory.

    The run serves its metrics: fluvial run visits.py --metrics-port 0
    """
    pause = options.duration("--every", every).total_seconds()
    if once or as_json or not sys.stdout.isatty():
        seen = top.once(runs or [])
        if as_json:
            print_json(seen)
        else:
            _console().print(screen(seen))
    else:
        top.live(runs or [], _console(), every=pause)


def _console() -> Console:
    """Standard output; wide where it is no terminal, so that no row is broken there."""
    return Console(width=None if sys.stdout.isatty() else 200)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
