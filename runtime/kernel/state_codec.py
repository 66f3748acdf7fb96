"""Codecs of state: values as bytes, and the error of bytes that cannot be decoded."""

from collections.abc import Callable
from typing import Any

import msgspec

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain


class Codec:
    """Encodes values of one kind, and decodes them."""

    __slots__ = ("decode", "encode")

    def __init__(self, encode: Callable[[Any], bytes], decode: Callable[[bytes], Any]) -> None:
        self.encode = encode
        self.decode = decode


class MsgpackCodec(Codec):
    """Encodes values of one type as MessagePack."""

    __slots__ = ()

    def __init__(self, type_: Any) -> None:
        super().__init__(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(type_).decode)


def unreadable(operator: str, error: Exception) -> SystemProblem:
    """The error of state whose bytes cannot be decoded as the type that its operator declares."""
    wrong = f"the state of {operator!r} cannot be read: {error}"
    remedy = "run the pipeline that wrote it, or give the operator another id to start over"
    return SystemProblem(explain(wrong, "state of the type that the operator keeps", remedy, operator))
