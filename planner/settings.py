"""Settings: what a run may be told besides its pipeline."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct
from msgspec.structs import fields

from ..dsl.errors import UsageError
from ..dsl.validation import explain
from ..dsl.verb_calls import wrong_call

Guarantee = Literal["at_least_once", "exactly_once"]
"""What a crash may do to what readers see."""

Offset = Literal["earliest", "latest"]

EventLoop = Literal["asyncio", "uvloop"]
"""What runs asynchronous functions: the event loop of Python, or a faster one."""

Grouping = Literal["partition", "stream-partition"]
"""Which partitions a task of a stage reads: one of each stream, or one of one stream."""


if TYPE_CHECKING:
    _Named = Struct
else:

    class _Explaining(type(Struct)):
        """Raises UsageError for a setting that there is not."""

        def __call__(cls, *args, **options):  # noqa: ANN002, ANN003, ANN204 - type checkers do not see it
            if args or not options.keys() <= set(cls.__struct_fields__):
                raise UsageError(wrong_call(cls, args, options))
            return super().__call__(**options)

    class _Named(Struct, metaclass=_Explaining):
        """A Struct that is made with fields by name."""


class Settings(_Named, frozen=True, kw_only=True):
    """Settings of a plan and of a run; every field has a default that suits most. A wrong one raises `UsageError`.

    >>> Settings(commit_interval=timedelta(milliseconds=500)).guarantee
    'at_least_once'

    guarantee                what a crash may do: `at_least_once` repeats outputs, `exactly_once` shows each once
    commit_interval          time between two checkpoints of a task; None: 1 s where outputs are seen from the commit
                             on, 5 s where they are seen before: at_least_once on Kafka
    async_commit             refuse a pipeline whose commits wait for asynchronous calls in flight: one with state in
                             the stage of the calls, or with `exactly_once`. Commits of others never wait, be this set
                             or not: they have the messages before the oldest one in flight
    intermediate_partitions  partitions of intermediate streams; None: the most that an input or output has
    output_partitions        partitions of outputs that do not exist yet; None: as many as the stage has tasks
    elasticity               key buckets that each task of the local engine is split into, by key, so that more
                             containers than partitions have work: 1, 2, 4 ... 64, or such by id of a stage
    group_by                 which partitions a task of the local engine reads: those of one number, of all streams of
                             its stage ("partition"), or one of one stream ("stream-partition"), for stages without
                             joins, tables and state; for all such stages, or by id of a stage
    standbys                 on Kafka, how many other containers keep a warm copy of the state of each task, and take it
                             over once its container has sent no heartbeat for `heartbeat_timeout`; 0: none do
    heartbeat_timeout        after this long without a heartbeat a container is taken for dead, where there are standbys
    offset_default           where to read a stream that has no checkpoint: "earliest" or "latest"
    turn_messages            most messages of one input that a task of the local engine processes before other inputs of
                             the same priority have their turn; None: as many as take 50 ms, 5,000 at most
    state_dir                folder of stores and of Spark's checkpoints, for these also a URL such as hdfs://host/folder;
                             None: beside the log, on Kafka in .fluvial
    max_staged_bytes         a task commits early once it has staged this many bytes of output
    cached_entries           entries a task keeps decoded in memory; it commits early once it changed as many
    cached_bytes             bytes of these entries, as they are encoded, 128 each at least; decoded they need several
                             times as much. A task commits early once it changed about as many
    rocksdb_buffer_bytes     bytes of a write buffer of RocksDB, 64 KiB or more; each task with state has up to two
    rocksdb_cache_bytes      bytes of blocks that RocksDB keeps in memory, for all tasks of a container together
    group_offsets            on Kafka, note the offsets of each commit as those of a consumer group that is named as the
                             pipeline, for tools that watch lag; nothing else depends on them
    event_loop               what runs asynchronous functions in the local engine: "asyncio", or "uvloop", which the
                             extra `uvloop` brings and which takes less processor time for each call
    forget_at_end            drop the state of windows at the end of input, in runs until="end": a later run with more
                             input then begins these windows anew
    stall_timeout            give up with exit code 6 after this long without progress while there is input
    stop_timeout             how long calls in flight may take after a request to stop, before they are given up and the
                             run ends without them; beyond 3 s all of a stop comes later by as much
    spark_buckets            key buckets of Spark's stateful operators, at most 4096, frozen with the checkpoint: the
                             most tasks that they ever have; None: 64, 512 where Spark has more than 8 cores at the
                             first start
    spark_shuffle_partitions tasks of Spark's stateful operators, a divisor of the number of buckets; None: the least
                             one that gives work to all cores, or as many as the checkpoint has
    spark_batch_records      most messages of one Spark batch, of all partitions together; a bootstrap stream on Kafka
                             comes in addition
    spark_batch_duration     how long a Spark batch is to take: if batches clearly take longer or shorter, the query is
                             started again with a smaller or larger bound, up to spark_batch_records; None: no such aim
    spark_trigger_interval   time between two Spark batches of a run that goes on; 0: as fast as they come
    spark_patience           how long Python processes of Spark's may take to come up. Spark gives up after 10 s; the
                             query is begun again then, until this has passed
    spark_message_ids        on Kafka, under `at_least_once`, outputs of Spark have a header `fluvial.id`, which a
                             message that is written again has again
    """

    guarantee: Guarantee = "at_least_once"
    commit_interval: timedelta | None = None
    async_commit: bool = False
    intermediate_partitions: int | None = None
    output_partitions: int | None = None
    elasticity: int | Mapping[str, int] = 1
    group_by: Grouping | Mapping[str, Grouping] = "partition"
    standbys: int = 0
    heartbeat_timeout: timedelta = timedelta(seconds=10)
    offset_default: Offset = "earliest"
    turn_messages: int | None = None
    state_dir: str | None = None
    max_staged_bytes: int = 32 << 20
    cached_entries: int = 200_000
    cached_bytes: int = 128 << 20
    rocksdb_buffer_bytes: int = 32 << 20
    rocksdb_cache_bytes: int = 128 << 20
    group_offsets: bool = True
    event_loop: EventLoop = "asyncio"
    forget_at_end: bool = False
    stall_timeout: timedelta = timedelta(minutes=5)
    stop_timeout: timedelta = timedelta(seconds=3)
    spark_buckets: int | None = None
    spark_shuffle_partitions: int | None = None
    spark_batch_records: int = 2_000_000
    spark_batch_duration: timedelta | None = None
    spark_trigger_interval: timedelta = timedelta(0)
    spark_patience: timedelta = timedelta(seconds=40)
    spark_message_ids: bool = False

    def interval(self, *, seen_early: bool) -> timedelta:
        """The commit interval. The default is longer if outputs are visible before a commit (`seen_early`)."""
        if self.commit_interval is not None:
            return self.commit_interval
        return timedelta(seconds=5 if seen_early else 1)

    def elasticity_of(self, stage: str) -> int:
        """Into how many key buckets each task of a stage is split."""
        return self.elasticity if isinstance(self.elasticity, int) else self.elasticity.get(stage, 1)

    def grouping_of(self, stage: str) -> Grouping:
        """How the partitions of a stage are grouped into tasks, if it may be so."""
        return self.group_by if isinstance(self.group_by, str) else self.group_by.get(stage, "partition")

    def __post_init__(self) -> None:
        for name, kind in setting_types().items():
            if not _fits(getattr(self, name), kind):
                raise _refused(self, name, _WORDS_OF.get(name, _in_words(kind)))
        # After the types, so that a rule need not expect a text where a number belongs.
        for names, holds, expected in _RULES:
            for name in names:
                if not holds(getattr(self, name)):
                    raise _refused(self, name, expected)


@cache
def setting_types() -> Mapping[str, Any]:
    """The annotated types of the settings, resolved, by the names of the settings."""
    return get_type_hints(Settings)


def _refused(settings: Settings, name: str, expected: str) -> UsageError:
    """The error of a setting with a wrong value."""
    default = next(field.default for field in fields(Settings) if field.name == name)
    remedy = f"correct it, or leave it out: the default is {default!r}"
    return UsageError(explain(f"Settings: {name}={getattr(settings, name)!r}", expected, remedy))


def _fits(value: Any, type_: Any) -> bool:
    """Whether a value is of a field's type; True and False are no numbers."""
    if get_origin(type_) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(type_))
    if get_origin(type_) is Literal:
        return isinstance(value, str) and value in get_args(type_)
    if get_origin(type_) is Mapping:
        return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
    return isinstance(value, (int, float) if type_ is float else type_) and (
        type_ is bool or not isinstance(value, bool)
    )


