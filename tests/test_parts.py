"""A long run of the tests in parts."""

from argparse import ArgumentTypeError

import pytest

from parts import RunPart, part


def test_each_test_is_in_one_part() -> None:
    tests = [f"tests/test_some.py::test_{number}[case]" for number in range(1000)]
    shares = [[test for test in tests if part(f"{number}/4").has(test)] for number in range(1, 5)]
    assert sorted(test for share in shares for test in share) == sorted(tests)
    assert all(len(share) > 200 for share in shares)
    assert all(RunPart(1, 1).has(test) for test in tests)


@pytest.mark.parametrize("text", ["", "2", "0/4", "5/4", "1/0", "a/b", "1/4/2", "-1/4"])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="write 2/4 for the second of four"):
        part(text)
