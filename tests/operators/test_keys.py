"""Keys at a border are of the type that was declared, and of that Serde's making."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from engines.spark_in_process import queries
from engines.targets import contents, write
from fluvial.dsl import INT64, MessageError, Pipeline, Serde, after_count, count, fail, session, skip, tumbling
from fluvial.dsl.serde import encode_key
from fluvial.planner import plan
from fluvial.runtime import run
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver

Run = Callable[..., int]
"""Runs a pipeline over these records with keys of a type; how many of them a window has counted."""


def through_a_border(key: Any, key_type: Any) -> list[tuple[Any, Any]]:
    """A message with this key, behind the border."""
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).partition_by(lambda _: key, id="by", key_type=key_type).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", 7)
        return [(message.key, message.value) for message in driver.read("out")]


@pytest.mark.parametrize(
    ("key", "key_type", "wrong"),
    [
        (1, str, "key_type=str, not int: 1"),
        ("a", int, "key_type=int, not str: 'a'"),
        (5, bytes, "key_type=bytes, not int: 5"),
        ("ab", tuple[str, str], r"key_type=tuple\[str, str\], not str: 'ab'"),
    ],
)
def test_a_key_of_another_type_is_an_error_of_its_message(key: Any, key_type: Any, wrong: str) -> None:
    with pytest.raises(MessageError, match=wrong):
        through_a_border(key, key_type)


@pytest.mark.parametrize(
    ("key", "key_type"), [("a", str), (1, int), (b"a", bytes), (("a", 1), tuple[str, int]), (None, str)]
)
def test_a_key_of_the_type_comes_through(key: Any, key_type: Any) -> None:
    assert through_a_border(key, key_type) == [(key, 7)]


def test_a_serde_of_keys_encodes_and_decodes_them() -> None:
    hexadecimal = Serde("hex", int, lambda number: b"%x" % number, lambda data: int(data, 16))
    assert through_a_border(255, hexadecimal) == [(255, 7)]
    assert through_a_border(None, hexadecimal) == [(None, 7)]


def test_a_text_of_eight_characters_is_no_int_that_a_stream_has(engine_run: Run) -> None:
    """It would be 7166761325952853362, and a join or a window of it a group of its own."""
    good = encode_key(17)
    with pytest.raises(MessageError) as caught:
        engine_run([(good, b"1", 0, ()), (b"customer", b"2", 0, ())], int)
    text = str(caught.value)
    assert "key 'customer'" in text
    assert "the key is text of length 8, not an int in eight bytes: declare key=str" in text
    assert "expected: a key of type int\n  to do: correct the key or key=, or set" in text


def test_int64_takes_any_eight_bytes(engine_run: Run) -> None:
    assert engine_run([(b"customer", b"2", 0, ())], INT64) == 1


def test_a_text_that_is_refused_can_be_skipped(engine_run: Run) -> None:
    assert engine_run([(b"customer", b"2", 0, ()), (encode_key(17), b"1", 0, ())], int, skip()) == 1


@pytest.fixture(params=["local", "spark"])
def engine_run(request: pytest.FixtureRequest) -> Run:
    def go(records: list[Any], kind: Any, on_error: Any = fail()) -> int:  # noqa: B008 - frozen
        pipeline = Pipeline("keys", on_error=on_error)
        keyed: Any = pipeline.stream("in", key=kind, value=int)
        keyed.window(tumbling(timedelta(seconds=1)), count(), id="w").map(lambda pane: pane.value).send_to("out")
        if request.param == "local":
            system = MemorySystem()
            write(system, {"in": [records]})
            run(pipeline, system=system, until="end")
            return sum(int(value or 0) for _, value, _, _ in contents(system, "out"))
        (query,) = queries(plan(pipeline, partitions={"in": 1}))
        query.batch([RecordBatch("in", 0, range(len(records)), records)])
        query.batch([], end=True)
        return sum(int(message.value or 0) for message in query.written["out"])

    return go


MINUTE = timedelta(minutes=1)
KEEPERS: dict[str, Callable[[Any, Any], Any]] = {
    "triggered windows": lambda keyed, _: keyed.window(tumbling(MINUTE), count(), id="n", trigger=after_count(2)),
    "sessions": lambda keyed, _: keyed.window(session(MINUTE), count(), id="n"),
    "triggered sessions": lambda keyed, _: keyed.window(session(MINUTE), count(), id="n", trigger=after_count(2)),
    "joined streams": lambda keyed, other: keyed.join(other, max, within=MINUTE, id="n"),
    "latest rows": lambda keyed, other: keyed.join(other, max, within=MINUTE, retain="latest", id="n"),
}


@pytest.mark.parametrize("keep", KEEPERS.values(), ids=KEEPERS)
def test_a_message_without_key_fails_where_it_would_be_kept_by_key(keep: Callable[[Any, Any], Any]) -> None:
    pipeline = Pipeline("p")
    keyed, other = (pipeline.stream(name, key=str, value=int) for name in ("in", "other"))
    keep(keyed, other).send_to("out")
    other.send_to("others")
    with PipelineDriver(pipeline) as driver, pytest.raises(MessageError) as raised:
        driver.send("in", 7, key=None)
    assert "without key cannot be kept by key" in str(raised.value)
    assert "expected: a message with a key\n  to do: give records keys where they are written" in str(raised.value)