def _in_words(type_: Any) -> str:
    """A field's type in the words of an error."""
    if get_origin(type_) in (Union, UnionType):
        return " or ".join(map(_in_words, get_args(type_)))
    if get_origin(type_) is Literal:
        return " or ".join(map(repr, get_args(type_)))
    return _WORDS.get(get_origin(type_) or type_, type_.__name__)


_WORDS: Mapping[Any, str] = {
    NoneType: "None",
    bool: "True or False",
    float: "a number",
    int: "a whole number, 1 or more",
    Mapping: "such a number by name",
    str: "a text",
    timedelta: "a timedelta, not negative",
}


_WORDS_OF: Mapping[str, str] = {
    "group_by": "'partition' or 'stream-partition', or one of them by id of a stage",
    "standbys": "a whole number, 0 or more",
    "heartbeat_timeout": "a timedelta of 1 s or more",
}
"""What is expected of settings of which their type does not say it."""


def _counts(value: Any) -> bool:
    return isinstance(value, int) and value >= 1


def _lasts(value: Any) -> bool:
    return isinstance(value, timedelta) and value >= timedelta(0)


SPLITS = (1, 2, 4, 8, 16, 32, 64)
"""The key buckets that a task may be split into: each number divides the next."""


def _splits(value: Any) -> bool:
    """Whether buckets can be split into so many and merged again: each divides the next."""
    return isinstance(value, int) and not isinstance(value, bool) and value in SPLITS


