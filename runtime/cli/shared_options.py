"""Arguments and options that several verbs of the command line have."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ..files import unobeyed

URL = "Where the streams are: log:DIR, kafka://HOST:PORT, or memory:, which is gone at the end."
KAFKA_CONF = "Settings of the Kafka client, NAME=VALUE on each line: TLS, SASL and so on."

Target = Annotated[str, typer.Argument(metavar="PIPELINE", help="file.py, file.py:attribute or module:attribute.")]
Stream = Annotated[str, typer.Argument(metavar="STREAM", help="The stream's name.")]
SystemUrl = Annotated[str, typer.Option("--system", metavar="URL", help=URL)]
MaybeSystem = Annotated[str | None, typer.Option("--system", metavar="URL", help=URL)]
KafkaConf = Annotated[Path | None, typer.Option("--kafka-conf", metavar="FILE", help=KAFKA_CONF)]
StateDir = Annotated[
    str | None, typer.Option("--state-dir", metavar="DIR", help="Where the run keeps its state, if not beside the log.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def print_json(value: object) -> None:
    """Print a value as JSON that people can read."""
    print(unobeyed(msgspec.json.format(msgspec.json.encode(value), indent=2)).decode())
