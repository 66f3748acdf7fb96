"""`fluvial reset`: its arguments, and what they reset."""

from collections.abc import Iterable, Mapping, Sequence

from ..pipeline_loader import load_pipeline
from ..pipeline_reset import reset
from ..preflight.state_compatibility import emptied
from ..reset_step import ResetStep
from ..systems import DEFAULT_SYSTEM
from . import arguments as words
from . import state_arguments as state_words
from .option_values import group_by_of, named_system, start_points_of, wrong_option
from .printing import print_json
from .settings_file import settings_with


def reset_verb(
    target: words.Target,
    states: state_words.ResetStates = None,
    inputs: state_words.ResetInputs = None,
    keep_offsets: state_words.KeepOffsets = False,
    everything: state_words.ResetAll = False,
    to: state_words.ResetTo = None,
    yes: state_words.Yes = False,
    dry_run: state_words.DryRun = False,
    engine: state_words.ResetEngine = "local",
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    state_dir: words.StateDir = None,
    group_by: words.PlanGroupBy = None,
    as_json: words.Json = False,
) -> None:
    """Remove stored state of a pipeline, so that operators, or the whole pipeline, start over. Refused while it runs.

    With --state the operator starts empty, and the next run continues to read where the last one ended. With --all the
    next run reads the inputs from their start, with --to from there. With --stream, on Kafka, it reads a topic that was
    deleted and created again. Outputs and inputs stay.

    fluvial reset visits.py --state visits
    """
    everything = everything or bool(to)
    _refuse_unclear({"--state": states, "--stream": inputs, "--all": everything}, keep_offsets=keep_offsets)
    starts = start_points_of("--to", to or [])
    pipeline = load_pipeline(target)
    unconfirmed = everything and not yes
    steps = reset(
        pipeline,
        states=states or None,
        inputs=inputs or None,
        keep_offsets=keep_offsets,
        to=starts,
        engine=engine,
        system=named_system(system, kafka_conf),
        settings=settings_with(state_dir=state_dir, group_by=group_by_of(group_by or [])),
        dry_run=dry_run or unconfirmed,
    )
    notes = emptied(pipeline, states or ()) if steps else ()
    _print_steps(steps, notes, removed=not (dry_run or unconfirmed), as_json=as_json)
    if steps and unconfirmed and not dry_run:
        option = "--to" if to else "--all"
        expected, remedy = "--yes, once you have read what would be removed", f"write {option} and --yes to remove it"
        raise wrong_option(option, "without --yes", expected, remedy)


def _refuse_unclear(choices: Mapping[str, object], *, keep_offsets: bool) -> None:
    """Refuse unless exactly one choice is made, and --keep-offsets without --stream."""
    chosen = [option for option, value in choices.items() if value]
    if len(chosen) != 1:
        expected = "--state OPERATOR, --stream STREAM, or --all"
        remedy = f"{'leave out all but one' if chosen else 'name one'}; fluvial reset -h says what each removes"
        raise wrong_option(
            "reset", f"with {' and '.join(chosen)}" if chosen else "was not told what to reset", expected, remedy
        )
    if keep_offsets and not choices["--stream"]:
        raise wrong_option("--keep-offsets", f"with {chosen[0]}", "--stream STREAM", "leave out --keep-offsets")


TO_DO = {"removed": "remove", "set": "set"}


def _done(step: ResetStep) -> str:
    """What was done by a step."""
    return "set" if step.kind == "start" else "removed"


def _print_steps(steps: Sequence[ResetStep], notes: Iterable[str], *, removed: bool, as_json: bool) -> None:
    if as_json:
        print_json([{"kind": step.kind, "name": step.name, _done(step): removed} for step in steps])
        return
    for step in steps:
        done = _done(step)
        print(f"{done if removed else f'would {TO_DO[done]}'} {step}")
    for note in notes:
        print(note)
    if not steps:
        print("nothing is stored")
