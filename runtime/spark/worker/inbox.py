"""The inbox of a key bucket: the blocks that one batch has for it.

They come in any order, and are processed in that of their producers, so all of them have to be there first. Where they
are many, as with a key that has most of the messages, they lie in a file meanwhile.
"""

import os
from collections.abc import Iterable, Iterator
from operator import itemgetter
from tempfile import SpooledTemporaryFile
from types import TracebackType
from typing import Self

from ..rows import EndOfInput, Head, Messages, decode_head, decode_messages

MOST_BYTES = 64 << 20
"""Most bytes of blocks that are held in memory."""

_Block = tuple[int, int, str, int, int]
"""Of a block: producer, first position, stream; and where it lies: offset and length."""

_ORDER = itemgetter(0, 1, 2)


class Inbox:
    """The blocks of one bucket in one batch, in memory or, from `most` bytes on, in a temporary file without a name,
    which is gone with its process. A block stays packed until it is processed: unpacked it is several times as large.
    """

    def __init__(self, blocks: Iterable[bytes] = (), most: int = MOST_BYTES) -> None:
        # Where Spark itself spills: a disk that was chosen for that.
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
        self._file = SpooledTemporaryFile(most, dir=folder if os.path.isdir(folder) else None)  # noqa: SIM115
        self._most = most
        self._blocks: list[_Block] = []
        self._size = 0
        self.ended = False
        self.empty = True
        self.extend(blocks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def has_messages(self) -> bool:
        """Whether there is a message."""
        return bool(self._blocks)

    @property
    def spilled(self) -> bool:
        """Whether the blocks lie in a file."""
        return self._size > self._most

    def extend(self, blocks: Iterable[bytes]) -> None:
        """Take blocks, control messages among them."""
        for block in blocks:
            self.empty = False
            head = decode_head(block)
            if isinstance(head, Head):
                self._blocks.append((head.producer, head.positions[0], head.stream, self._size, len(block)))
                self._size += self._file.write(block)
            elif isinstance(head, EndOfInput):
                self.ended = True

    def messages(self, stream: str) -> Iterator[Messages]:
        """The messages of a stream, in the order of each producer. More blocks may not come from then on."""
        for _, _, of, offset, length in sorted(self._blocks, key=_ORDER):
            if of == stream:
                self._file.seek(offset)
                yield decode_messages(self._file.read(length))
