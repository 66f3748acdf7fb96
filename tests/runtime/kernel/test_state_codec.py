"""Values of state as bytes."""

import pytest
from msgspec import ValidationError

from explained import assert_explains
from fluvial.runtime.kernel.state_codec import Codec, MsgpackCodec, unreadable


@pytest.mark.parametrize(("type_", "value"), [(int, 3), (list[str], ["a"]), (dict[str, float], {"a": 1.5})])
def test_a_value_is_read_as_it_was_written(type_: object, value: object) -> None:
    codec = MsgpackCodec(type_)
    assert codec.decode(codec.encode(value)) == value


def test_a_value_of_another_type_is_not_read() -> None:
    with pytest.raises(ValidationError):
        MsgpackCodec(int).decode(MsgpackCodec(str).encode("x"))


def test_a_codec_may_be_of_the_users_functions() -> None:
    codec = Codec(str.encode, bytes.decode)
    assert codec.decode(codec.encode("é")) == "é"


def test_state_that_cannot_be_read_names_its_operator() -> None:
    error = unreadable("counts", ValueError("cut short"))
    assert_explains(error, "the state of 'counts' cannot be read: cut short", None, "state of the type", "another id")
