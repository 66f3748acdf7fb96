"""What a run tells: how far it is, and what it did."""

from collections.abc import Callable

from msgspec import Struct, field


class Progress(Struct, frozen=True, kw_only=True):
    """How far a run is at one moment.

    `phase` is a word for what it is doing; `read` and `written` count messages since the start; `lag` is how many
    messages are still to be read, None where nobody knows; `watermark` is the least of all tasks in ms since epoch,
    None before there is one; `in_flight` counts asynchronous calls under way, and on Spark the messages of the batch
    under way.
    """

    phase: str
    seconds: float
    read: int
    written: int
    lag: int | None = None
    watermark: int | None = None
    in_flight: int = 0


OnProgress = Callable[[Progress], None]


class Report(Struct, frozen=True, kw_only=True):
    """What a run did. Counts are of messages, since the run started; `late` are those dropped by a window, by operator;
    `failed` those skipped or set aside as dead letters, by operator."""

    pipeline: str
    engine: str
    seconds: float
    read: dict[str, int] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    checkpoints: int = 0
