"""Values whose messages name their schema."""

import json
import pickle
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry import avro as in_avro
from confluent_kafka.schema_registry import protobuf as in_protobuf
from confluent_kafka.serialization import MessageField, SerializationContext

from explained import assert_explains, error_of
from fluvial.dsl import PipelineError, Serde, SystemProblem
from fluvial.runtime.serdes import Registry, avro, protobuf
from fluvial.runtime.serdes.framing import head
from generators.shop import CLICK, MESSAGES, REFERRED_CLICK, Click, ReferredClick, record
from kafka.schema_registry import SchemaRegistry

CLICKED = Click("ada", "/", 5)


@pytest.fixture
def clicks(registry: Registry) -> Serde[Click]:
    """Clicks as the older program writes and reads them."""
    return avro(CLICK, type=Click, registry=registry, subject="clicks-value")


@pytest.fixture
def referred(registry: Registry) -> Serde[ReferredClick]:
    """Clicks as the newer program writes and reads them."""
    return avro(REFERRED_CLICK, type=ReferredClick, registry=registry, subject="clicks-value")


def test_a_message_names_its_schema(clicks: Serde[Click], server: SchemaRegistry) -> None:
    server.add("others", record("Other"))
    assert clicks.encode(CLICKED) == head(2) + avro(CLICK, type=Click).encode(CLICKED)
    assert server.schema("clicks-value") == CLICK


def test_the_registry_is_asked_once_to_write_and_once_to_read(clicks: Serde[Click], server: SchemaRegistry) -> None:
    messages = [clicks.encode(CLICKED) for _ in range(3)]
    assert {clicks.decode(message) for message in messages} == {CLICKED}
    assert len(server.requests) == 2


def test_a_newer_program_reads_older_messages(clicks: Serde[Click], referred: Serde[ReferredClick]) -> None:
    assert referred.decode(clicks.encode(CLICKED)) == ReferredClick("ada", "/", 5, "")


def test_an_older_program_reads_newer_messages(clicks: Serde[Click], referred: Serde[ReferredClick]) -> None:
    clicks.encode(CLICKED)
    assert clicks.decode(referred.encode(ReferredClick("ada", "/", 5, "/home"))) == CLICKED


def test_a_schema_that_uses_others_is_read(server: SchemaRegistry, registry: Registry) -> None:
    server.add("money", record("Money", cents="long"))
    money = [{"name": "shop.Money", "subject": "money", "version": 1}]
    id = server.add("order", record("Order", id="string", paid="shop.Money"), references=money)
    whole = record("Order", paid=record("Money", cents="long"))
    orders = avro(whole, registry=registry, subject="order")
    assert orders.decode(head(id) + b"\x02a\x0e") == {"paid": {"cents": 7}}


def test_reading_registers_nothing(clicks: Serde[Click], server: SchemaRegistry) -> None:
    id = server.add("clicks-value", REFERRED_CLICK)
    clicks.decode(head(id) + avro(REFERRED_CLICK).encode({"user": "ada", "url": "/", "at": 5}))
    assert server.asked("POST") == []


def test_only_what_was_registered_before_is_written_if_that_is_wished(
    server: SchemaRegistry, registry: Registry
) -> None:
    strict = avro(CLICK, type=Click, registry=registry, subject="clicks-value", register=False)
    with pytest.raises(SystemProblem, match=r"subject 'clicks-value' of .* does not have the schema") as raised:
        strict.encode(CLICKED)
    assert_explains(raised.value, "does not have the schema", None, "registered before", "leave out register=False")
    id = server.add("clicks-value", json.dumps(CLICK).replace(" ", ""))
    assert strict.encode(CLICKED).startswith(head(id))


@pytest.mark.parametrize("normalize", [False, True])
def test_schemas_are_normalized_if_that_is_wished(server: SchemaRegistry, registry: Registry, normalize: bool) -> None:
    avro(CLICK, registry=registry, subject="s", normalize=normalize).encode({"user": "ada", "url": "/", "at": 5})
    assert server.asked("POST") == [f"/subjects/s/versions?normalize={normalize}"]


def test_a_value_that_is_none_registers_nothing(clicks: Serde[Any], server: SchemaRegistry) -> None:
    with pytest.raises(ValueError, match=r"the value is none of Avro's shop.Click"):
        clicks.encode({"user": "ada"})
    assert server.requests == []


def test_a_message_with_the_schema_of_another_format_is_not_decoded(clicks: Serde[Click], registry: Registry) -> None:
    messages = protobuf(MESSAGES["shop.Click"], registry=registry, subject="other")
    data = messages.encode(MESSAGES["shop.Click"](user="ada"))
    with pytest.raises(ValueError, match=r"schema 2 of .* is one of PROTOBUF, not AVRO"):
        clicks.decode(data)


def test_a_message_with_a_schema_that_does_not_fit_is_not_decoded(clicks: Serde[Click], server: SchemaRegistry) -> None:
    id = server.add("others", record("Click", user="long"))
    with pytest.raises(ValueError, match=r"the message is none of Avro's shop.Click"):
        clicks.decode(head(id) + b"\x02")


def test_a_message_with_a_schema_that_is_none_is_not_decoded(clicks: Serde[Click], server: SchemaRegistry) -> None:
    id = server.add("others", "{}")
    with pytest.raises(ValueError, match="the schema that the message names is none of Avro's"):
        clicks.decode(head(id) + b"\x02")


