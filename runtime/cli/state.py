"""The command line: `fluvial state get` and `fluvial state scan`."""

from typing import Annotated

import typer

from ...dsl.text import visible
from ...planner.planner import plan
from ...planner.settings import Settings
from ..local.observe import state_queries as looking
from ..pipeline_loader import load_pipeline
from ..systems import DEFAULT_SYSTEM
from . import arguments as options
from .shared_options import Json, KafkaConf, StateDir, SystemUrl, Target, print_json

state = typer.Typer(
    name="state",
    help="Read what the tables of a pipeline hold on this machine, as of the last commit.",
    no_args_is_help=True,
)

Operator = Annotated[str, typer.Argument(metavar="TABLE", help="The id of a table, or of a join of tables.")]


@state.command("get")
def get_verb(
    target: Target,
    operator: Operator,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key: text, a number, or JSON of a tuple.")],
    system: SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: KafkaConf = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Print the row of a key as JSON. Where there is none, stderr says so and the exit code is 1; null is a row.

    fluvial state get orders.py customers c17
    """
    where = options.system(system, kafka_conf)
    row = looking.get(plan(load_pipeline(target)), where, Settings(state_dir=state_dir), operator, key)
    if as_json:
        print_json(row)
    else:
        print(visible(looking.text_of(row.value)))


@state.command("scan")
def scan_verb(
    target: Target,
    operator: Operator,
    system: SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: KafkaConf = None,
    state_dir: StateDir = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="Most rows to print.")] = None,
    as_json: Json = False,
) -> None:
    """Print the rows of a table, a line each: the key and the row as JSON.

    fluvial state scan orders.py customers --limit 10
    """
    where = options.system(system, kafka_conf)
    found = looking.scan(plan(load_pipeline(target)), where, Settings(state_dir=state_dir), operator, limit)
    if as_json:
        print_json(list(found))
        return
    for row in found:
        print(visible(f"{looking.text_of(row.key)}\t{looking.text_of(row.value)}"))
