"""A registry that answers, refuses, or is away."""

import json
import pickle
import shutil
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import certifi
import pytest

from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem, UsageError
from fluvial.runtime.serdes import Registry
from fluvial.runtime.serdes.schemas import Reference, RegisteredSchema, Schema
from generators.shop import CLICK, REFERRED_CLICK, record
from kafka.schema_registry import SchemaRegistry, schema_registry

SHORT = timedelta(milliseconds=200)
CLICKS = Schema("AVRO", json.dumps(CLICK))


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def test_a_schema_is_found_by_its_id(server: SchemaRegistry, registry: Registry) -> None:
    id = server.add("clicks-value", CLICK)
    assert registry.schema(id) == CLICKS


def test_a_schema_is_asked_for_once(server: SchemaRegistry, registry: Registry) -> None:
    id = server.add("clicks-value", CLICK)
    assert registry.schema(id) == registry.schema(id)
    assert server.asked("GET") == [f"/schemas/ids/{id}"]


def test_an_id_that_the_registry_does_not_know_is_an_error_of_the_message(registry: Registry) -> None:
    with pytest.raises(ValueError, match=f"the message names schema 7, which {registry.url} does not have"):
        registry.schema(7)


def test_what_a_schema_uses_comes_before_it(server: SchemaRegistry, registry: Registry) -> None:
    money = {"name": "shop.Money", "subject": "money", "version": 1}
    server.add("money", record("Money", cents="long"))
    server.add("price", record("Price", net="shop.Money"), references=[money])
    both = [money, {"name": "shop.Price", "subject": "price", "version": 1}]
    id = server.add("order", record("Order", price="shop.Price", paid="shop.Money"), references=both)
    found = registry.referenced(registry.schema(id))
    assert [json.loads(schema.text)["name"] for schema in found] == ["Money", "Price"]
    assert found[1].references == (Reference("shop.Money", "money", 1),)


def test_a_schema_is_registered_and_found(registry: Registry) -> None:
    assert registry.find("clicks-value", CLICKS, normalize=False) is None
    assert registry.latest("clicks-value") is None
    id = registry.register("clicks-value", CLICKS, normalize=False)
    assert registry.find("clicks-value", CLICKS, normalize=False) == RegisteredSchema(id, 1)
    assert registry.latest("clicks-value") == RegisteredSchema(id, 1)


def test_subjects_may_have_any_name(server: SchemaRegistry, registry: Registry) -> None:
    registry.register("shop/clicks value", CLICKS, normalize=True)
    assert server.schema("shop/clicks value") == CLICK


def test_rules_are_asked_for(server: SchemaRegistry, registry: Registry) -> None:
    server.add("clicks-value", CLICK)
    needy = Schema("AVRO", json.dumps(record("Click", agent="string")))
    assert registry.fits("clicks-value", Schema("AVRO", json.dumps(REFERRED_CLICK)), normalize=False)
    assert not registry.fits("clicks-value", needy, normalize=False)


def test_a_schema_that_the_rules_forbid_ends_the_run(server: SchemaRegistry, registry: Registry) -> None:
    server.add("clicks-value", CLICK)
    needy = Schema("AVRO", json.dumps(record("Click", agent="string")))
    with pytest.raises(SystemProblem) as raised:
        registry.register("clicks-value", needy, normalize=False)
    assert str(raised.value).splitlines() == [
        f"the schema registry at {server.url} would not take the schema for subject 'clicks-value': Schema being "
        "registered is incompatible with an earlier schema (HTTP status code 409, SR code 409)",
        f"  at {server.url}",
        "  expected: a registry that accepts this request",
        "  to do: make the schema compatible with the subject's versions, or choose another subject",
    ]


def test_an_outage_is_waited_for(server: SchemaRegistry, registry: Registry) -> None:
    id = server.add("clicks-value", CLICK)
    server.unwell = 3
    assert registry.schema(id) == CLICKS
    assert len(server.asked("GET")) == 4


def test_a_registry_that_stays_unwell_ends_the_run(server: SchemaRegistry) -> None:
    server.unwell = 1000
    with pytest.raises(SystemProblem) as raised:
        Registry(server.url, give_up_after=SHORT).schema(1)
    assert str(raised.value).splitlines() == [
        f"the schema registry at {server.url} is out of reach: it has not answered for 0.2 s; the last error: Service "
        "Unavailable (HTTP status code 503, SR code 50301)",
        f"  at {server.url}",
        "  expected: a server that speaks the API of Confluent's Schema Registry",
        "  to do: start it, or correct the address or the settings of TLS",
    ]


