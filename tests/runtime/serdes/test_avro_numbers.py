"""Whole numbers of Avro: as many bytes as they need, and nothing that has more than 64 bits."""

import pytest

from fluvial.runtime.serdes.avro_numbers import _MOST_UPPER, UPPER, read_number, read_size, varint
from fluvial.runtime.serdes.avro_types import Unfit

BOUNDS = [0, 63, 64, 8191, 8192, 2**20, 1_700_000_000_000, 2**63 - 1]
NEVER_ENDING = b"\xff" * 9 + b"\x7f"
"""70 bits."""


@pytest.mark.parametrize("number", [*BOUNDS, *(-number - 1 for number in BOUNDS)])
def test_a_number_comes_back_with_the_index_behind_it(number: int) -> None:
    assert read_number(b"x" + varint(number) + b"x", 1) == (number, len(varint(number)) + 1)


@pytest.mark.parametrize("number", [2**63, 2**70, -(2**63) - 1, -(2**70)])
def test_a_number_of_more_than_64_bits_is_not_written(number: int) -> None:
    with pytest.raises(Unfit):
        varint(number)


def test_a_number_of_more_than_64_bits_is_not_read() -> None:
    with pytest.raises(Unfit):
        read_number(NEVER_ENDING, 0)


def test_a_size_is_not_negative() -> None:
    assert read_size(varint(300), 0) == (300, 2)
    with pytest.raises(Unfit):
        read_size(varint(-1), 0)


def test_times_come_back_however_many_were_read_before() -> None:
    times = [1_700_000_000_000 + (number << 13) for number in range(_MOST_UPPER + 1)]
    assert [read_number(varint(time), 0)[0] for time in times] == times
    assert len(UPPER) <= _MOST_UPPER
