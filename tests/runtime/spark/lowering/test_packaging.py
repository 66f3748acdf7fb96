"""How a plan comes to Spark's workers."""

import hashlib
import os
import pickle
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="plans are pickled by what Spark brings")

from pyspark import SparkFiles

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, SystemProblem, UnsupportedError, resource
from fluvial.planner import plan
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.pipeline_loader import load_pipeline
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering import pickling
from fluvial.runtime.spark.lowering.lowering import levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, add_shipped_plan, pack, pack_pipeline, unpack
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from generators.shop import generated, message, proto


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ShippedPlan:
    """A plan that Spark brings to its processes: here one and the same folder."""
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    pipeline = Pipeline("copy")
    pipeline.stream("in", value=str).send_to(tmp_path.name)
    made = plan(pipeline)
    added: list[str] = []
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(_temp_dir=str(tmp_path), addFile=added.append))
    bundle = PlanBundle(made, levels(made, list(made.stages), 1), KeyBuckets(1), Size(1, 1))
    sent = add_shipped_plan(pack(bundle), session)
    assert added == [str(tmp_path / sent.file)]
    return sent


def test_a_plan_is_read_from_the_file_that_spark_brings(shipped: ShippedPlan) -> None:
    assert shipped.data == b""
    assert unpack(shipped)[0].plan.name == "copy"


def test_a_worker_that_cannot_read_the_file_says_so(shipped: ShippedPlan, tmp_path: Path) -> None:
    (tmp_path / shipped.file).unlink()
    with pytest.raises(SystemProblem, match="expected: the file that Spark has brought it"):
        unpack(shipped)


def test_a_file_that_is_damaged_is_refused(shipped: ShippedPlan, tmp_path: Path) -> None:
    (tmp_path / shipped.file).write_bytes(b"another")
    with pytest.raises(SystemProblem, match="is not as Spark was given it"):
        unpack(shipped)


def test_a_worker_with_another_version_says_so_before_it_loads_anything(shipped: ShippedPlan, tmp_path: Path) -> None:
    data = b"fluvial 99.0\n" + b"what this version cannot load"
    (tmp_path / shipped.file).write_bytes(data)
    sent = replace(shipped, digest=hashlib.sha256(data).hexdigest())
    with pytest.raises(SystemProblem) as raised:
        unpack(sent)
    wrong = f"has fluvial {version('fluvial')}, and the run was started with fluvial 99.0"
    assert_explains(raised.value, wrong, None, "one version of Fluvial", "on every worker")


class Connection:
    """What is open in this process, and cannot be another's."""

    def __init__(self) -> None:
        self.socket = socket.socket()

    async def ask(self, value: str) -> list[str]:
        return [value]


def packed(pipeline: Pipeline) -> ShippedPlan:
    made = plan(pipeline)
    return pack(PlanBundle(made, levels(made, list(made.stages), 1), KeyBuckets(1), Size(1, 1)))


def test_a_client_that_is_open_is_refused_with_what_to_do() -> None:
    connection, pipeline = Connection(), Pipeline("p")
    pipeline.stream("in", value=str).async_flat_map(connection.ask, id="ask").send_to("out")
    with closing(connection.socket):
        error = error_of(lambda: packed(pipeline), UnsupportedError)
    wrong = "pipeline 'p' cannot be sent to Spark's workers"
    assert_explains(
        error, wrong, None, "functions that can be pickled", "hand clients to functions by resource(factory)"
    )


def test_a_resource_travels_by_its_factory_and_is_one_where_it_arrives() -> None:
    async def ask(value: str, connection: Connection) -> list[str]:
        return await connection.ask(value)

    connections, pipeline = resource(Connection), Pipeline("p")
    words = pipeline.stream("in", value=str)
    words.async_flat_map(ask, id="one", resource=connections).send_to("out")
    words.async_flat_map(ask, id="two", resource=connections).send_to("out")
    calls = unpack(packed(pipeline))[0].plan.pipeline.calls
    one, two = (call.resource for call in calls)
    assert one is two
    assert one is not None
    assert (one.name, one.origin) == ("Connection", connections.origin)


SENT = """
from datetime import timedelta
from fluvial.dsl import Pipeline
from fluvial.runtime.serdes import Registry, protobuf
from sent_pb2 import Sent

registry = Registry("http://localhost:1", give_up_after=timedelta(milliseconds=200))
pipeline = Pipeline("sent")
(
    pipeline.stream("in", value=protobuf(Sent))
    .map(lambda sent: Sent(text=sent.text.upper()))
    .send_to("out", value=protobuf(Sent, registry=registry, subject="out-value"))
)
"""
RECEIVED = """
import pickle, sys
sys.stdin.buffer.readline()  # the version
bundle = pickle.loads(sys.stdin.buffer.read())
source, mapped, out = bundle.plan.pipeline.operators
value = mapped.fn(source.value.decode(b"\\x0a\\x03tea"))
print(value.text, isinstance(value, out.value.type), "sent_pb2" in sys.modules)
"""


@pytest.mark.slow
def test_what_protoc_has_generated_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sent_pb2.py").write_text(generated(proto("sent.proto", message("Sent", text="string")), "sent_pb2"))
    (tmp_path / "sent.py").write_text(SENT)
    made = plan(load_pipeline(str(tmp_path / "sent.py")))
    assert import_module("sent_pb2").Sent.DESCRIPTOR.full_name == "shop.Sent"
    data = pack(PlanBundle(made, levels(made, list(made.stages), 1), KeyBuckets(1), Size(1, 1))).data
    path = os.pathsep.join(entry for entry in sys.path if entry != str(tmp_path))
    command = [sys.executable, "-c", RECEIVED]
    done = subprocess.run(
        command, input=data, capture_output=True, check=True, cwd="/", env={**os.environ, "PYTHONPATH": path}
    )
    assert done.stdout.decode() == "TEA True False\n"