def test_a_registry_that_is_not_there_ends_the_run() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(SystemProblem, match=f"(?s)the schema registry at {url} is out of reach.*ConnectError"):
        Registry(url, give_up_after=SHORT).latest("clicks-value")


def test_where_the_first_address_is_silent_the_next_is_asked(server: SchemaRegistry) -> None:
    id = server.add("clicks-value", CLICK)
    registry = Registry(f"http://127.0.0.1:{closed_port()},{server.url}", give_up_after=SHORT)
    assert registry.schema(id) == CLICKS


def test_a_server_that_is_no_registry_is_told_from_one_that_lacks_a_schema(server: SchemaRegistry) -> None:
    with pytest.raises(SystemProblem, match=r"(?s)would not give schema 1: .*404.*correct the address"):
        Registry(f"{server.url}/elsewhere", give_up_after=SHORT).schema(1)


def test_a_password_opens_and_is_never_shown() -> None:
    with schema_registry(login="ada:s3cret") as server:
        id = server.add("clicks-value", CLICK)
        known = Registry(server.url, conf={"basic.auth.user.info": "ada:s3cret"}, give_up_after=SHORT)
        assert known.schema(id) == CLICKS
        assert repr(known) == f"Registry({server.url!r})"
        with pytest.raises(SystemProblem, match=r"(?s)would not give schema 1: Unauthorized.*basic.auth.user.info"):
            Registry(server.url, give_up_after=SHORT).schema(id)


REQUESTS: list[tuple[Callable[[Registry], object], str]] = [
    (lambda asked: asked.schema(1), "give schema 1"),
    (lambda asked: asked.register("s", CLICKS, normalize=False), "take the schema for subject 's'"),
    (lambda asked: asked.find("s", CLICKS, normalize=False), "look for the schema of subject 's'"),
    (lambda asked: asked.latest("s"), "give the newest version of subject 's'"),
    (lambda asked: asked.fits("s", CLICKS, normalize=False), "judge the schema for subject 's'"),
    (lambda asked: asked.referenced(Schema("AVRO", "", (Reference("r", "s", 2),))), "give version 2 of subject 's'"),
]


@pytest.mark.parametrize(("call", "what"), REQUESTS, ids=[case[1] for case in REQUESTS])
def test_a_callthat_is_refused_says_what_was_wanted(call: Callable[[Registry], object], what: str) -> None:
    with schema_registry(login="ada:s3cret") as server, pytest.raises(SystemProblem, match=f"would not {what}: Unauth"):
        call(Registry(server.url, give_up_after=SHORT))


def test_it_travels_to_other_processes_with_its_settings() -> None:
    with schema_registry(login="ada:s3cret") as server:
        id = server.add("clicks-value", CLICK)
        known = Registry(server.url, conf={"basic.auth.user.info": "ada:s3cret"}, give_up_after=SHORT)
        assert known.schema(id) == CLICKS  # and now it has a client
        assert pickle.loads(pickle.dumps(known)).schema(id) == CLICKS


def test_a_file_that_another_machine_has_is_no_fault_of_a_message(server: SchemaRegistry, tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    shutil.copy(certifi.where(), certificates)
    sent = pickle.dumps(Registry(server.url, conf={"ssl.ca.location": str(certificates)}))
    certificates.unlink()
    with pytest.raises(SystemProblem, match="refuses its settings"):
        pickle.loads(sent).schema(1)


made: Any = Registry
REFUSED: list[tuple[Any, str, str]] = [
    (lambda: made("localhost:8081"), "'localhost:8081' names no registry", "http://HOST:PORT"),
    (lambda: made(3), "3 names no registry", "http://HOST:PORT"),
    (lambda: made("http://a:s3cret@host"), "the URL of a registry has a user or a password in it", "http://HOST:PORT"),
    (lambda: made("http://h", give_up_after=3), "give_up_after=3", "a timedelta of at least 100 ms"),
    (lambda: made("http://h", conf={"max.retries": 3}), "'max.retries' of a registry is not yours", "give_up_after"),
    (lambda: made("http://h", conf={"colour": "red"}), "refuses its settings: Unrecognized properties", "settings of"),
    (lambda: made("http://h", conf={"basic.auth.user.info": "s3cret"}), "refuses its settings", "settings of"),
]


@pytest.mark.parametrize(("place", "wrong", "expected"), REFUSED, ids=[case[1] for case in REFUSED])
def test_wrong_settings_are_refused_where_they_are_written(place: Any, wrong: str, expected: str) -> None:
    raised = error_of(place, UsageError)
    assert_explains(raised, wrong, place, expected)
    assert "s3cret" not in str(raised)
