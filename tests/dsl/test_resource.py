"""Resources as a user declares them: what is taken for a factory, and what is refused before a run."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import KeyedProcessor, Message, Pipeline, PipelineError, Resource, resource
from fluvial.dsl.resource import opens_itself


class Client:
    """A client as libraries have them: an asynchronous context manager."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class Pool:
    """What is opened and closed by methods of its own."""

    async def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    async def __call__(self, value: int) -> list[int]:
        return [value]

    async def read(self, key: str) -> str | None:
        return key


class Archive(Pool):
    """What opens something each time: it has an `open` of another kind."""

    async def open(self, name: str) -> None:  # type: ignore[override]
        del name


class Passing(KeyedProcessor[str, int, int]):
    """A processor with a connection of its own."""

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def on_message(self, message: Message[int], context: Any) -> list[int]:  # noqa: ARG002
        return [message.value]


class Written(dict[str, int]):
    """Has methods of C, one of them without a signature."""

    open = dict.clear
    close = dict.pop


async def asked(value: int, client: Any) -> list[int]:
    del client
    return [value]


async def stored(key: str, row: str | None, client: Any) -> None:
    del key, row, client


async def read(key: str, client: Any) -> str | None:
    del client
    return key


async def gives() -> Client:
    return Client()


async def lazily() -> AsyncIterator[Client]:
    yield Client()


def opened_by(pipeline: Pipeline) -> list[Any]:
    return [thing for operator in pipeline.operators for thing in operator.opens]


@pytest.mark.parametrize("factory", [Client, gives, partial(Client), lambda: 3, asynccontextmanager(lazily)])
def test_what_can_be_called_without_arguments_makes_a_client(factory: Callable[[], Any]) -> None:
    assert resource(factory).factory is factory


def test_a_resource_is_named_by_its_factory_and_is_the_same_as_itself_alone() -> None:
    @resource
    def clients() -> Client:
        return Client()

    again: Resource[Client] = resource(clients.factory)
    assert (clients.name, repr(clients)) == ("clients", "resource(clients)")
    assert clients.origin.file == __file__
    assert len({clients, clients, again}) == 2


MAKES = "a function without arguments that makes a client"


@pytest.mark.parametrize(
    ("given", "wrong", "remedy"),
    [
        (lambda: Client(), "an object of Client, which may be open", "pass a function that makes it"),
        (lambda: Pool(), "an object of Pool, which may be open", "pass a function that makes it"),
        (lambda: 3, "resource got 3", "pass a function that makes it"),
        (lambda: resource(Client), "which is one already", "pass it as resource="),
        (lambda: lazily, "the generator lazily", "contextlib.asynccontextmanager"),
    ],
)
def test_what_makes_no_client_is_refused(given: Callable[[], Any], wrong: str, remedy: str) -> None:
    factory: Any = given()
    assert_explains(error_of(lambda: resource(factory), PipelineError), wrong, None, MAKES, remedy)


def test_a_factory_takes_nothing() -> None:
    factory: Any = lambda name: name  # noqa: E731
    error = error_of(lambda: resource(factory), PipelineError)
    assert_explains(error, "cannot be called with no arguments", None, "a function that can be called as fn()")


def test_a_client_in_place_of_a_resource_is_refused() -> None:
    words = Pipeline("p").stream("in", value=int)
    given: Any = gives
    error = error_of(lambda: words.async_flat_map(asked, id="c", resource=given), PipelineError)
    assert_explains(error, "async_flat_map 'c': resource=", None, "a Resource", "write resource=resource(gives)")


def test_a_function_with_a_resource_takes_the_client_too() -> None:
    pipeline, clients = Pipeline("p"), resource(Client)
    alone: Any = Pool().read
    numbers = pipeline.stream("in", value=int)
    error_of(lambda: numbers.async_flat_map(alone, id="c", resource=clients), PipelineError)
    error_of(lambda: pipeline.remote_table("t", read=alone, resource=clients), PipelineError)
    error_of(lambda: pipeline.remote_table("t", read=read, write=alone, resource=clients), PipelineError)


def test_an_operator_tells_what_is_to_be_opened_for_it() -> None:
    pipeline, clients, pool, other, passing = Pipeline("p"), resource(Client), Pool(), Pool(), Passing()
    table = pipeline.remote_table("t", read=read, write=stored, resource=clients)
    numbers = pipeline.stream("in", key=str, value=int)
    numbers.async_flat_map(asked, id="given", resource=clients).send_to("out")
    numbers.async_flat_map(pool, id="called").send_to("out")
    numbers.join(pipeline.remote_table("u", read=partial(other.read)), lambda n, _: n, id="joined").send_to("out")
    numbers.join(table, lambda n, _: n, id="looked").send_to("out")
    numbers.map(str).send_to(table)
    numbers.process(passing, id="passing").send_to("out")
    assert opened_by(pipeline) == [clients, pool, other, clients, clients, passing]


def test_methods_without_a_signature_count() -> None:
    assert opens_itself(Written())


@pytest.mark.parametrize("thing", [3, Client(), Archive(), Pool, gives, pytest])
def test_what_has_no_open_and_close_of_that_kind_is_left_alone(thing: object) -> None:
    assert not opens_itself(thing)
