"""The oracle on what is broadcast and on remote tables, against results worked out by hand."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from fluvial.dsl import Batch, Pipeline, dead_letter
from fluvial.dsl.message import Record
from oracle.interpreter import OracleFailure, OutputMessage, run_oracle

WORDS: list[Record] = [(b"a", b"1", 5, ()), (b"b", b"2", 6, (("h", b"1"),)), (None, b"3", 7, ())]


async def some(key: str) -> int | None:
    return {"a": 10}.get(key)


async def many(keys: Sequence[str]) -> Mapping[str, int]:
    return {key: 10 for key in keys if key == "a"}


async def refuse(key: str) -> int | None:
    raise OSError(key)


async def keep(_key: str, _row: int | None) -> None:
    raise AssertionError("the oracle writes to no table")


def test_what_is_broadcast_is_there_as_often_as_there_are_tasks() -> None:
    pipeline = Pipeline("p")
    words = pipeline.stream("words", key=str, value=int)
    words.broadcast(id="all").merge(words).send_to("out")
    found = run_oracle(pipeline, {"words": [WORDS]}, tasks=lambda id: {"all": 2}[id])
    assert sorted(found["out"], key=repr) == sorted((OutputMessage(*one) for one in 3 * WORDS), key=repr)


@pytest.mark.parametrize("options", [{"read": some}, {"read": many, "batch": Batch()}])
@pytest.mark.parametrize(("how", "joined"), [("inner", [b"11"]), ("left", [b"11", b"2", b"3"])])
def test_a_stream_is_joined_with_the_rows_that_are_read(
    options: dict[str, Any], how: Literal["inner", "left"], joined: list[bytes]
) -> None:
    pipeline = Pipeline("p")
    rows = pipeline.remote_table("rows", **options)

    def add(word: int, row: int | None) -> int:
        return word + (row or 0)

    pipeline.stream("words", key=str, value=int).join(rows, add, id="add", how=how).send_to("out")
    found = run_oracle(pipeline, {"words": [WORDS]})["out"]
    assert [message.value for message in found] == joined
    assert [message[:1] + message[2:] for message in found] == [one[:1] + one[2:] for one in WORDS[: len(joined)]]


def test_a_row_that_cannot_be_read_fails_its_message() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    rows = pipeline.remote_table("rows", read=refuse)
    pipeline.stream("words", key=str, value=int).join(rows, max, id="max").send_to("out")
    found = run_oracle(pipeline, {"words": [WORDS]})
    assert [message.value for message in found["p-dead-letters"]] == [b"1", b"2"]


def test_rows_are_written_in_the_order_of_their_messages() -> None:
    pipeline = Pipeline("p")
    rows = pipeline.remote_table("rows", read=some, write=keep)
    pipeline.stream("words", key=str, value=int).send_to(rows)
    deleted: Record = (b"a", None, 8, ())
    found = run_oracle(pipeline, {"words": [[*WORDS[:2], deleted]]})
    assert found == {"remote:rows": [(b"a", b"1", 0, ()), (b"b", b"2", 0, ()), (b"a", None, 0, ())]}
    with pytest.raises(OracleFailure, match="without key"):
        run_oracle(pipeline, {"words": [WORDS]})
