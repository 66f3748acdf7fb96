"""`run --input`: files become what the pipeline decodes, keys and values."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from engines.command_line import Fluvial

AVRO = """
from dataclasses import dataclass
from datetime import datetime

from fluvial.dsl import INT64, Pipeline, msgpack
from fluvial.runtime.serdes import avro

NUMBER = {"type": "long", "logicalType": "timestamp-millis"}
FIELDS = [
    {"name": "user", "type": "string"},
    {"name": "at", "type": NUMBER},
    {"name": "cents", "type": ["null", "long"], "default": None},
]
SCHEMA = {"type": "record", "name": "Click", "fields": FIELDS}


@dataclass
class Click:
    user: str
    at: datetime
    cents: int | None = None


def seen(click) -> dict[str, object]:
    user, at, cents = (click["user"], click["at"], click["cents"]) if isinstance(click, dict) else (
        click.user, click.at, click.cents
    )
    return {"user": user, "at": int(at.timestamp()), "cents": cents}


untyped, typed, packed = Pipeline("untyped"), Pipeline("typed"), Pipeline("packed")
untyped.stream("clicks", value=avro(SCHEMA)).map(seen).send_to("seen")
typed.stream("clicks", value=avro(SCHEMA, type=Click)).map(seen).send_to("seen")
packed.stream("clicks", value=msgpack(Click)).map(seen).send_to("seen")
"""
TABLES = """
from fluvial.dsl import INT64, Pipeline


def both(order: dict[str, object], name: dict[str, object]) -> str:
    return f"{order['what']} for {name['name']}"


def joined(kind) -> Pipeline:
    pipeline = Pipeline("joined")
    names = pipeline.table("names", key=kind, value=dict[str, object])
    orders = pipeline.stream("orders", key=kind, value=dict[str, object])
    orders.join(names, both, id="both").send_to("out")
    return pipeline


texts, numbers, pairs, raw = joined(str), joined(int), joined(tuple[str, int]), joined(bytes)
"""


@pytest.fixture(autouse=True)
def _pipelines(folder: Path) -> None:
    (folder / "clicks.py").write_text(AVRO)
    (folder / "tables.py").write_text(TABLES)


def documents(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


JSON = (
    b'\xef\xbb\xbf{"user":"ada","at":"2024-05-17T10:05:03Z","cents":5}\n\n{"user":"bob","at":"2024-05-17T10:05:04Z"}\n'
)
SEEN = [{"user": "ada", "at": 1715940303, "cents": 5}, {"user": "bob", "at": 1715940304, "cents": None}]


@pytest.mark.parametrize("which", ["untyped", "typed", "packed"])
def test_json_feeds_what_is_encoded_otherwise(fluvial: Fluvial, folder: Path, which: str) -> None:
    (folder / "clicks.jsonl").write_bytes(JSON)
    ended = fluvial("run", f"clicks.py:{which}", "--input", "clicks=clicks.jsonl", "--output", "seen=-", "--quiet")
    assert (ended.code, ended.err, documents(ended.out)) == (0, "", SEEN)


@pytest.mark.parametrize("which", ["untyped", "typed", "packed"])
def test_csv_feeds_it_too(fluvial: Fluvial, folder: Path, which: str) -> None:
    (folder / "clicks.csv").write_text("ada,2024-05-17T10:05:03Z,5\n")
    words = ("--input-format", "csv", "--columns", "user,at,cents", "--output", "seen=-", "--quiet")
    ended = fluvial("run", f"clicks.py:{which}", "--input", "clicks=clicks.csv", *words)
    assert (ended.code, ended.err, documents(ended.out)) == (0, "", SEEN[:1])


@pytest.mark.parametrize("which", ["untyped", "typed", "packed"])
@pytest.mark.parametrize("line", ['{"user":1,"at":5}', '{"at":5}', "[]", '{"user":"a","at":"yesterday"}'])
def test_a_document_that_is_no_value_is_named(fluvial: Fluvial, folder: Path, which: str, line: str) -> None:
    (folder / "clicks.jsonl").write_text(f"{line}\n")
    ended = fluvial("run", f"clicks.py:{which}", "--input", "clicks=clicks.jsonl")
    assert ended.code == 2
    assert ended.err.startswith("it cannot be encoded as value: ")
    assert "at clicks.jsonl:1" in ended.err


def test_protobuf_is_fed_json(fluvial: Fluvial, folder: Path) -> None:
    (folder / "pipe.py").write_text(PROTOBUF)
    (folder / "totals.jsonl").write_text('{"id":"ada","price":{"cents":"5"}}\n{"id":"bob"}\n')
    ended = fluvial("run", "pipe.py", "--input", "totals=totals.jsonl", "--output", "seen=-", "--quiet")
    assert (ended.code, ended.err, documents(ended.out)) == (0, "", [["ada", 5], ["bob", 0]])
    (folder / "totals.jsonl").write_text('{"id":"ada","prize":{}}\n')
    ended = fluvial("run", "pipe.py", "--input", "totals=totals.jsonl")
    assert ended.code == 2
    assert "prize" in ended.err


PROTOBUF = """
from fluvial.dsl import Pipeline
from fluvial.runtime.serdes import protobuf
from generators.shop_pipelines import Total

