"""Structs, encoders and decoders that are sent by value come back whole."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

pytest.importorskip("pyspark", reason="the Spark engine is tested where pyspark is installed")

from fluvial.runtime.spark.lowering import pickling

USERS = """
from dataclasses import dataclass, field
from typing import Generic, TypeVar
import msgspec

T = TypeVar("T")

class Box(msgspec.Struct, Generic[T]):
    item: T

class Point(msgspec.Struct, frozen=True, tag="point"):
    x: int
    y: int = 0
    names: list[str] = msgspec.field(default_factory=list, name="n")

    def moved(self) -> "Point":
        return Point(self.x + 1, self.y, self.names)

class Named(Point, frozen=True, kw_only=True):
    title: str

@dataclass
class Order:
    item: str
    amount: int = 1
    notes: list[str] = field(default_factory=list)

def ordered(line: bytes):
    try:
        return msgspec.json.decode(line, type=Order), Order("tea")
    except msgspec.ValidationError as error:
        return str(error)

decode = msgspec.json.Decoder(Point, strict=False).decode
encoders = msgspec.json.Encoder(enc_hook=str), msgspec.msgpack.Encoder(order="sorted")
parse = msgspec.json.Decoder(complex, dec_hook=lambda kind, told: kind(told))
decoders = parse, msgspec.msgpack.Decoder(dict[str, int])

def through(number: complex):
    return decoders[0].decode(encoders[0].encode(number)), decoders[1].decode(encoders[1].encode({"b": 1, "a": 2}))

def use(line: bytes):
    point = decode(line)
    box = msgspec.convert({"item": 1}, Box[int])
    orders = [ordered(b'{"item":"tea"}'), ordered(b"{}")]
    return msgspec.json.encode(point.moved()), Named(1, title="a").title, Point(1) == Point(1), box, through(1j), orders
"""


def test_structs_and_coders_of_a_module_that_workers_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "struct_users.py").write_text(USERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    import struct_users  # type: ignore[import-not-found] # noqa: PLC0415 - written above

    line = b'{"type":"point","x":"1","n":["b"]}'
    pickling._cloudpickle.register_pickle_by_value(struct_users)
    try:
        data = pickling.dumps(struct_users.use)
    finally:
        pickling._cloudpickle.unregister_pickle_by_value(struct_users)
    (tmp_path / "sent").write_bytes(data)
    code = f"import pickle; print(pickle.load(open({str(tmp_path / 'sent')!r}, 'rb'))({line!r}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/")
    assert found.stdout.strip() == repr(struct_users.use(line))
    assert pickle.loads(pickling.dumps([1])) == [1]


@pytest.mark.parametrize(
    "conditions",
    [{"ge": -5, "lt": 7}, {"pattern": "^a", "max_length": 0}, {"tz": False}, {"title": "age", "examples": [1, None]}],
)
def test_conditions_of_a_type_come_back_as_they_were(conditions: dict[str, Any]) -> None:
    kind = Annotated[int, msgspec.Meta(**conditions)]
    assert pickle.loads(pickling.dumps(kind)) == kind
