"""The command line: `fluvial produce` and `fluvial consume`."""

from ...dsl.text import visible
from ..files import STANDARD, ReadOptions, open_output
from ..systems import DEFAULT_SYSTEM
from . import arguments as words
from .commands import streams
from .option_values import MAX_LINE, named_system, names_of, size


def produce_verb(
    stream: words.Stream,
    file: words.File,
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    format: words.FormatOption = "lines",
    partitions: words.NewPartitions = None,
    key_field: words.KeyField = None,
    timestamp_field: words.TimestampField = None,
    delimiter: words.Delimiter = ",",
    columns: words.Columns = None,
    max_line: words.MaxLine = MAX_LINE,
    skip_malformed: words.SkipMalformed = False,
    quiet: words.Quiet = False,
) -> None:
    """Append a file to a stream, which is created if it does not exist. A file is written as a whole or not at all."""
    most = size("--max-line", max_line)
    reading = ReadOptions(format, key_field, timestamp_field, delimiter, skip_malformed, names_of(columns), most)
    loaded = streams.produce(stream, file, named_system(system, kafka_conf), reading, partitions)
    if not quiet:
        print(visible(streams.summary_of(loaded)))


def consume_verb(
    stream: words.Stream,
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    from_offset: words.FromOffset = None,
    limit: words.RecordLimit = None,
    until: words.ConsumeUntil = "end",
    values: words.ValuesAlone = False,
    format: words.ValueFormat = "auto",
) -> None:
    """Print the records of a stream as lines of JSON."""
    show: streams.Show = "values" if values else "records"
    with open_output(STANDARD) as out:
        streams.consume(
            stream,
            named_system(system, kafka_conf),
            out,
            from_offset=from_offset,
            limit=limit,
            until=until,
            show=show,
            shown_as=format,
        )