HIDING = """
import chunk
from fluvial.dsl import Pipeline
import beside

pipeline = Pipeline("hiding")
words = pipeline.stream("in", value=str)
words.map(chunk.loud).send_to("out", value=str)


def quiet(word: str) -> str:
    import sndhdr
    from importlib import import_module

    import_module("wsgiref.soft")
    return sndhdr.quiet(word)


words.map(quiet).send_to("out-3", value=str)
words.map(lambda word: beside.twice(chunk.loud(word))).send_to("out-2", value=str)
"""
ON_A_WORKER = """
import pickle, sys
shipped = pickle.loads(sys.stdin.buffer.read())
from fluvial.runtime.spark.lowering.packaging import unpack
bundle, _ = unpack(shipped)
import queue, chunk, telnetlib
print([operator.fn("tea") for operator in bundle.plan.pipeline.operators if operator.kind == "map"])
print(hasattr(queue, "SimpleQueue"), hasattr(chunk, "Chunk"), hasattr(telnetlib, "Telnet"))
"""


@pytest.mark.slow
def test_modules_of_the_user_s_may_be_named_like_python_s(tmp_path: Path) -> None:
    """A pipeline in `queue.py` with helpers such as `chunk.py`: workers have Python's modules of these names, too, but
    for those that the user's functions import first."""
    (tmp_path / "sndhdr.py").write_text("def quiet(word: str) -> str:\n    return word[:1]\n")
    (tmp_path / "telnetlib.py").write_text("")
    (tmp_path / "wsgiref").mkdir()
    (tmp_path / "wsgiref" / "__init__.py").write_text("")
    (tmp_path / "wsgiref" / "soft.py").write_text("")
    (tmp_path / "queue.py").write_text(HIDING)
    (tmp_path / "chunk.py").write_text("def loud(word: str) -> str:\n    return word.upper()\n")
    (tmp_path / "beside.py").write_text("def twice(word: str) -> str:\n    return 2 * word\n")
    send = """
import os, pickle, subprocess, sys
from fluvial.planner import plan
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.spark.query import session
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering import pickling
from fluvial.runtime.spark.lowering.lowering import levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack
from fluvial.runtime.pipeline_loader import load_pipeline

made = plan(load_pipeline("queue.py"))
data = pickle.dumps(pack(PlanBundle(made, levels(made, list(made.stages), 1), KeyBuckets(1), Size(1, 1))))
session.share_python_paths()
worker = subprocess.run([sys.executable, "-m", "worker_of_spark"], input=data, capture_output=True)
print(worker.stdout.decode(), worker.stderr.decode())
"""
    elsewhere = tmp_path.with_name(f"{tmp_path.name}-elsewhere")
    elsewhere.mkdir()
    (elsewhere / "worker_of_spark.py").write_text(ON_A_WORKER)
    environment = {**os.environ, "PYTHONPATH": str(elsewhere)}
    command = [sys.executable, "-P", "-c", send]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment, check=True)
    assert done.stdout.decode().split("\n")[:2] == ["['TEA', 't', 'TEATEA']", "True True True"], done


POSTPONED = """
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import msgspec

from fluvial.dsl import Pipeline


@dataclass(frozen=True)
class Item:
    name: str


class Size(NamedTuple):
    of: Item


class Label(TypedDict):
    of: Item


@dataclass(frozen=True)
class Order:
    items: list[Item]
    size: Size
    label: Label
    before: Order | None = None


class Parcel(msgspec.Struct):
    order: Order
    inner: Parcel | None = None


def checked(order: Order) -> Order:
    return order


def packed(order: Order) -> Parcel:
    return Parcel(order)


pipeline = Pipeline("parcels")
orders = pipeline.stream("orders", value=Order).map(checked).partition_by(str, id="by-order", key_type=str)
orders.map(packed).send_to("parcels")
"""
LOADED = """
import sys

import msgspec

from fluvial.planner import plan
from fluvial.runtime.spark.lowering.packaging import unpack_pipeline
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan

pipeline = unpack_pipeline(ShippedPlan("digest", sys.stdin.buffer.read()))
(parcels,) = [operator.fn for operator in pipeline.operators if operator.label == "map(packed)"]
line = b'{"order":{"items":[{"name":"tea"}],"size":[{"name":"s"}],"label":{"of":{"name":"l"}}},"inner":null}'
print(plan(pipeline).fingerprint(), msgspec.json.decode(line, type=parcels.__annotations__["return"]))
"""


def test_annotations_that_are_text_mean_the_same_where_their_module_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "postponed.py").write_text(POSTPONED)
    monkeypatch.chdir(tmp_path)
    pipeline = load_pipeline("postponed.py")
    sent = pack_pipeline(pipeline).data
    found = subprocess.run([sys.executable, "-c", LOADED], input=sent, capture_output=True, check=False, cwd="/")
    assert found.returncode == 0, found.stderr.decode()
    order = "items=[Item(name='tea')], size=Size(of=Item(name='s')), label={'of': Item(name='l')}, before=None"
    assert found.stdout.decode().strip() == f"{plan(pipeline).fingerprint()} Parcel(order=Order({order}), inner=None)"


def test_an_annotation_for_type_checkers_alone_is_left_as_it_is() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def same(value: 'Nowhere') -> 'Nowhere':\n    return value", namespace)
    assert pickle.loads(pickling.dumps(namespace["same"])).__annotations__ == {
        "value": "Nowhere",
        "return": "Nowhere",
    }
