"""A schema registry for each test."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from fluvial.runtime.serdes import Registry
from kafka.schema_registry import SchemaRegistry, schema_registry


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    """A registry that answers on loopback."""
    with schema_registry() as registry:
        yield registry


@pytest.fixture
def registry(server: SchemaRegistry) -> Registry:
    """The same, as a pipeline knows it."""
    return Registry(server.url, give_up_after=timedelta(seconds=2))
