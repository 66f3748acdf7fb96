"""The app of the command line: its verbs, the exit code of each error, and `plan`, `draw`, `check` and `top`."""

import sys
import traceback
import webbrowser
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from ...dsl.errors import FluvialError
from ...dsl.text import visible
from ..data_frames.plan_columns import plan_columns
from ..files import STANDARD, cannot_write
from ..pipeline_loader import load_pipeline
from ..process.resource_limits import exhausted, remedy_for
from ..process.standard_streams import flush_stdout, forgiving_stderr
from . import arguments as words
from .checkpoint_verbs import checkpoint
from .commands import check as checking
from .commands import plan as planning
from .commands import top
from .drain_verb import drain_verb
from .letter_verbs import dead_letters
from .option_values import elasticity_of, group_by_of, named_system, pairs, parsed_count, parsed_duration
from .printing import console, print_json, print_last
from .reset_verb import reset_verb
from .run_verb import run_verb
from .scale_verb import scale_verb
from .settings_file import settings_with
from .state_verbs import state
from .stream_verbs import consume_verb, produce_verb
from .top_screen import screen
from .verbs import Verbs

app = typer.Typer(
    cls=Verbs,
    name="fluvial",
    help="Typed stream processing: one pipeline, run by its own engine or by Spark.",
    epilog="Exit codes: 0 done, 1 no such row, 2 usage, 3 pipeline or plan is wrong, 4 system is out of reach, "
    "5 a message failed, 6 no progress.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(state)
app.add_typer(checkpoint)
app.add_typer(dead_letters)
app.command("reset")(reset_verb)
app.command("scale")(scale_verb)
app.command("drain")(drain_verb)
app.command("produce")(produce_verb)
app.command("consume")(consume_verb)
app.command("run")(run_verb)

_WITH_VALUE = {"--autosize": "--autosize=on"}
"""Options whose value may be left out."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. Errors go to stderr, with a traceback under `--debug`."""
    command = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in command
    with forgiving_stderr():
        # Removed here, so that it may be given anywhere, and also holds for wrong options.
        code = _run([_WITH_VALUE.get(word, word) for word in command if word != "--debug"], debug=debug)
        problem = flush_stdout()
        if problem is None or code:
            return code
        if isinstance(problem, BrokenPipeError):
            return 1
        return _print_error(cannot_write(STANDARD, problem), debug=debug)


def _run(command: list[str], *, debug: bool) -> int:
    try:
        app(command, prog_name="fluvial")
    except FluvialError as error:
        return _print_error(error, debug=debug)
    # A mistake of Fluvial's, unless a resource of the machine is exhausted: only a traceback helps whoever reports it.
    except Exception as error:
        if isinstance(error, OSError) and remedy_for(error) is not None:
            return _print_error(exhausted(error, "this command, or its standard output"), debug=debug)
        _print_traceback(error)
        return 1
    except SystemExit as ended:
        if isinstance(ended.code, str):  # of a user's function: as Python ends a process
            print_last(visible(ended.code), sys.stderr)
            return 1
        return ended.code if isinstance(ended.code, int) else 0
    return 0


def _print_error(error: FluvialError, *, debug: bool) -> int:
    """Print an error, and return its exit code."""
    print_last(str(error), sys.stderr)
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
    _debug: Annotated[
        bool, typer.Option("--debug", help="Print the traceback of an error; may be given anywhere.")
    ] = False,
) -> None:
    """Options that are given before a verb."""


@app.command("plan")
def plan_verb(
    target: words.Target,
    system: words.MaybeSystem = None,
    kafka_conf: words.KafkaConf = None,
    partitions: words.StreamPartitions = None,
    elasticity: words.PlanElasticity = None,
    group_by: words.PlanGroupBy = None,
    assigned: words.PlanAssigned = None,
    columns: words.PlanColumns = False,
    as_json: words.Json = False,
) -> None:
    """Show the plan of a pipeline: stages, operators, streams, stores, and which engine can run it."""
    counts = pairs("--partitions", partitions or [], "STREAM=N", parsed_count)
    sizes = {"elasticity": elasticity_of(elasticity or []), "group_by": group_by_of(group_by or [])}
    settings = settings_with(assigned, **sizes)
    plan = planning.planned(load_pipeline(target), named_system(system, kafka_conf), counts, settings)
    if columns and as_json:
        print_json(list(plan_columns(plan)))
    elif columns:
        console().print(planning.columns_table(plan))
    elif as_json:
        print(plan.to_json())
    else:
        console().print(planning.tables(plan, system or "", settings))


@app.command("draw")
def draw_verb(
    target: words.Target,
    output: words.DrawingFile = STANDARD,
    format: words.DrawingFormat = None,
    view: words.DrawingView = "operators",
    system: words.MaybeSystem = None,
    kafka_conf: words.KafkaConf = None,
    elasticity: words.PlanElasticity = None,
    group_by: words.PlanGroupBy = None,
    assigned: words.PlanAssigned = None,
    show: words.OpenDrawing = False,
) -> None:
    """Draw a pipeline's plan, as text by default."""
    sizes = {"elasticity": elasticity_of(elasticity or []), "group_by": group_by_of(group_by or [])}
    settings = settings_with(assigned, **sizes)
    plan = planning.planned(load_pipeline(target), named_system(system, kafka_conf), {}, settings)
    planning.save(planning.drawing(plan, output, format, view), output)
    if show and output != STANDARD:
        webbrowser.open(Path(output).resolve().as_uri())


@app.command("check")
def check_verb(
    target: words.Target,
    engine: words.CheckedEngine = "local",
    system: words.MaybeSystem = None,
    kafka_conf: words.KafkaConf = None,
    state_dir: words.StateDir = None,
    elasticity: words.PlanElasticity = None,
    group_by: words.PlanGroupBy = None,
    assigned: words.PlanAssigned = None,
    as_json: words.Json = False,
) -> None:
    """Check what would keep a pipeline from running: plan, system, streams, stored state, types, functions.

    Exit code 3 if something would, 4 if the system is out of reach.
    """
    pipeline = load_pipeline(target)
    sizes = {"elasticity": elasticity_of(elasticity or []), "group_by": group_by_of(group_by or [])}
    settings = settings_with(assigned, state_dir=state_dir, **sizes)
    findings = list(checking.check(pipeline, engine, named_system(system, kafka_conf), settings))
    if as_json:
        print_json(findings)
    else:
        print(*(visible(str(finding)) for finding in findings), sep="\n")
    raise typer.Exit(max(finding.code for finding in findings))


@app.command("top")
def top_verb(
    runs: words.Runs = None, once: words.Once = False, every: words.Every = "1s", as_json: words.OnceJson = False
) -> None:
    """Show what a run does, live: its rates, lag, watermark, operators, commits, memory.

    The run serves its metrics: fluvial run visits.py --metrics-port 0
    """
    pause = parsed_duration("--every", every).total_seconds()
    if once or as_json or not sys.stdout.isatty():
        overview = top.once(runs or [])
        if as_json:
            print_json(overview)
        else:
            console().print(screen(overview))
    else:
        top.live(runs or [], console(), every=pause)
