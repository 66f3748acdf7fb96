"""The verb `top`: what runs do, live, from where they serve their metrics."""

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
from ....planner.shown_operators import told_apart
from ...metrics.endpoints import endpoints
from ...report import Progress
from ..top_overview import Overview, overview
from ..top_screen import screen

ANSWER_SECONDS = 5.0
WHY_BYTES = 500
"""Of what a server says that does not answer."""
_ADDRESS = re.compile(r"(?:http://)?(?:(?P<host>[\w.-]+|\[[0-9A-Fa-f:]+\]):)?(?P<port>\d{1,5})(?:/|/metrics)?")
# What is asked is near: no proxy can know it.
_open = build_opener(ProxyHandler({})).open


def addresses(words: Sequence[str]) -> list[str]:
    """Where to ask: at addresses, or wherever a pipeline of this name is served on this machine; without words, at the
    one pipeline that is. Raises `UsageError` where that is none, or not one.

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
    return [*filter(None, urls), *(note.url for note in known)]


def _address(word: str) -> str | None:
    match = _ADDRESS.fullmatch(word)
    return f"http://{match['host'] or '127.0.0.1'}:{match['port']}" if match else None


def ask(urls: Sequence[str]) -> list[Progress]:
    """What the containers at these addresses tell, but for those that are gone; raises `SystemProblem` if all are."""
    containers, problems = [], []
    for url in urls:
        try:
            with _open(f"{url}/progress.json", timeout=ANSWER_SECONDS) as answer:
                containers.append(msgspec.json.decode(answer.read(), type=Progress))
        except (OSError, msgspec.DecodeError) as error:
            problems.append(f"{url}: {_reason(error)}")
    if not containers:
        wrong = f"no run answers at {'; '.join(problems)}"
        raise SystemProblem(explain(wrong, "a run with --metrics-port", "look whether it runs", "the command line"))
    others = sorted({progress.pipeline for progress in containers})
    if len(others) > 1:
        wrong = f"these serve more than one pipeline: {', '.join(others)}"
        raise UsageError(explain(wrong, "the addresses of one", "", "the command line"))
    return sorted(containers, key=lambda progress: (len(progress.container), progress.container))


def _reason(error: Exception) -> object:
    if isinstance(error, HTTPError):  # the server says why
        with error:
            return error.read(WHY_BYTES).decode(errors="replace").strip()
    return error.reason if isinstance(error, URLError) else error


class _Operators(msgspec.Struct):
    """The part of a plan that tells operators."""

    operators: tuple[PlannedOperator, ...]


def labels(words: Sequence[str]) -> dict[str, str]:
    """What people read of the operators, by id; empty where no container tells its plan."""
    for url in addresses(words):
        with suppress(OSError, msgspec.DecodeError), _open(f"{url}/plan.json", timeout=ANSWER_SECONDS) as answer:
            return told_apart(msgspec.json.decode(answer.read(), type=_Operators).operators)
    return {}


def looks(words: Sequence[str], pause: Callable[[], None]) -> Iterator[Overview]:
    """Look again and again, until no run answers any more. A container that is started again may be elsewhere."""
    before: list[Progress] = []
    while True:
        try:
            now = ask(addresses(words))
        except (SystemProblem, UsageError):
            if not before:
                raise
            return
        yield overview(now, before, labels(words))
        before = now
        pause()


def once(words: Sequence[str]) -> Overview:
    """A run as it is now."""
    return overview(ask(addresses(words)), labels=labels(words))


def live(words: Sequence[str], console: Console, *, every: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show a run live until it ends or somebody interrupts; in the end what was seen last."""
    seen: Overview | None = None
    with suppress(KeyboardInterrupt), Live(console=console, auto_refresh=False, screen=True) as shown:
        for seen in looks(words, lambda: sleep(every)):
            shown.update(screen(seen), refresh=True)
    if seen is not None:
        console.print(screen(seen))
