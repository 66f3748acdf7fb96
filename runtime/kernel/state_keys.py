"""The key of the message that an entry of state belongs to, as the entry tells it.

Where tasks or buckets are split by key, each part has the entries of its keys.
"""

from collections.abc import Mapping

from ...dsl import operators as ops
from ...planner.state_schema import STATE, StateSchema
from .chunked_values import key_of_chunk
from .operators.state_entries import key_and_name
from .windows.triggered import TIMERS, key_of_timer

_KINDS = [kind for kind in vars(ops).values() if isinstance(kind, type) and issubclass(kind, ops.Operator)]
_ENTRIES: Mapping[str, str] = {kind.kind: kind.state_entries for kind in _KINDS if hasattr(kind, "kind")}
"""By what the entries of each kind of operator are. Kinds of one name have state of one form."""
_CHUNKS = b"\1"
"""What the prefix of chunks has behind the operator, in front of that of their values."""
_KEYED = b"k"
"""The mark of state by key alone."""
_TIME_BYTES = 9
"""The bytes of a time in a prefix, with the one behind it."""
_LAST_END = b"e\0"
"""What follows a processor in the prefix of the last run to the end."""
_FAR_TIMERS = (b"x", b"a", b"b")
"""The marks of timers in slots: when entries expire, and the timers of a processor by both times."""


def key_of_entry(schema: StateSchema, rest: bytes, entry: bytes) -> bytes | None:
    """The key of the message to which an entry of state belongs, given what follows the operator in the prefix; None
    for an entry of a form that is not known."""
    if rest.startswith(_CHUNKS):
        return key_of_entry(schema, rest[len(_CHUNKS) :], key_of_chunk(entry))
    entries = _ENTRIES.get(schema.kind, "keyed")
    if entries == "named":
        return key_and_name(entry)[0]
    if schema.kind == ops.WindowBy.kind and rest.startswith(TIMERS):
        return key_of_timer(entry)
    if entries == "keyed":
        return entry
    mark, state = rest[:1], rest[1:].partition(b"\0")[0].decode()
    if mark in (b"s", b"x"):  # values, and when they expire
        form = schema.facts.get(f"{STATE}{state}")
        if form is None:
            return None
        return key_and_name(entry)[0] if form.startswith("map") else entry
    # The heads of a map's names have the key alone; all else is by a name or a number, too: timers, and pieces.
    return entry if mark == b"n" and state else key_and_name(entry)[0]


def is_of_all_keys(schema: StateSchema, rest: bytes) -> bool:
    """Whether entries under a prefix, of which `rest` follows the operator, are of no key but of the whole task: the
    last run to the end, of a processor. Each part of the state has them."""
    return _ENTRIES.get(schema.kind) == "declared" and rest.startswith(_LAST_END)


def key_of_record(schema: StateSchema, data: bytes) -> bytes | None:
    """The key of the message to which a record of a changelog belongs, given the key of the record: what follows the
    operator in the prefix of an entry, and the entry. None for a form that is not known."""
    size = _prefix_size(schema, data)
    return None if size > len(data) else key_of_entry(schema, data[:size], data[size:])


def _prefix_size(schema: StateSchema, data: bytes) -> int:
    """How long the part of the prefix is in these bytes."""
    if data.startswith(_CHUNKS):
        return len(_CHUNKS) + _prefix_size(schema, data[len(_CHUNKS) :])
    if _ENTRIES.get(schema.kind, "keyed") == "keyed":
        return 1 if data.startswith(_KEYED) else 1 + _TIME_BYTES
    named = data.find(b"\0", 1) + 1 or len(data) + 1
    # Timers in slots have the size of the slot and the time behind the name.
    return named + 1 + _TIME_BYTES if data[:1] in _FAR_TIMERS else named
