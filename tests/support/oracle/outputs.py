"""What a pipeline writes, as engines and the oracle return it."""

from typing import NamedTuple

from fluvial.dsl.message import Headers


class OutputMessage(NamedTuple):
    """A message as an engine writes it; equal to the plain tuple of its fields."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers


Outputs = dict[str, list[OutputMessage]]
"""The messages that were written, by stream."""
