"""The command line: `fluvial state get` and `fluvial state scan`."""

import typer

from ...dsl.text import visible
from ...planner.planner import plan
from ..local.observe import state_queries
from ..pipeline_loader import load_pipeline
from ..systems import DEFAULT_SYSTEM
from . import arguments as words
from . import state_arguments as state_words
from .option_values import named_system
from .printing import print_json
from .settings_file import settings_with

state = typer.Typer(
    name="state",
    help="Read the tables of a pipeline on this machine, as of the last commit.",
    no_args_is_help=True,
)


@state.command("get")
def get_verb(
    target: words.Target,
    operator: state_words.TableArgument,
    key: state_words.KeyArgument,
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    state_dir: words.StateDir = None,
    as_json: words.Json = False,
) -> None:
    """Print the row of a key as JSON. If there is no row, stderr says so and the exit code is 1; null is a row.

    fluvial state get orders.py customers c17
    """
    streams = named_system(system, kafka_conf)
    row = state_queries.get(plan(load_pipeline(target)), streams, settings_with(state_dir=state_dir), operator, key)
    if as_json:
        print_json(row)
    else:
        print(visible(state_queries.value_text(row.value)))


@state.command("scan")
def scan_verb(
    target: words.Target,
    operator: state_words.TableArgument,
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    state_dir: words.StateDir = None,
    limit: words.RowLimit = None,
    as_json: words.Json = False,
) -> None:
    """Print the rows of a table, a line each: the key and the row as JSON.

    fluvial state scan orders.py customers --limit 10
    """
    streams = named_system(system, kafka_conf)
    rows = state_queries.scan(plan(load_pipeline(target)), streams, settings_with(state_dir=state_dir), operator, limit)
    if as_json:
        print_json(list(rows))
        return
    for row in rows:
        print(visible(f"{state_queries.value_text(row.key)}\t{state_queries.value_text(row.value)}"))
