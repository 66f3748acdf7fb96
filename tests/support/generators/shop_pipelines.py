"""A pipeline from Avro to Protobuf, and the clicks that it counts."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from fluvial.dsl import Pane, Pipeline, Serde, count, fail, msgpack, tumbling
from fluvial.dsl.error_policy import ErrorPolicy
from fluvial.runtime.serdes import Registry, avro, protobuf
from fluvial.runtime.systems.contract import System
from generators.shop import CLICK, MESSAGES, REFERRED_CLICK, Click, ReferredClick
from kafka.schema_registry import SchemaRegistry

Total = MESSAGES["shop.Order"]
HOUR = timedelta(hours=1)
CLICKS = [Click(user, "/", 1_700_000_000_000 + number) for number, user in enumerate(["ada", "bob", "ada"])]


def counts(registry: Registry, on_error: ErrorPolicy | None = None) -> Pipeline:
    """Clicks of an hour by user: Avro comes in, Protobuf goes out, and MessagePack lies between."""
    clicks = avro(REFERRED_CLICK, type=ReferredClick, registry=registry, subject="clicks-value")
    totals: Serde[Any] = protobuf(Total, registry=registry, subject="totals-value")

    def to_total(pane: Pane[str, int]) -> Any:
        return Total(id=pane.key, price={"cents": pane.value})

    pipeline = Pipeline("counts", on_error=on_error or fail())
    (
        pipeline.stream("clicks", value=clicks, timestamp=lambda click: click.at)
        .partition_by(lambda click: click.user, id="by-user", key_type=str, value=msgpack(ReferredClick))
        .window(tumbling(HOUR), count(), id="count")
        .map(to_total)
        .send_to("totals", value=totals)
    )
    return pipeline


def append(system: System, stream: str, values: Iterable[bytes]) -> None:
    system.admin().create(stream, 1)
    transaction = system.producer().begin()
    transaction.append(stream, 0, [(None, value, 0, ()) for value in values])
    transaction.commit()


def read(system: System, stream: str) -> list[bytes | None]:
    consumer = system.consumer()
    consumer.assign({(stream, 0): 0})
    found = [record[1] for batch in consumer.poll(0.1) for record in batch.records]
    consumer.close()
    return found


def encoded(registry: Registry, clicks: Iterable[Click] = CLICKS) -> list[bytes]:
    """Clicks as an older program has written them."""
    return [*map(avro(CLICK, type=Click, registry=registry, subject="clicks-value").encode, clicks)]


def impatient(server: SchemaRegistry) -> Registry:
    """A registry that is given up soon."""
    return Registry(server.url, give_up_after=timedelta(milliseconds=200))
