"""Orders with what a web service knows of their customers: many calls at once, results in order for each customer.

Start the service in one terminal, or name another one by the environment variable ENRICH_URL; then run the pipeline:

    python examples/enrich.py --serve 8642
    fluvial run examples/enrich.py --input orders=orders.jsonl --input-format json --output enriched=-

An order is a line such as {"customer": "ada", "item": "tea", "cents": 250}. On Spark: add `--engine spark`.
`curl localhost:8642/peak` tells the most calls that the service had to answer at once.
"""

import argparse
import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote, urlsplit

import msgspec

from fluvial.dsl import Pipeline, Retry, resource

MAX_IN_FLIGHT = 20


@dataclass(frozen=True, slots=True)
class Order:
    """What comes in."""

    customer: str
    item: str
    cents: int


@dataclass(frozen=True, slots=True)
class Customer:
    """What the service knows."""

    name: str
    country: str


@dataclass(frozen=True, slots=True)
class Enriched:
    """What goes out."""

    order: Order
    country: str


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Customers:
    """A client of the service: HTTP over connections that are kept open and used again."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._idle: list[Connection] = []

    def close(self) -> None:
        """Close the connections."""
        for _, writer in self._idle:
            writer.close()

    async def get(self, path: str) -> bytes:
        """The body of a page; raises OSError for another status than 200, and as streams do."""
        connection = await self._connection()
        reader, writer = connection
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {urlsplit(self._url).netloc}\r\n\r\n".encode())
            status, size = await read_head(reader)
            body = await reader.readexactly(size)
        except BaseException:
            # Also where a timeout cancels the call: the rest of the answer must not be taken for the next one.
            writer.close()
            raise
        self._idle.append(connection)
        if " 200 " not in status:
            raise OSError(f"{self._url}{path} answers {status}")
        return body

    async def _connection(self) -> Connection:
        if self._idle:
            return self._idle.pop()
        address = urlsplit(self._url)
        return await asyncio.open_connection(address.hostname, address.port or 80)


async def read_head(reader: asyncio.StreamReader) -> tuple[str, int]:
    """The first line of a request or an answer, and how many bytes of body follow its headers."""
    first, *headers = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
    named = dict(header.lower().split(": ", 1) for header in headers)
    return f"{first} ", int(named.get("content-length", 0))


@resource
def clients() -> Customers:
    """Each process makes its own client, and closes it at the end."""
    return Customers(os.environ.get("ENRICH_URL", "http://127.0.0.1:8642"))


async def enrich(order: Order, customers: Customers) -> list[Enriched]:
    """An order with its customer's country."""
    body = await customers.get(f"/customers/{quote(order.customer)}")
    return [Enriched(order, msgspec.json.decode(body, type=Customer).country)]


pipeline = Pipeline("enrich")
(
    pipeline.stream("orders", value=Order)
    .partition_by(lambda order: order.customer, id="by-customer", key_type=str)
    .async_flat_map(
        enrich,
        id="look-up",
        max_in_flight=MAX_IN_FLIGHT,  # of each task
        order="key",
        timeout=timedelta(seconds=5),
        retry=Retry(attempts=5, delay=timedelta(milliseconds=50)),
        resource=clients,
    )
    .send_to("enriched")
)


# The service: it stands for one that is far away, and knows the country of everybody.

COUNTRIES = ("Chile", "Ghana", "Japan", "Norway")


class Service:
    """Answers each request after `delay` seconds; `peak` is the most requests that were open at once."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._open = 0
        self.peak = 0

    async def converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection, one after the other."""
        try:
            while True:
                request, _ = await read_head(reader)
                body = msgspec.json.encode(await self._answer(request.split()[1]))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # The client has gone.
        finally:
            writer.close()

    async def _answer(self, path: str) -> object:
        if path == "/peak":
            return self.peak
        self._open += 1
        self.peak = max(self.peak, self._open)
        try:
            await asyncio.sleep(self._delay)
        finally:
            self._open -= 1
        name = path.rpartition("/")[2]
        return Customer(name, country_of(name))


def country_of(name: str) -> str:
    """What the service knows of a customer."""
    return COUNTRIES[sum(name.encode()) % len(COUNTRIES)]


async def serve(port: int, delay: float, ready: Callable[[int], None]) -> None:
    """Serve until cancelled; `ready` is told the port, which is a free one if 0 was asked for."""
    server = await asyncio.start_server(Service(delay).converse, "127.0.0.1", port)
    async with server:
        ready(server.sockets[0].getsockname()[1])
        await server.serve_forever()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="A web service that knows customers.")
    options.add_argument("--serve", type=int, metavar="PORT", required=True, help="where to listen; 0: a free port")
    options.add_argument("--delay", type=float, metavar="MS", default=5, help="how long an answer takes")
    given = options.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(given.serve, given.delay / 1000, lambda port: print(f"http://127.0.0.1:{port}", flush=True)))
