"""Keys at a border are of the type that was declared, and of that Serde's making."""

from typing import Any

import pytest

from fluvial.dsl import MessageError, Pipeline, Serde
from fluvial.runtime.testing import PipelineDriver


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
