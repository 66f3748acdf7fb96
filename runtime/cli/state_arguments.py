"""The arguments and options of verbs on what is kept of a pipeline: `state`, `reset`, `checkpoint`, `dead-letters`."""

from pathlib import Path
from typing import Annotated

import typer

from ..launch import EngineName

# state, reset

ResetEngine = Annotated[EngineName, typer.Option(help="The engine whose state it is.")]
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="The id of a table, or of a join of tables.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key: text, a number, or JSON of a tuple.")]
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
    typer.Option(
        "--keep-offsets", help="With --stream: continue at its offsets; it was created again with the same messages."
    ),
]
ResetAll = Annotated[
    bool, typer.Option("--all", help="Remove checkpoints, stores, changelogs and streams between stages; needs --yes.")
]
_WHERE = "earliest, latest, an offset, or a time such as 2026-03-01T12:00:00Z, for the first record that is not older"
ResetTo = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        metavar="[STREAM[/PARTITION]=]WHERE",
        help=f"As --all, and read the inputs from there: {_WHERE}; repeatable, with streams. Engine local.",
    ),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes", "-y", help="Perform the reset; without --yes, --all and --to only list what they would remove."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List what would be removed, and remove nothing.")]

# checkpoint

SetInputs = Annotated[
    list[str],
    typer.Option(
        "--input",
        metavar="STREAM[/PARTITION]=WHERE",
        help=f"Read the input from there in the next run: {_WHERE}; repeat it for more.",
    ),
]
OffsetsFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file with the offsets, as JSON.")]
SetDryRun = Annotated[bool, typer.Option("--dry-run", help="List what would be set, and set nothing.")]

# dead-letters

HandledToo = Annotated[bool, typer.Option("--handled", help="Those that were replayed or dropped instead.")]
LetterPlace = Annotated[
    str, typer.Argument(metavar="PARTITION:OFFSET", help="The place in the stream of dead letters.")
]
AllLetters = Annotated[bool, typer.Option("--all", help="All that are not handled.")]
LetterPlaces = Annotated[
    list[str] | None,
    typer.Option(
        "--offset", metavar="PARTITION:OFFSET", help="The one at this place of the stream of dead letters; repeatable."
    ),
]
LetterOperator = Annotated[
    str | None, typer.Option("--operator", metavar="ID", help="All of this operator that are not handled.")
]
LettersDryRun = Annotated[bool, typer.Option("--dry-run", help="Say how many there are, and change nothing.")]
