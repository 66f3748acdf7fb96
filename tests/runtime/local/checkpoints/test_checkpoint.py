"""The bytes of checkpoints: what earlier versions have written is read, and what is written they can read."""

from dataclasses import dataclass

import pytest
from msgspec import structs

from fluvial.dsl import SystemProblem
from fluvial.planner.border_schema import BorderSchema
from fluvial.planner.grouping import OnlyInput
from fluvial.planner.state_schema import StateSchema
from fluvial.runtime.kernel.time.position import Position, WritersOfStream
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint, decode, encode
from fluvial.runtime.local.saved_record import read_saved

WRITTEN = (
    b'{"version":1,"offsets":{"in":5,"mid":7},"highs":{"in":40},"producers":{"mid":{"0":30,"2":35}},'
    b'"changelogs":{"w":9},"run":"r","ended":{"mid":[0]},"idle":{"mid":[2]},"clock":50,"met":{"w":20},'
    b'"rested":{"mid":{"2":36}},"lateness":{"w":3},"out_of_order":{"in":4},"forgotten":{"w":10},"reached":{"w":33},'
    b'"rung":{"p":45},"states":{"w":{"version":1,"kind":"window","facts":{"windows":"tumbling 10 ms"},"types":{}}},'
    b'"atomic":true,"number":6,"identities":{"in":"id"},"tables":{"t":5},"versions":{"t":2},"built":{"j":3},'
    b'"borders":{"out":{"schema":{"version":1,"kind":"partition_by","facts":{"key":"str"},"types":{}},"number":2}},'
    b'"quiet_since":{"in":48},"fired_at_end":{"w":60},"cursors":{"w":[70,"aw=="]}}'
)
"""A checkpoint as versions before wrote it, to which each field of the position was one of its own."""

CHECKPOINT = Checkpoint(
    offsets={"in": 5, "mid": 7},
    position=Position(
        highs={"in": 40},
        producers={"mid": {0: 30, 2: 35}},
        ended={"mid": [0]},
        idle={"mid": [2]},
        clock=50,
        met={"w": 20},
        rested={"mid": {2: 36}},
        lateness={"w": 3},
        out_of_order={"in": 4},
        forgotten={"w": 10},
        reached={"w": 33},
        clock_fired={"p": 45},
        versions={"t": 2},
        built={"j": 3},
        quiet_since={"in": 48},
        fired_at_end={"w": 60},
        cursors={"w": (70, b"k")},
    ),
    changelogs={"w": 9},
    run="r",
    states={"w": StateSchema(kind="window", facts={"windows": "tumbling 10 ms"})},
    atomic=True,
    number=6,
    identities={"in": "id"},
    tables={"t": 5},
    borders={"out": BorderSchema(schema=StateSchema(kind="partition_by", facts={"key": "str"}), number=2)},
)


def test_the_bytes_of_a_checkpoint_are_those_of_earlier_versions() -> None:
    assert encode(CHECKPOINT) == WRITTEN
    assert decode(WRITTEN, "in/0") == CHECKPOINT


def test_the_container_that_a_task_was_handed_over_to_is_read_again() -> None:
    handed_over = structs.replace(CHECKPOINT, owner=("r", 1))
    assert encode(handed_over) == WRITTEN[:-1] + b',"owner":["r",1]}'
    assert decode(encode(handed_over), "in/0") == handed_over


def test_whether_bootstrap_streams_were_processed_is_read_again() -> None:
    begun = structs.replace(CHECKPOINT, bootstrapping=True)
    assert encode(begun) == WRITTEN[:-1] + b',"bootstrapping":true}'
    assert decode(encode(begun), "in/0") == begun


def test_the_tasks_that_write_a_stream_are_read_again() -> None:
    position = structs.replace(CHECKPOINT.position, writers={"mid": WritersOfStream(3, 2, 7)})
    told = structs.replace(CHECKPOINT, position=position)
    assert encode(told) == WRITTEN[:-1] + b',"writers":{"mid":[3,2,7,{}]}}'
    assert decode(encode(told), "in/0") == told


def test_a_blank_checkpoint_tells_all_fields_too() -> None:
    assert encode(Checkpoint()) == (
        b'{"version":1,"offsets":{},"highs":{},"producers":{},"changelogs":{},"run":"","ended":{},"idle":{},'
        b'"clock":-9223372036854775808,"met":{},"rested":{},"lateness":{},"out_of_order":{},"forgotten":{},'
        b'"reached":{},"rung":{},"states":{},"atomic":false,"number":0,"identities":{},"tables":null,"versions":{},'
        b'"built":{},"borders":{},"quiet_since":{},"fired_at_end":{},"cursors":{}}'
    )


def test_every_field_has_a_value_in_the_checkpoint_that_is_compared() -> None:
    blank = Checkpoint()
    own = {name for name in structs.asdict(blank) if getattr(blank, name) == getattr(CHECKPOINT, name)}
    at = {
        one.name
        for one in structs.fields(Position)
        if getattr(Position(), one.name) == getattr(CHECKPOINT.position, one.name)
    }
    assert (own, at) == ({"version", "owner", "bootstrapping", "holds", "input", "journals"}, {"writers"})


def test_a_checkpoint_of_an_early_version_lacks_what_came_later() -> None:
    early = b'{"version":1,"offsets":{"in":3},"highs":{"in":9},"met":{"w":4}}'
    assert decode(early, "in/0") == Checkpoint(offsets={"in": 3}, position=Position(highs={"in": 9}, met={"w": 4}))


@pytest.mark.parametrize("wrong", [b'{"offsets":3}', b'{"producers":{"mid":{"one":3}}}', b"{", b"\xff"])
def test_what_is_no_checkpoint_is_refused(wrong: bytes) -> None:
    with pytest.raises(SystemProblem, match=r"the checkpoint of task in/0 cannot be read"):
        decode(wrong, "in/0")


def test_a_record_of_another_version_names_both() -> None:
    @dataclass
    class Saved:
        version: int

    with pytest.raises(SystemProblem, match=r"the record has version 2\n.*\n  expected: version 3"):
        read_saved(lambda data: Saved(int(data)), b"2", 3, "the record", "a number", "place")


def test_what_a_task_of_one_stream_reads_is_kept() -> None:
    made = Checkpoint(offsets={"in": 3}, input=OnlyInput("in", 1, 2))
    assert encode(made).endswith(b',"input":["in",1,2]}')
    assert decode(encode(made), "in/1") == made


def test_a_task_that_another_run_has_moved_has_no_owner_in_this_one() -> None:
    moved = Checkpoint(owner=("r", 2))
    assert (moved.owner_in("r"), moved.owner_in("later"), Checkpoint().owner_in("r")) == (("r", 2), None, None)
