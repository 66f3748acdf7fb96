"""Parts of a long run of the tests: `--part 2/4` takes one test of four, always the same ones."""

import re
import zlib
from argparse import ArgumentTypeError
from typing import NamedTuple


class RunPart(NamedTuple):
    """One of several parts, counted from 1."""

    number: int
    of: int

    def has(self, test: str) -> bool:
        """Whether a test, by its name with its file, belongs to this part. It does not depend on which others run."""
        return zlib.crc32(test.encode()) % self.of == self.number - 1


def part(text: str) -> RunPart:
    """The part that `text` names.

    >>> part("2/4")
    RunPart(number=2, of=4)
    """
    written = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text)
    if written is None or int(written[1]) > int(written[2]):
        raise ArgumentTypeError(f"{text!r} is no part of a run: write 2/4 for the second of four")
    return RunPart(int(written[1]), int(written[2]))