def test_one_that_names_no_schema_is_not_decoded(clicks: Serde[Click]) -> None:
    with pytest.raises(ValueError, match="names no schema"):
        clicks.decode(b'{"user":"ada"}')


def test_it_travels_to_other_processes(clicks: Serde[Click]) -> None:
    data = clicks.encode(CLICKED)
    sent = pickle.loads(pickle.dumps(clicks))
    assert (sent.decode(data), sent.encode(CLICKED)) == (CLICKED, data)


def test_it_shows_no_settings(server: SchemaRegistry) -> None:
    told = Registry(server.url, conf={"basic.auth.user.info": "ada:s3cret"})
    assert "s3cret" not in repr(avro(CLICK, registry=told, subject="s"))


confluent: Any = SimpleNamespace(**{**vars(in_avro), **vars(in_protobuf)})  # whose types say less than they take
CLICKS_VALUE = SerializationContext("clicks", MessageField.VALUE)


def test_confluents_own_serdes_write_and_read_the_same(clicks: Serde[Click], server: SchemaRegistry) -> None:
    client, place = SchemaRegistryClient({"url": server.url}), CLICKS_VALUE
    value = {"user": "ada", "url": "/", "at": 5}
    theirs = confluent.AvroSerializer(client, json.dumps(CLICK))(value, place)
    assert clicks.decode(theirs) == CLICKED
    assert confluent.AvroDeserializer(client)(clicks.encode(CLICKED), place) == value


@pytest.mark.parametrize("name", ["shop.Click", "shop.Order", "shop.Order.Line"])
def test_confluents_own_serdes_of_protobuf_do_so_too(name: str, registry: Registry, server: SchemaRegistry) -> None:
    client, conf, kind = SchemaRegistryClient({"url": server.url}), {"use.deprecated.format": False}, MESSAGES[name]
    ours, value = protobuf(kind, registry=registry, subject="clicks-value"), kind()
    theirs = confluent.ProtobufSerializer(kind, client, conf)(value, CLICKS_VALUE)
    assert ours.encode(value) == theirs
    assert confluent.ProtobufDeserializer(kind, conf, client)(theirs, CLICKS_VALUE) == ours.decode(theirs) == value


# What `fluvial check` says.


def checked(serde: Serde[Any], *, writes: bool = True) -> str:
    assert serde.check is not None
    return serde.check(writes).replace(r"http://127.0.0.1:", "").partition(" of ")[2].partition(" ")[2]


def test_a_check_of_a_new_subject(clicks: Serde[Click], server: SchemaRegistry) -> None:
    assert checked(clicks, writes=False) == "has no schema yet"
    assert checked(clicks) == "will be given its first schema"
    assert server.subjects == {}


def test_a_check_of_a_schema_that_fits(referred: Serde[Any], server: SchemaRegistry) -> None:
    server.add("clicks-value", CLICK)
    assert checked(referred, writes=False) == "has version 1"
    assert checked(referred) == "takes the schema after its version 1"
    assert server.subjects == {"clicks-value": [1]}


def test_a_check_of_a_schema_that_does_not_fit(server: SchemaRegistry, registry: Registry) -> None:
    server.add("clicks-value", CLICK)
    place: Any = lambda: avro(record("Click", agent="string"), registry=registry, subject="clicks-value")  # noqa: E731
    serde = place()
    raised = error_of(lambda: checked(serde), PipelineError)
    expected = "a schema that its compatibility level allows"
    assert_explains(raised, "does not take the schema after its version 1", place, expected, "choose another subject")


def test_a_check_of_a_schema_that_must_be_there(server: SchemaRegistry, registry: Registry) -> None:
    strict = avro(CLICK, registry=registry, subject="clicks-value", register=False)
    with pytest.raises(SystemProblem, match="does not have the schema"):
        checked(strict)
    server.add("clicks-value", json.dumps(CLICK).replace(" ", ""))
    assert checked(strict) == "has the schema, with id 1"


def test_a_check_of_a_file_whose_imports_are_not_registered(server: SchemaRegistry, registry: Registry) -> None:
    server.add("orders-value", CLICK)
    orders = protobuf(MESSAGES["shop.Order"], registry=registry, subject="orders-value")
    assert checked(orders) == "will be given the schema"
    assert server.asked("POST") == ["/subjects/shop%2Fmoney.proto?normalize=False&deleted=False"]


# Misuse.

somewhere: Any = Registry("http://localhost:1", give_up_after=timedelta(seconds=1))
some: Any = avro
REFUSED: list[tuple[Any, str, str, str]] = [
    (lambda: some(CLICK, registry=somewhere), "subject=None", "the subject of the registry", 'subject="STREAM-value"'),
    (lambda: some(CLICK, registry=somewhere, subject=""), "subject=''", "the subject of the registry", ""),
    (lambda: some(CLICK, registry="http://h"), "registry='http://h'", "a Registry", "Registry("),
    (lambda: some(CLICK, subject="s"), "subject without a registry", "a registry that it is given", "registry="),
    (lambda: some(CLICK, register=False), "register without a registry", "a registry that it is given", "registry="),
    (lambda: some(CLICK, normalize=True), "normalize without a registry", "a registry that it is given", "registry="),
    (lambda: some(CLICK, register=1), "register=1", "True or False", ""),
]


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), REFUSED, ids=[case[1] for case in REFUSED])
def test_wrong_arguments_are_refused_where_they_are_written(place: Any, wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(place, PipelineError), wrong, place, expected, remedy)
