"""The command line: `fluvial reset`."""

from typing import Annotated

import typer

from ...planner.settings import Settings
from ..launch import EngineName
from ..pipeline_loader import load_pipeline
from ..preflight.state_compatibility import emptied
from ..state_reset import reset
from ..systems import DEFAULT_SYSTEM
from . import arguments as options
from .shared_options import Json, KafkaConf, StateDir, SystemUrl, Target, print_json


def reset_verb(
    target: Target,
    states: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="OPERATOR", help="Remove the state of this operator; repeat it for more."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--stream", metavar="STREAM", help="Read this topic from its start in the next run; repeat it for more."
        ),
    ] = None,
    keep_offsets: Annotated[
        bool,
        typer.Option("--keep-offsets", help="With --stream: go on at its offsets; it was made anew with its messages."),
    ] = False,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Remove checkpoints, stores, changelogs and streams between stages; needs --yes."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; else --all tells what it would do.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be removed, and remove nothing.")] = False,
    engine: Annotated[EngineName, typer.Option(help="Whose state it is.")] = "local",
    system: SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: KafkaConf = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Remove what a pipeline keeps, so that operators, or all of it, begin anew. Refused while the pipeline runs.

    With --state the next run goes on where the inputs were read to, and the operator begins empty; with --all it reads
    the inputs from their start. With --stream, on Kafka, the next run reads a topic that was deleted and made anew.
    Outputs and inputs stay.

    fluvial reset visits.py --state sessions
    """
    chosen = [name for name, given in (("--state", states), ("--stream", inputs), ("--all", everything)) if given]
    if len(chosen) != 1:
        expected = "--state OPERATOR, --stream STREAM, or --all"
        raise options.refused("reset", f"with {' and '.join(chosen)}" if chosen else "without any", expected)
    if keep_offsets and not inputs:
        raise options.refused("--keep-offsets", f"with {chosen[0]}", "--stream STREAM")
    shown = dry_run or (everything and not yes)
    pipeline = load_pipeline(target)
    done = reset(
        pipeline,
        states=states or None,
        inputs=inputs or None,
        keep_offsets=keep_offsets,
        engine=engine,
        system=options.system(system, kafka_conf),
        settings=Settings(state_dir=state_dir),
        dry_run=shown,
    )
    if as_json:
        print_json([{"kind": step.kind, "name": step.name, "removed": not shown} for step in done])
    else:
        for step in done:
            print(f"{'would remove' if shown else 'removed'} {step}")
        for note in emptied(pipeline, states or ()) if done else ():
            print(note)
        if not done:
            print("nothing is kept")
    if done and everything and not yes and not dry_run:
        raise options.refused("--all", "without --yes", "--yes, once you have read what would be removed")
