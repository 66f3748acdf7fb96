"""Reviews with what a language model says of them: within its limits of tokens, a budget, and nothing paid twice.

Start the stand-in for the model in one terminal, or name a service by the environment variable MODEL_URL; then run the
pipeline, which needs aiohttp:

    python examples/llm_enrichment.py --serve 8660
    fluvial run examples/llm_enrichment.py --system log:.fluvial --until end \\
        --input reviews=reviews.jsonl --input-format json --output enriched=-

A review is a line such as {"product": "tea", "text": "warm, and never bitter"}. `curl localhost:8660/spent` tells what
the model was asked. What is over the budget is in the stream llm-enrichment-dead-letters. On the local engine alone:
no task of Spark's knows what others have spent.
"""

import argparse
import asyncio
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

import aiohttp
import msgspec
from aiohttp import web

from fluvial.dsl import BudgetExhausted, Limit, Pipeline, Retry, dead_letter, resource

TOKENS_A_SECOND = 4_000
"""What the model answers; the pipeline asks for a little less."""
EUROS_A_TOKEN = 0.00002
BUDGET = float(os.environ.get("MODEL_BUDGET", "0.50"))
"""What a run may spend, in euros."""
INSTRUCTIONS = 60
"""Tokens of each call besides those of the review."""


@dataclass(frozen=True, slots=True)
class Review:
    """What comes in."""

    product: str
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the model says, and for how many tokens."""

    mood: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Enriched:
    """What goes out."""

    review: Review
    answer: Answer


class Refused(Exception):
    """The model has too much to do; it says when it may be asked again."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        super().__init__(f"the model answers {answer.status}")
        self.wait = answer.headers.get("Retry-After")


def estimate(review: Review) -> int:
    """About how many tokens a call takes: one for four characters of text, and those of the answer."""
    return INSTRUCTIONS + len(review.text) // 4


def tokens(_: Review, results: list[Enriched]) -> int:
    """How many tokens a call has taken."""
    return sum(enriched.answer.tokens for enriched in results)


def euros(review: Review, results: list[Enriched]) -> float:
    """What a call has cost."""
    return tokens(review, results) * EUROS_A_TOKEN


LIMIT = Limit(
    "model",
    tokens=0.9 * TOKENS_A_SECOND,
    per=timedelta(seconds=1),
    estimate=estimate,
    used=tokens,
    budget=BUDGET,
    cost=euros,
    when_exhausted="error",
)


@resource
def session() -> aiohttp.ClientSession:
    """Each process makes its own client."""
    return aiohttp.ClientSession(os.environ.get("MODEL_URL", "http://127.0.0.1:8660"))


async def enrich(review: Review, client: aiohttp.ClientSession) -> list[Enriched]:
    """A review with the model's answer."""
    async with client.post("/ask", data=review.text.encode()) as answer:
        if answer.status != 200:
            raise Refused(answer)
        return [Enriched(review, msgspec.json.decode(await answer.read(), type=Answer))]


pipeline = Pipeline("llm-enrichment", on_error=dead_letter(on=(BudgetExhausted,)))
(
    pipeline.stream("reviews", value=Review)
    .partition_by(lambda review: review.product, id="by-product", key_type=str)
    .async_flat_map(
        enrich,
        id="ask",
        resource=session,
        limit=LIMIT,
        journal=True,  # after a crash no answer is paid again
        max_in_flight=50,
        retry=Retry(attempts=5, after=lambda error: error.wait if isinstance(error, Refused) else None),
    )
    .send_to("enriched")
)


# The model: it stands for one that is far away, slow, and dear.


@dataclass(slots=True)
class Model:
    """Answers within its limit of tokens, and refuses what is above it."""

    latency: float = 0.05
    spent: int = 0
    asked: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    _last: "deque[tuple[float, int]]" = field(default_factory=deque)

    async def ask(self, request: web.Request) -> web.Response:
        """POST /ask"""
        text, now = (await request.read()).decode(), time.monotonic()
        wanted = INSTRUCTIONS + len(text) // 4
        while self._last and self._last[0][0] <= now - 1:
            self._last.popleft()
        if sum(taken for _, taken in self._last) + wanted > TOKENS_A_SECOND:
            self.refused += 1
            return web.Response(status=429, headers={"Retry-After": "1"})
        self._last.append((now, wanted))
        self.spent += wanted
        self.asked[text] = self.asked.get(text, 0) + 1
        await asyncio.sleep(self.latency)
        return web.json_response({"mood": mood_of(text), "tokens": wanted})

    async def told(self, _: web.Request) -> web.Response:
        """GET /spent: tokens, refused requests, and how many texts were paid more than once."""
        twice = sum(times > 1 for times in self.asked.values())
        return web.json_response({"tokens": self.spent, "refused": self.refused, "twice": twice})


def mood_of(text: str) -> str:
    """What the model says of a text."""
    return ("pleased", "cross", "amused")[len(text) % 3]


async def serve(port: int, ready: Callable[[int], None]) -> None:
    """Serve until cancelled; `ready` is told the port, which is a free one if 0 was asked for."""
    model, app = Model(), web.Application()
    app.add_routes([web.post("/ask", model.ask), web.get("/spent", model.told)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        ready(runner.addresses[0][1])
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="A stand-in for a language model.")
    options.add_argument("--serve", type=int, metavar="PORT", required=True, help="where to listen; 0: a free port")
    given = options.parse_args()
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(given.serve, lambda port: print(f"http://127.0.0.1:{port}", flush=True)))