_RULES: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (
        (
            "max_staged_bytes",
            "cached_entries",
            "cached_bytes",
            "rocksdb_cache_bytes",
            "spark_batch_records",
        ),
        _counts,
        "a whole number, 1 or more",
    ),
    (
        ("rocksdb_buffer_bytes",),
        lambda value: _counts(value) and value >= 64 << 10,
        "a whole number of bytes, 65536 or more",
    ),
    (
        ("intermediate_partitions", "output_partitions", "turn_messages", "spark_shuffle_partitions"),
        lambda value: value is None or _counts(value),
        "a whole number, 1 or more, or None",
    ),
    (
        ("elasticity",),
        lambda value: all(map(_splits, value.values() if isinstance(value, Mapping) else [value])),
        "1, 2, 4, 8, 16, 32 or 64, or such a number by id of a stage",
    ),
    (
        ("group_by",),
        lambda value: isinstance(value, str) or {*value.values()} <= {*get_args(Grouping)},
        _WORDS_OF["group_by"],
    ),
    (
        ("spark_buckets",),
        lambda value: value is None or (_counts(value) and value <= 4096),
        "a whole number from 1 to 4096, or None",
    ),
    (
        ("stall_timeout", "stop_timeout", "spark_trigger_interval", "spark_patience"),
        _lasts,
        "a timedelta, not negative",
    ),
    (
        ("standbys",),
        lambda value: value >= 0,
        _WORDS_OF["standbys"],
    ),
    (
        ("heartbeat_timeout",),
        lambda value: value >= timedelta(seconds=1),
        _WORDS_OF["heartbeat_timeout"],
    ),
    (("async_commit", "group_offsets", "spark_message_ids"), lambda value: isinstance(value, bool), "True or False"),
    (
        ("commit_interval", "spark_batch_duration"),
        lambda value: value is None or _lasts(value),
        "a timedelta, not negative, or None",
    ),
)
