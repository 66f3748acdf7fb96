"""The command line: `fluvial dead-letters list`, `show`, `replay` and `drop`."""

from collections.abc import Callable

import typer
from rich.table import Table
from rich.text import Text

from ...dsl.text import plural, visible
from ..dead_letters import DeadLetter
from ..files import shown
from ..pipeline_letters import (
    HandledLetters,
    drop_dead_letters,
    list_dead_letters,
    replay_dead_letters,
    show_dead_letter,
)
from ..pipeline_loader import load_pipeline
from ..systems import DEFAULT_SYSTEM
from . import arguments as words
from . import state_arguments as state_words
from .display import moment
from .option_values import named_system, wrong_option
from .printing import console, print_json

dead_letters = typer.Typer(
    name="dead-letters",
    help="Show the dead letters of a pipeline, and send their messages through it again. On both engines.",
    no_args_is_help=True,
)


@dead_letters.command("list")
def list_verb(
    target: words.Target,
    handled: state_words.HandledToo = False,
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    as_json: words.Json = False,
) -> None:
    """Count the dead letters that are not handled, by operator, error and input, with the event times of the first and
    the last.

    fluvial dead-letters list visits.py
    """
    groups = list_dead_letters(load_pipeline(target), system=named_system(system, kafka_conf), handled=handled)
    if as_json:
        print_json(groups)
        return
    if not groups:
        print("no dead letters")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("operator", "error", "input", "letters", "first", "last"):
        table.add_column(title, justify="right" if title == "letters" else "left", no_wrap=True)
    for one in groups:
        times = (moment(one.first), moment(one.last))
        # Not as markup of Rich: headers of a letter may hold anything.
        names = (Text(visible(name)) for name in (one.operator, one.error, one.stream or "-"))
        table.add_row(*names, f"{one.letters:,}", *times)
    console().print(table)


@dead_letters.command("show")
def show_verb(
    target: words.Target,
    letter: state_words.LetterPlace,
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    as_json: words.Json = False,
) -> None:
    """Show one dead letter: its message, as text or base64, where it came from, and why it failed.

    fluvial dead-letters show visits.py 0:12
    """
    shown_letter, handling = show_dead_letter(load_pipeline(target), letter, system=named_system(system, kafka_conf))
    facts = _facts(shown_letter, handling)
    if as_json:
        print_json(facts)
        return
    for name, fact in facts.items():
        print(visible(f"{name}: {fact}"))


@dead_letters.command("replay")
def replay_verb(
    target: words.Target,
    everything: state_words.AllLetters = False,
    letters: state_words.LetterPlaces = None,
    operator: state_words.LetterOperator = None,
    dry_run: state_words.LettersDryRun = False,
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    as_json: words.Json = False,
) -> None:
    """Send messages back to the streams that they were read from, each once; the pipeline may run.

    fluvial dead-letters replay visits.py --operator visits
    """
    _handle(
        replay_dead_letters,
        "replayed",
        target,
        everything,
        letters,
        operator,
        system=named_system(system, kafka_conf),
        dry_run=dry_run,
        as_json=as_json,
    )


@dead_letters.command("drop")
def drop_verb(
    target: words.Target,
    everything: state_words.AllLetters = False,
    letters: state_words.LetterPlaces = None,
    operator: state_words.LetterOperator = None,
    dry_run: state_words.LettersDryRun = False,
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    as_json: words.Json = False,
) -> None:
    """Mark dead letters as handled: they are not listed and not replayed any more. They stay in their stream.

    fluvial dead-letters drop visits.py --offset 0:12
    """
    _handle(
        drop_dead_letters,
        "dropped",
        target,
        everything,
        letters,
        operator,
        system=named_system(system, kafka_conf),
        dry_run=dry_run,
        as_json=as_json,
    )


def _handle(
    function: Callable[..., HandledLetters],
    done: str,
    target: str,
    everything: bool,
    letters: list[str] | None,
    operator: str | None,
    *,
    system: object,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Let a function handle the letters that are meant, and print what it has done."""
    options = {"--all": everything, "--offset": letters, "--operator": operator}
    chosen = [option for option, value in options.items() if value]
    if len(chosen) != 1:
        given = f"with {' and '.join(chosen)}" if chosen else "was not told which"
        remedy = f"{'leave out all but one' if chosen else 'name some'}; fluvial dead-letters list shows what there is"
        raise wrong_option("dead-letters", given, "--all, --offset PARTITION:OFFSET, or --operator ID", remedy)
    pipeline = load_pipeline(target)
    outcome = function(pipeline, letters=letters or None, operator=operator, system=system, dry_run=dry_run)
    if as_json:
        print_json({"handled": outcome.handled, "left": outcome.left, "done": not dry_run})
        return
    verb = {"replayed": "would replay", "dropped": "would drop"}[done] if dry_run else done
    for stream, count in outcome.handled.items():
        print(visible(f"{verb} {plural(count, 'dead letter')} of {stream or 'results without a message'}"))
    for reason, count in outcome.left.items():
        print(visible(f"left {plural(count, 'dead letter')}: {reason}"))
    if not outcome.handled and not outcome.left:
        print("no dead letters")


def _facts(letter: DeadLetter, handling: str | None) -> dict[str, object]:
    """What is shown of a dead letter, by name."""
    key, value, timestamp, headers = letter.message
    origin = None if letter.origin is None else dict(zip(("stream", "partition", "offset"), letter.origin, strict=True))
    return {
        "letter": letter.place,
        "error": letter.error,
        "operator": letter.operator,
        "written at": letter.written_at,
        "origin": origin,
        "key": shown(key),
        "value": shown(value),
        "timestamp": timestamp,
        "headers": [[name, shown(data)] for name, data in headers],
        "cut": letter.cut,
        "handled": handling,
    }