pipeline = Pipeline("pipe")
pipeline.stream("totals", value=protobuf(Total)).map(lambda total: [total.id, total.price.cents]).send_to("seen")
"""


@pytest.mark.parametrize(
    ("which", "keys"),
    [("texts", '"12345678"'), ("numbers", "7"), ("numbers", '"7"'), ("pairs", '["a",1]'), ("raw", '"\\u00e4"')],
)
def test_keys_are_those_of_the_stream(fluvial: Fluvial, folder: Path, which: str, keys: str) -> None:
    (folder / "names.jsonl").write_text(f'\n{{"id":{keys},"name":"Ada"}}\n')
    (folder / "orders.jsonl").write_text(f'{{"of":{keys},"what":"tea"}}\n')
    words = ("--input", "names=names.jsonl", "--input", "orders=orders.jsonl", "--output", "out=-", "--quiet")
    ended = fluvial("run", f"tables.py:{which}", *words, "--key-field", "id", "--key-field", "orders=of")
    assert (ended.code, ended.err, ended.out) == (0, "", '"tea for Ada"\n')


@pytest.mark.parametrize(
    ("which", "key", "wrong"),
    [("numbers", '"customer"', "of type int: "), ("raw", "7", "of type bytes: expected text, got 7\n")],
)
def test_a_key_that_is_none_of_the_stream_is_named(
    fluvial: Fluvial, folder: Path, which: str, key: str, wrong: str
) -> None:
    (folder / "names.jsonl").write_text(f'{{"id":{key},"name":"Ada"}}\n')
    (folder / "orders.jsonl").write_text("")
    words = ("--input", "names=names.jsonl", "--input", "orders=orders.jsonl", "--key-field", "id")
    ended = fluvial("run", f"tables.py:{which}", *words)
    assert ended.code == 2
    assert ended.err.startswith(f"it cannot be encoded as key {wrong}")


def test_without_keys_a_table_is_warned_of(fluvial: Fluvial, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "names.jsonl").write_text('{"id":"c","name":"Ada"}\n' * 1730)
    (folder / "orders.jsonl").write_text("")
    ended = fluvial("run", "tables.py:texts", "--input", "names=names.jsonl", "--input", "orders=orders.jsonl")
    assert ["keyless", "table", "names", "1,730"] in [line.split() for line in ended.out.splitlines()]
    assert "table 'names' was given messages without a key, " in caplog.text  # as many as there were by then
    assert "--key-field" in caplog.text


@pytest.mark.slow
def test_without_keys_several_containers_warn_once_of_all_rows(
    fluvial: Fluvial, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "names.jsonl").write_text('{"id":"c","name":"Ada"}\n' * 1730)
    (folder / "orders.jsonl").write_text("")
    words = ("--input", "names=names.jsonl", "--input", "orders=orders.jsonl", "--partitions", "4", "--containers", "2")
    ended = fluvial("run", "tables.py:texts", *words)
    assert ["keyless", "table", "names", "1,730"] in [line.split() for line in ended.out.splitlines()]
    assert "without a key" not in ended.err
    (warning,) = [line.message for line in caplog.records if "without a key" in line.message]
    assert warning.startswith("table 'names' was given messages without a key, ")  # as many as there were by then


def test_a_field_for_a_stream_without_a_file(fluvial: Fluvial, folder: Path) -> None:
    (folder / "f").write_text("")
    words = ("--input", "names=f", "--input", "orders=f", "--key-field", "other=id")
    ended = fluvial("run", "tables.py:texts", *words)
    assert (ended.code, ended.err.splitlines()[0]) == (2, "--key-field other=id")


def test_blank_lines_and_a_mark_are_no_json_values(fluvial: Fluvial, folder: Path) -> None:
    lines = (folder / "words.jsonl").read_bytes()
    (folder / "words.jsonl").write_bytes(b"\xef\xbb\xbf\n" + lines.replace(b"\n", b"\r\n \n"))
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--json")
    assert (ended.code, json.loads(ended.out)["read"]["words"]) == (0, 6)


def test_a_line_that_is_too_long_is_given_up(fluvial: Fluvial, folder: Path) -> None:
    (folder / "bomb.gz").write_bytes(gzip.compress(b'{"text":"a","at":1}\n' + b"0" * 100_000))
    for words in (("run", "letters.py", "--input", "words=bomb.gz"), ("produce", "words", "bomb.gz")):
        ended = fluvial(*words, "--max-line", "50kB")
        assert ended.code == 2
        assert ended.err.startswith("the line has more than 50,000 bytes\n  at bomb.gz:2\n")
        assert fluvial(*words, "--max-line", "many").code == 2
