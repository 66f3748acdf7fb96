"""The keys of the entries in a task's store: a prefix for each operator's state, and one for what the store says of
itself."""

META = b"\0"
"""Prefix of the entries that are not state. No operator has such an id."""
CHECKPOINT = b"checkpoint"
"""The checkpoint of the last commit that was written to the store."""
PENDING = b"pending"
"""The token that publishes the outputs of that commit."""
MOVED = b"moved"
"""A checkpoint of the log that counts state which was moved to this store."""
IDENTITY = b"log"
"""The identity of the log that the store was written with."""


def prefix_of(operator: str) -> bytes:
    """The prefix of all keys of an operator's state."""
    return operator.encode() + b"\0"
