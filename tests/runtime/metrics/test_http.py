"""What is served over HTTP, of real runs."""

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from engines.targets import write
from fluvial.dsl import MessageError, Pipeline, UsageError, dead_letter, skip, tumbling
from fluvial.dsl import count as counted
from fluvial.planner import Settings, plan
from fluvial.runtime import Metrics, Progress, run
from fluvial.runtime.metrics.http import MOST_READING, READERS
from fluvial.runtime.metrics.http import serving as serving_at
from fluvial.runtime.systems import LogSystem, MemorySystem, System


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    with Metrics() as metrics:
        yield metrics


@pytest.fixture(params=["memory", "log"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    return MemorySystem() if request.param == "memory" else LogSystem(tmp_path, fsync=False)


def get(metrics: Metrics, path: str, **headers: str) -> tuple[int, str]:
    try:
        with urlopen(Request(metrics.url + path, headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


def head(metrics: Metrics, path: str) -> tuple[int, str, bytes]:
    with urlopen(Request(metrics.url + path, method="HEAD")) as answer:
        return answer.status, answer.headers["Content-Type"], answer.read()


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


def values(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """All that is measured, by name and labels in the order of their names, but for pipeline and container."""
    status, text = get(metrics, "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = (value for name, value in sorted(sample.labels.items()) if name not in ("pipeline", "container"))
            found[(sample.name.removeprefix("fluvial_"), *labels)] = sample.value
    return found


def words(system: System, *texts: bytes, partitions: int = 1) -> System:
    records = [(text[:1], text, 1000 * second, ()) for second, text in enumerate(texts)]
    write(system, {"words": [records[number::partitions] for number in range(partitions)]})
    return system


def copy() -> Pipeline:
    pipeline = Pipeline("copy")
    pipeline.stream("words", value=str).filter(str.isalpha).send_to("copies")
    return pipeline


def test_a_run_is_counted_by_stream_partition_and_operator(metrics: Metrics, system: System) -> None:
    words(system, b"a", b"1", b"b", b"c", b"2", partitions=2)
    run(copy(), system=system, until="end", metrics=metrics)
    found = values(metrics)
    for partition, read in (("0", 3), ("1", 2)):
        place = (partition, "words", "words", f"words/{partition}")
        assert found[("messages_read_total", *place)] == found[("messages_processed_total", *place)] == read
        assert found[("messages_queued", *place)] == found[("lag_messages", *place)] == 0
        assert found[("committed_offset", *place)] == read
    given = {
        id: [found[("operator_messages_total", id, "words", f"words/{number}")] for number in (0, 1)] for id in IDS
    }
    assert given == {"stream-1": [3, 2], "filter-2": [3, 2], "send_to-3": [2, 1]}
    assert found[("messages_written_total", "words", "copies", "words/0")] == 2
    assert found[("commit_seconds_count",)] >= 1
    assert found[("commits_total", "words", "words/0")] >= 1
    assert found[("uptime_seconds",)] >= found[("event_loop_busy_seconds_total",)] > 0
    assert found[("process_resident_memory_bytes",)] > 1_000_000


IDS = ("stream-1", "filter-2", "send_to-3")


def test_late_messages_are_counted_and_dropped_ones_with_the_reason(metrics: Metrics) -> None:
    pipeline, system = Pipeline("p", on_error=skip()), MemorySystem()
    keyed = pipeline.stream("in", value=int, key=str)
    keyed.window(tumbling(timedelta(milliseconds=10)), counted(), id="per-10").map(lambda pane: pane.value).send_to(
        "out"
    )
    write(system, {"in": [[(b"a", b"1", time, ()) for time in (5, 25, 7)] + [(b"a", b"one", 30, ())]]})
    run(pipeline, system=system, until="end", metrics=metrics)
    found = values(metrics)
    assert found[("late_messages_total", "per-10", "in", "in/0")] == 1
    assert found[("failed_messages_total", "stream-1", "in", "in/0")] == 1
    assert found[("dropped_messages_total", "per-10", "late", "in", "in/0")] == 1
    assert found[("dropped_messages_total", "stream-1", "failed", "in", "in/0")] == 1


def test_dead_letters_are_counted_and_not_dropped(metrics: Metrics) -> None:
    pipeline, system = Pipeline("p", on_error=dead_letter()), MemorySystem()
    pipeline.stream("in", value=int).map(lambda number: 1 // number).send_to("out")
    write(system, {"in": [[(None, b"%d" % number, 0, ()) for number in (0, 1, 0)]]})
    run(pipeline, system=system, until="end", metrics=metrics)
    found = values(metrics)
    assert found[("dead_letters_total", "map-2", "in", "in/0")] == 2
    assert found[("messages_written_total", "in", "p-dead-letters", "in/0")] == 2
    assert not [name for name, *_ in found if name.startswith("dropped")]


def test_a_run_is_ready_while_it_runs(metrics: Metrics, system: System) -> None:
    told: list[tuple[str, int]] = []
    assert get(metrics, "/readyz")[0] == 503
    seen = lambda progress: told.append((progress.phase, get(metrics, "/readyz")[0]))  # noqa: E731 - one line
    run(copy(), system=words(system, b"a"), until="end", metrics=metrics, progress=seen)
    assert [*dict.fromkeys(told)] == [("running", 200), ("done", 503)]
    assert get(metrics, "/readyz")[0] == 503


def test_a_head_is_answered_without_a_body(metrics: Metrics) -> None:
    """As those ask that balance loads."""
    status, kind, body = head(metrics, "/livez")
    assert (status, kind.partition(";")[0], body) == (200, "text/plain", b"")


def test_a_run_that_is_stuck_in_a_function_is_not_alive() -> None:
    """The function that never returns is one that asks, long after."""
    clock, found = Clock(), []

    def stuck(word: str) -> str:
        if word == "stuck":
            for clock.now in (299.0, 301.0):
                found.append(get(serving, "/livez"))
        return word

    pipeline = Pipeline("p")
    pipeline.stream("words", value=str).map(stuck).send_to("out")
    system = words(MemorySystem(), *[b"word"] * 12_000, b"stuck")
    with Metrics(clock=clock) as serving:
        assert get(serving, "/livez") == (200, "ok\n")
        run(pipeline, system=system, until="end", metrics=serving)
        assert get(serving, "/livez")[0] == 200
    assert found == [(200, "ok\n"), (503, "nothing has moved for 301 s while there is work to do\n")]


def test_a_run_that_fails_is_waited_for_by_nobody(metrics: Metrics) -> None:
    pipeline = Pipeline("p")
    pipeline.stream("words", value=int).send_to("out")
    with pytest.raises(MessageError):
        run(pipeline, system=words(MemorySystem(), b"a"), until="end", metrics=metrics)
    assert (get(metrics, "/livez")[0], get(metrics, "/readyz")[0]) == (200, 503)


def test_the_plan_and_the_progress_are_served(metrics: Metrics, system: System) -> None:
    assert get(metrics, "/plan.json")[0] == get(metrics, "/progress.json")[0] == 503
    run(copy(), system=words(system, b"a"), until="end", metrics=metrics)
    made = plan(copy(), partitions=system.admin().streams())
    assert json.loads(get(metrics, "/plan.json")[1])["streams"] == json.loads(made.to_json())["streams"]
    last = msgspec.json.decode(get(metrics, "/progress.json")[1], type=Progress)
    assert (last.phase, last.pipeline, last.engine, last.container) == ("done", "copy", "local", "0")
    assert (last.read, last.written, last.lag) == (1, 1, 0)
    assert last.memory is not None


def test_tables_are_looked_into_while_the_run_goes_on(metrics: Metrics, tmp_path: Path) -> None:
    pipeline = Pipeline("tables")
    latest = pipeline.table("latest", key=str, value=int)
    pipeline.stream("in", key=str, value=int).send_to(latest)
    found: list[tuple[int, str]] = []

    def ask(told: Progress) -> None:
        if told.phase == "done":
            paths = ("latest/a%2Fb", "latest?limit=1", "latest", "latest/none", "other", "latest?limit=x")
            found.extend(get(metrics, f"/state/{path}") for path in paths)

    assert get(metrics, "/state/latest/a")[0] == 503
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"in": [[(b"a/b", b"1", 0, ()), (b"c", b"2", 0, ()), (b"a/b", b"3", 0, ())]]})
    run(pipeline, system=system, until="end", metrics=metrics, progress=ask)
    *rows, none, other, limit = found
    assert limit == (400, "limit is a whole number, 1 to 10,000\n")
    assert [(status, json.loads(text)) for status, text in rows] == [
        (200, {"key": "a/b", "value": 3}),
        (200, [{"key": "a/b", "value": 3}]),
        (200, [{"key": "a/b", "value": 3}, {"key": "c", "value": 2}]),
    ]
    assert none == (404, "table 'latest' has no row of key 'none' in its stores here, as of the last commit\n")
    assert other[0] == 404
    assert "'other' is no table of pipeline 'tables'" in other[1]


@pytest.mark.parametrize("limit", ["0", "-1", "10001", "9" * 5000, "1e3", "", "%31%30x"])
def test_a_limit_has_bounds(limit: str) -> None:
    asked: list[int] = []
    with looked_into(asked) as metrics:
        assert get(metrics, f"/state/numbers?limit={limit}")[0] == 400
        assert asked == []
        assert len(json.loads(get(metrics, "/state/numbers?limit=10000")[1])) == 10_000
    assert asked == [10_000]


def test_rows_are_sent_as_they_are_read() -> None:
    """The client has the first before the last is there."""
    asked: list[int] = []
    with looked_into(asked) as metrics, urlopen(f"{metrics.url}/state/endless") as answer:
        assert answer.read(2) == b"[0"
        assert answer.headers["Content-Length"] is None


def test_few_wait_for_a_look_into_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than may wait is told so at once, and what is not asked of tables is answered."""
    monkeypatch.setattr("fluvial.runtime.metrics.http.READ_SECONDS", 3600.0)
    with looked_into([]) as metrics, ThreadPoolExecutor(MOST_READING) as pool, ExitStack() as stack:
        for _ in range(READERS):
            stack.enter_context(urlopen(f"{metrics.url}/state/endless"))
        asking = [pool.submit(get, metrics, "/state/numbers") for _ in range(MOST_READING - READERS + 1)]
        assert next(as_completed(asking, timeout=60)).result()[0] == 503
        assert get(metrics, "/livez")[0] == 200
    assert sorted(one.result()[0] for one in asking) == [200] * (MOST_READING - READERS) + [503]


def test_what_fails_before_the_first_row_is_reported() -> None:
    with looked_into([]) as metrics:
        for _ in range(READERS + 1):
            assert get(metrics, "/state/none") == (404, "no such table\n")


class Numbers:
    """Tables of numbers, one of which never ends."""

    def __init__(self, asked: list[int]) -> None:
        self._asked = asked

    def row(self, table: str, key: str) -> object:
        return table, key

    def rows(self, table: str, limit: int) -> Iterator[object]:
        if table == "none":
            raise UsageError("no such table")
        self._asked.append(limit)
        return iter(range(limit)) if table == "numbers" else count()


@contextmanager
def looked_into(asked: list[int]) -> Iterator[Metrics]:
    with Metrics() as metrics, metrics.following(plan(copy()), Settings(), None, Numbers(asked)):
        yield metrics


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "worker-1:9100", "[::1]:9100", "visits.example.org."])
def test_hosts_that_are_meant(host: str) -> None:
    with Metrics(aliases=["Visits.example.org"]) as metrics:
        assert get(metrics, "/livez", Host=host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example.org", "evil.example.org:80", "", "127.0.0.1.evil.org", "[::1"])
def test_a_host_that_is_another_is_refused(metrics: Metrics, host: str) -> None:
    assert get(metrics, "/metrics", Host=host)[0] == 421


def test_other_paths_say_which_there_are(metrics: Metrics) -> None:
    status, text = get(metrics, "/")
    assert status == 404
    assert "/metrics, /livez, /readyz, /plan.json" in text


def test_openmetrics_is_spoken_to_those_who_ask(metrics: Metrics, system: System) -> None:
    run(copy(), system=words(system, b"a"), until="end", metrics=metrics)
    assert get(metrics, "/metrics", Accept="application/openmetrics-text")[1].endswith("# EOF\n")


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
def test_an_address_of_ipv6() -> None:
    with Metrics(host="::1") as metrics:
        assert metrics.url.startswith("http://[::1]:")
        assert get(metrics, "/livez") == (200, "ok\n")


def test_only_this_machine_can_ask(metrics: Metrics) -> None:
    assert metrics.url.startswith("http://127.0.0.1:")


def test_nothing_is_left_when_it_is_closed() -> None:
    with Metrics() as metrics:
        port = int(metrics.url.rpartition(":")[2])
    assert "fluvial-metrics" not in [thread.name for thread in threading.enumerate()]
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))
    with pytest.raises(UsageError, match="with Metrics\\(\\) as metrics"):
        _ = metrics.url


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_is_none(port: int) -> None:
    with pytest.raises(UsageError, match="expected: an address of this machine"), Metrics(port=port):
        pass


@pytest.mark.parametrize("host", ["\udcff", "é..é", "a\x00b"])
def test_a_host_that_is_no_name(host: str) -> None:
    with pytest.raises(UsageError, match="expected: an address of this machine") as raised, Metrics(host=host):
        pass
    str(raised.value).encode()


def test_a_port_that_is_taken(metrics: Metrics) -> None:
    port = int(metrics.url.rpartition(":")[2])
    wrong = f"metrics cannot be served at 127.0.0.1, port {port}: .*in use"
    with pytest.raises(UsageError, match=wrong), Metrics(port=port):
        pass


def test_an_address_that_cannot_be_read_is_refused(metrics: Metrics) -> None:
    address = urlsplit(metrics.url)
    with socket.create_connection((address.hostname, address.port), 10) as connection:
        connection.sendall(b"GET http://[/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        with connection.makefile("rb") as answer:
            assert answer.readline().split()[1] == b"400"


def test_without_an_address_nothing_is_served_or_said() -> None:
    said: list[str] = []
    with serving_at(None, said.append) as metrics:
        assert (metrics, said) == (None, [])
