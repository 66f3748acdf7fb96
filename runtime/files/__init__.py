"""Reads files as records and writes values as lines, for the command line.

Comes in: a path, or `-` for standard input, of lines, JSON lines, CSV or an access log, plain or gzipped. Goes out:
batches of records with keys and timestamps, and lines of JSON. Read `records` first, then `formats`."""

from .access_log import Request, parse_access_log
from .formats import FORMATS, FormatName, MalformedLine
from .lines import MAX_LINE, STANDARD, OutputProblem, cannot_write, open_output
from .output import Render, ShownAs, json_of_bytes, json_of_type, shown, unobeyed
from .records import Encoding, ReadOptions, RecordFile, open_records

__all__ = [
    "FORMATS",
    "MAX_LINE",
    "STANDARD",
    "Encoding",
    "FormatName",
    "MalformedLine",
    "OutputProblem",
    "ReadOptions",
    "RecordFile",
    "Render",
    "Request",
    "ShownAs",
    "cannot_write",
    "json_of_bytes",
    "json_of_type",
    "open_output",
    "open_records",
    "parse_access_log",
    "shown",
    "unobeyed",
]
