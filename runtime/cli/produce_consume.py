"""The command line: `fluvial produce` and `fluvial consume`."""

from typing import Annotated

import typer

from ...dsl.text import visible
from ..files import STANDARD, FormatName, ReadOptions, ShownAs, open_output
from ..launch import Until
from ..systems import DEFAULT_SYSTEM
from . import arguments as options
from .commands import streams
from .shared_options import KafkaConf, Stream, SystemUrl

Format = Annotated[FormatName, typer.Option("--format", help="What a line of the file is.")]
MaxLine = Annotated[str, typer.Option(metavar="SIZE", help="Most bytes of a line: 500kB, 64MB, 1GB.")]
MAX_LINE = "64MB"
Columns = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME,...", help="The names of CSV's columns, of a file whose first line has none."),
]
Delimiter = Annotated[str, typer.Option(help="What lies between the columns of CSV.")]
SkipMalformed = Annotated[bool, typer.Option("--skip-malformed", help="Count lines not of the format, leave them out.")]


def names_of(columns: str | None) -> tuple[str, ...] | None:
    """The names of columns that were written with commas between them."""
    return None if columns is None else tuple(name.strip() for name in columns.split(","))


def produce_verb(
    stream: Stream,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file, plain or gzipped, - for standard input.")],
    system: SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: KafkaConf = None,
    format: Format = "lines",
    partitions: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Partitions of the stream; 1 if it is new.")
    ] = None,
    key_field: Annotated[str | None, typer.Option(metavar="NAME", help="The field with a record's key.")] = None,
    timestamp_field: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The field with its time: ms since epoch, or ISO 8601. Default: now."),
    ] = None,
    delimiter: Delimiter = ",",
    columns: Columns = None,
    max_line: MaxLine = MAX_LINE,
    skip_malformed: SkipMalformed = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Append a file to a stream, which is made if need be; a file is written whole or not at all."""
    most = options.size("--max-line", max_line)
    reading = ReadOptions(format, key_field, timestamp_field, delimiter, skip_malformed, names_of(columns), most)
    loaded = streams.produce(stream, file, options.system(system, kafka_conf), reading, partitions)
    if not quiet:
        print(visible(streams.told(loaded)))


def consume_verb(
    stream: Stream,
    system: SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: KafkaConf = None,
    from_offset: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="The first offset of each partition. Default: the first there is."),
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=0, help="Most records to print.")] = None,
    until: Annotated[Until, typer.Option(help="Return at the end that there is now, or go on until stopped.")] = "end",
    values: Annotated[bool, typer.Option("--values/--records", help="Print values alone, or whole records.")] = False,
    format: Annotated[
        ShownAs, typer.Option("--format", help="How to show values; auto: as JSON where they are, else text or base64.")
    ] = "auto",
) -> None:
    """Print the records of a stream as lines of JSON."""
    show: streams.Show = "values" if values else "records"
    with open_output(STANDARD) as out:
        streams.consume(
            stream,
            options.system(system, kafka_conf),
            out,
            from_offset=from_offset,
            limit=limit,
            until=until,
            show=show,
            shown_as=format,
        )
