"""Cases: a random pipeline with inputs for it, and the judging of whoever runs it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import assume
from hypothesis import strategies as st

from engines.comparing import assert_same
from fluvial.dsl import PlanError
from fluvial.dsl.message import Headers, Record
from fluvial.dsl.serde import encode_key
from fluvial.planner import Settings, plan
from generators.building import build
from generators.case_events import Event
from generators.described_steps import Source, WindowStep
from generators.described_tables import Compact
from generators.descriptions import Description, Mode, OnError
from generators.draft import Extra, Windows
from generators.pipelines import pipelines
from oracle.interpreter import Inputs, Outputs, run_oracle


@dataclass(frozen=True, repr=False)
class Case(Compact):
    """A pipeline, records for its sources by partition, and the partition counts of its sources.

    In mode "late" all streams are to have one partition, intermediate ones too, as the planner gives them.
    """

    description: Description
    inputs: Inputs
    partitions: Mapping[str, int]

    @property
    def first(self) -> frozenset[str]:
        """The streams that are to be there before the others: those of tables."""
        return frozenset(table.stream for table in self.description.rows)

    def __repr__(self) -> str:
        lines = [f"    {stream!r}: [{self._shown(stream)}]," for stream in self.inputs]
        parts = ["Case(", f"  {self.description!r},", "  {", *lines, "  },", f"  {dict(self.partitions)!r},", ")"]
        return "\n".join(parts)

    def _shown(self, stream: str) -> str:
        shown = [",\n      ".join(map(repr, records)) for records in self.inputs[stream]]
        return ", ".join(f"[\n      {records}\n    ]" if records else "[]" for records in shown)


Target = Callable[[Case], Outputs]
"""Runs a case to the end of its inputs; gives what was written, by stream, dead letters included."""


def expected(case: Case, tasks: int | None = None, elasticity: int = 1) -> Outputs:
    """What the oracle makes of a case. What is broadcast reaches so many tasks; if nothing is said, those that the
    plan has."""
    pipeline = build(case.description)

    def planned(id: str) -> int:
        (stream,) = made.operator(id).writes
        (split,) = {stage.elasticity for stage in made.stages if stream in stage.inputs}
        return made.stream(stream).partitions * split

    made = plan(pipeline, partitions=case.partitions, settings=Settings(elasticity=elasticity))
    reached = planned if tasks is None else lambda _: tasks
    return run_oracle(pipeline, case.inputs, partitions=case.partitions, tasks=reached)


def expected_at_any_elasticity(case: Case) -> Outputs:
    """What the oracle makes of a case. One is given up of which the outputs depend on how many tasks there are: what is
    broadcast is passed on by each of them."""
    outputs = expected(case)
    assume(outputs == expected(case, elasticity=2))
    return outputs


def judge(case: Case, target: Target) -> None:
    """Fail, with a readable difference, unless the target writes what the oracle does."""
    assert_same(target(case), expected(case))


@st.composite
def cases(
    draw: st.DrawFn,
    mode: Mode | None = None,
    max_steps: int = 8,
    max_borders: int = 2,
    on_error: OnError | None = None,
    max_records: int = 30,
    negative: bool = True,
    windows: Windows = "plain",
    extras: Collection[Extra] = (),
) -> Case:
    """Pipelines with inputs. `negative`: timestamps may lie before 1970, which not every system can store.

    `windows` and `extras` are as in `pipelines`: with triggers, each source has one partition.
    """
    description = draw(pipelines(mode, max_steps, max_borders, on_error, windows, extras))
    return draw(cases_of(description, max_records, negative))


@st.composite
def cases_of(draw: st.DrawFn, description: Description, max_records: int = 30, negative: bool = True) -> Case:
    """One pipeline with inputs."""
    partitions = draw(partitions_for(description))
    return Case(description, draw(inputs_for(description, partitions, max_records, negative)), partitions)


@st.composite
def partitions_for(draw: st.DrawFn, description: Description) -> dict[str, int]:
    """Partition counts for the sources: equal ones where messages of two sources meet by key."""
    streams = [*(source.stream for source in description.sources), *(table.stream for table in description.rows)]
    if description.mode == "late":
        return dict.fromkeys(streams, 1)
    different = {stream: number for number, stream in enumerate(streams, 1)}
    try:
        plan(build(description), partitions=different)
    except PlanError:
        return dict.fromkeys(streams, draw(st.integers(1, 4)))
    return {stream: draw(st.integers(1, 4)) for stream in streams}


Pieces = list[tuple[tuple[str, int], list[Record]]]
"""Records in the order they come: a stream and partition, and what comes of it at once."""


@st.composite
def pieces_of(draw: st.DrawFn, inputs: Inputs, first: Collection[str] = ()) -> Pieces:
    """The inputs in pieces of any size, each partition's in its order, any order between partitions; all of `first`
    comes before the others."""
    rest = {(name, number): list(part) for name, parts in inputs.items() for number, part in enumerate(parts)}
    found: Pieces = []
    while rest := {partition: records for partition, records in rest.items() if records}:
        leading = [partition for partition in rest if partition[0] in first]
        partition = draw(st.sampled_from(sorted(leading or rest)), label="partition")
        count = draw(st.integers(1, len(rest[partition])), label="records")
        found.append((partition, rest[partition][:count]))
        rest[partition] = rest[partition][count:]
    return found


@st.composite
def inputs_for(
    draw: st.DrawFn,
    description: Description,
    partitions: Mapping[str, int],
    max_records: int = 30,
    negative: bool = True,
) -> dict[str, list[list[Record]]]:
    """Records for every table and every source, tables first; keyed ones lie where Kafka's partitioner puts their
    keys."""
    starts = (1_000, 1_700_000_000_000, 2**45)
    start = draw(st.sampled_from((0, *starts, -100, -(2**40)) if negative else starts))
    steps = description.steps
    windows = any(isinstance(step, WindowStep) for step in steps)
    kinds = ["event"] * 12
    if description.on_error != "fail":
        # An accumulator of events has no place for None, and a key that cannot be decoded may or may not have a time.
        kinds += [
            "garbage",
            "no key",
            *(() if windows else ("null",)),
            *(("bad key",) * (description.mode == "on_time")),
        ]
    rows = [kind for kind in kinds if kind != "null"] + ["null"] * 4 + ["no key"]
    found = {
        table.stream: draw(
            _records(
                description.mode,
                Source(table.stream, table.key),
                partitions[table.stream],
                start,
                rows,
                max_records,
            )
        )
        for table in description.rows
    }
    return found | {
        source.stream: draw(_records(description.mode, source, partitions[source.stream], start, kinds, max_records))
        for source in description.sources
    }


@dataclass(frozen=True)
class _Drawn:
    """One record before it has its place: `step` is its time from the latest of its partition."""

    k: str
    n: int
    step: int
    key: bytes | None
    headers: Headers
    kind: str
    partition: int


@st.composite
def _records(
    draw: st.DrawFn, mode: Mode, source: Source, partitions: int, start: int, kinds: list[str], most: int
) -> list[list[Record]]:
    behind = source.out_of_order if mode == "on_time" else 70
    # Ties come first, for they are the simplest; then the disorder that is allowed, and gaps that end sessions.
    nearly = st.integers(-min(behind, 12), 0)
    # Steps of the sizes, gaps and latenesses that windows have, so that much is due to the millisecond.
    sizes = (1, 5, 6, 10, 11, 50, 60, 61)
    exact = st.sampled_from([*sizes, *(-size for size in sizes if size <= behind)])
    steps = st.just(0) | st.integers(0, 8) | nearly | st.integers(-behind, 0) | exact | st.sampled_from((25, 200))
    drawn = st.builds(
        _Drawn,
        k=st.sampled_from("abc"),
        n=st.integers(0, 9) | st.integers(-5, 99),
        step=steps,
        key=st.sampled_from((None, b"u", b"\xff")),
        headers=st.sampled_from(((), (), (("h", b"1"),), (("h", b"2"), ("h", b"")))),
        kind=st.sampled_from(kinds),
        partition=st.integers(0, partitions - 1),
    )
    latest = [start + draw(st.sampled_from((0, 0, 7, 300))) for _ in range(partitions)]
    found: list[list[Record]] = [[] for _ in range(partitions)]
    least = draw(st.sampled_from((0, most // 2, most // 2, most // 2, most, most)))
    for number, one in enumerate(draw(st.lists(drawn, min_size=least, max_size=most))):
        key, value = _key_of(source, one), one.kind
        partition = partition_of(key, partitions) if source.key and key is not None else one.partition
        time = latest[partition] + one.step
        latest[partition] = max(latest[partition], time)
        data = msgspec.json.encode(Event(one.k, one.n, time))
        kept = {"garbage": b'{"k":1}', "null": None}.get(value, data)
        # A record's own timestamp must not count where the event has one.
        found[partition].append((key, kept, time if source.time == "record" else number, one.headers))
    return found


def _key_of(source: Source, drawn: _Drawn) -> bytes | None:
    if source.key is None:
        return drawn.key
    if drawn.kind == "no key":
        return None
    if drawn.kind == "bad key" and source.key == "str":
        return b"\xff"
    key: Any = drawn.k if source.key == "str" else drawn.n
    return encode_key(key)


def partition_of(key: bytes, partitions: int) -> int:
    """Where Kafka's default partitioner puts a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit hash of a key, unsigned.

    Source: Apache Kafka, org.apache.kafka.common.utils.Utils.murmur2.
    """
    mask, mix = 0xFFFFFFFF, 0x5BD1E995
    hashed = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * mix & mask
        word = (word ^ word >> 24) * mix & mask
        hashed = hashed * mix & mask ^ word
    rest = data[whole:]
    if rest:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * mix & mask
    hashed = (hashed ^ hashed >> 13) * mix & mask
    return hashed ^ hashed >> 15
