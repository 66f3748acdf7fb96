"""The key buckets of records: into which part of a task each message belongs, where tasks are split by key."""

from collections.abc import Sequence
from zlib import crc32

from ...dsl.message import Record
from .time.border_watermarks import TRAILER_SIZE

TO_ALL = 255
"""In place of a bucket: a control message, which each task reads. There are at most 64 buckets."""


_FOLDS = {2**power: bytes([bucket % 2**power for bucket in range(TO_ALL)] + [TO_ALL]) for power in range(7)}


def key_buckets(records: Sequence[Record], offsets: Sequence[int], elasticity: int, *, trailers: bool) -> bytes:
    """The key bucket of each record: the crc32 of its key modulo `elasticity`; of one without key, its offset modulo
    `elasticity`. With `trailers` the records are of an intermediate stream, which has control messages too.

    The rule knows nothing of the pipeline: each task goes on by it from its own offset, whatever was changed."""
    return bytes(
        [
            crc32(record[0]) % elasticity
            if record[0] is not None
            else _keyless_bucket(record, offset % elasticity, trailers=trailers)
            for record, offset in zip(records, offsets, strict=True)
        ]
    )


def folded(buckets: bytes, elasticity: int) -> bytes:
    """Key buckets of a larger elasticity, as those of a smaller one."""
    return buckets.translate(_FOLDS[elasticity])


def bucket_of(key: bytes, elasticity: int) -> int:
    """The number of the bucket of an encoded key, from 0, of `elasticity` many: by its CRC-32, in any process."""
    return crc32(key) % elasticity


def _keyless_bucket(record: Record, bucket: int, *, trailers: bool) -> int:
    _, value, _, headers = record
    is_control = trailers and value is None and len(headers[-1][1]) != TRAILER_SIZE
    return TO_ALL if is_control else bucket


def discarded(buckets: bytes, own: int) -> int:
    """How many of these records are of other buckets."""
    return len(buckets) - buckets.count(own) - buckets.count(TO_ALL)
