"""The verb `top`: shows a run live, from the addresses at which its containers serve metrics."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, build_opener

import msgspec
from rich.console import Console
from rich.live import Live

from ....dsl.errors import SystemProblem, UsageError
from ....dsl.validation import explain
from ....planner.plan import PlannedOperator
from ....planner.shown_operators import distinct_labels
from ...metrics.endpoints import endpoints
from ...report import Progress
from ..top_overview import Overview, overview
from ..top_screen import screen

# Addresses are asked one after the other, so one that hangs holds up the whole screen for so long.
ANSWER_SECONDS = 5.0
WHY_BYTES = 500
"""Most bytes shown of the text of a server's error."""
_ADDRESS = re.compile(r"(?:http://)?(?:(?P<host>[\w.-]+|\[[0-9A-Fa-f:]+\]):)?(?P<port>\d{1,5})(?:/|/metrics)?")
# Without a proxy: containers run on this machine or near it.
_open = build_opener(ProxyHandler({})).open


def addresses(words: Sequence[str]) -> list[str]:
    """The URLs of containers. A word is an address, or the name of a pipeline that is served on this machine; without
    words, the only pipeline that is. Raises `UsageError` if there is none, or more than one.

    >>> addresses(["9100", "http://worker-2:9100/metrics"])
    ['http://127.0.0.1:9100', 'http://worker-2:9100']
    """
    urls = [_address(word) for word in words]
    named = {word for word, url in zip(words, urls, strict=True) if url is None}
    known = [endpoint for endpoint in endpoints() if not words or endpoint.pipeline in named]
    pipelines = sorted({endpoint.pipeline for endpoint in known})
    missing = sorted(named - {*pipelines})
    if missing or (not words and len(pipelines) != 1):
        there = ", ".join(sorted({endpoint.pipeline for endpoint in endpoints()})) or "none"
        wrong = f"no run of {missing[0]!r} serves metrics here" if missing else f"runs that serve metrics here: {there}"
        expected = f"the name of one of these: {there}; or HOST:PORT" if missing else "one, or the name of one"
        remedy = "start it with fluvial run --metrics-port 0"
        raise UsageError(explain(wrong, expected, remedy, "the command line"))
    return [*filter(None, urls), *(endpoint.url for endpoint in known)]


def _address(word: str) -> str | None:
    match = _ADDRESS.fullmatch(word)
    return f"http://{match['host'] or '127.0.0.1'}:{match['port']}" if match else None


def progress_of(urls: Sequence[str]) -> list[Progress]:
    """The progress of the containers at these addresses, except those that do not answer. Raises `SystemProblem` if
    none does."""
    containers, problems = [], []
    for url in urls:
        try:
            with _open(f"{url}/progress.json", timeout=ANSWER_SECONDS) as answer:
                containers.append(msgspec.json.decode(answer.read(), type=Progress))
        except (OSError, msgspec.DecodeError) as error:
            problems.append(f"{url}: {_reason(error)}")
    if not containers:
        wrong = f"no run answers at {'; '.join(problems)}"
        raise SystemProblem(explain(wrong, "a run with --metrics-port", "check that it runs", "the command line"))
    others = sorted({progress.pipeline for progress in containers})
    if len(others) > 1:
        wrong = f"these serve more than one pipeline: {', '.join(others)}"
        raise UsageError(explain(wrong, "the addresses of one", "", "the command line"))
    # By length first, so that container 10 comes after container 9.
    return sorted(containers, key=lambda progress: (len(progress.container), progress.container))


def _reason(error: Exception) -> object:
    if isinstance(error, HTTPError):  # the server says why
        with error:
            return error.read(WHY_BYTES).decode(errors="replace").strip()
    return error.reason if isinstance(error, URLError) else error


class _Operators(msgspec.Struct):
    """The part of a plan that lists its operators."""

    operators: tuple[PlannedOperator, ...]


def labels(words: Sequence[str]) -> dict[str, str]:
    """The labels of the operators by id; empty if no container serves its plan."""
    for url in addresses(words):
        with suppress(OSError, msgspec.DecodeError), _open(f"{url}/plan.json", timeout=ANSWER_SECONDS) as answer:
            # All containers serve the same plan, so the first answer is enough.
            return distinct_labels(msgspec.json.decode(answer.read(), type=_Operators).operators)
    return {}


def overviews(words: Sequence[str], pause: Callable[[], None]) -> Iterator[Overview]:
    """Overviews until no run answers. Addresses are looked up each time: a restarted container may have another one."""
    before: list[Progress] = []
    while True:
        try:
            now = progress_of(addresses(words))
        except (SystemProblem, UsageError):
            if not before:
                raise
            return
        yield overview(now, before, labels(words))
        before = now
        pause()


def once(words: Sequence[str]) -> Overview:
    """A run as it is now."""
    return overview(progress_of(addresses(words)), labels=labels(words))


def live(words: Sequence[str], console: Console, *, every: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show a run live until it ends or the user interrupts; then print the last overview."""
    seen: Overview | None = None
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=True) as shown:
        for seen in overviews(words, lambda: sleep(every)):
            shown.update(screen(seen), refresh=True)
    if seen is not None:
        console.print(screen(seen))
