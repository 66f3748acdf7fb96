"""Codecs of state: values as bytes, and the error of bytes that cannot be decoded."""

from collections.abc import Callable
from typing import Any

import msgspec

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain


class Codec:
    """Encodes values of one kind, and decodes them. `small` says that none of them takes more than a few bytes, and
    `packed` that they are MessagePack. The first `lead` bytes are read apart from the rest, and may be any."""

    __slots__ = ("decode", "encode", "lead", "packed", "small")

    def __init__(
        self,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        *,
        small: bool = False,
        packed: bool = False,
        lead: int = 0,
    ) -> None:
        self.encode = encode
        self.decode = decode
        self.small = small
        self.packed = packed
        self.lead = lead


class MsgpackCodec(Codec):
    """Encodes values of one type as MessagePack."""

    __slots__ = ()

    def __init__(self, type_: Any) -> None:
        encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(type_).decode
        super().__init__(encode, decode, small=type_ in (bool, int, float), packed=True)


def unreadable(operator: str, error: Exception) -> SystemProblem:
    """The error of state whose bytes cannot be decoded as the type that its operator declares."""
    wrong = f"the state of {operator!r} cannot be read: {error}"
    remedy = "run the pipeline that wrote it, or give the operator another id to start over"
    return SystemProblem(explain(wrong, "state of the type that the operator keeps", remedy, operator))
