"""`top`: what a run does, and `run --metrics-port`."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from engines.command_line import Ended, Fluvial
from engines.targets import write
from fluvial.dsl import Pipeline, SystemProblem
from fluvial.planner import Settings
from fluvial.runtime import Metrics, Progress, run
from fluvial.runtime.cli.commands import top
from fluvial.runtime.systems import MemorySystem


@pytest.fixture(autouse=True)
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session of its own: notes of other runs are not seen."""
    (tmp_path / "session").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "session"))


@pytest.fixture
def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    with Metrics() as metrics:
        yield metrics


def copy(name: str = "copy") -> Pipeline:
    pipeline = Pipeline(name)
    pipeline.stream("words", value=str).send_to("copies")
    return pipeline


def three_words() -> MemorySystem:
    system = MemorySystem()
    write(system, {"words": [[(None, b"word", 0, ())] * 3]})
    return system


def port_of(metrics: Metrics) -> str:
    return metrics.url.rpartition(":")[2]


def test_a_run_says_where_its_metrics_are(fluvial: Fluvial) -> None:
    words = ("run", "letters.py", "--input", "words=words.jsonl", "--metrics-port", "0")
    for quiet in ((), ("--quiet",)):
        assert fluvial(*words, *quiet).err.startswith("metrics at http://127.0.0.1:")


def test_a_port_that_is_taken_is_wrong_usage(fluvial: Fluvial, metrics: Metrics) -> None:
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--metrics-port", port_of(metrics))
    assert ended.code == 2
    assert ended.err.startswith(f"metrics cannot be served at 127.0.0.1, port {port_of(metrics)}: ")


def test_a_run_is_shown_once(fluvial: Fluvial, metrics: Metrics) -> None:
    run(copy(), system=three_words(), until="end", metrics=metrics)
    for words in (("--once",), ()):  # without a terminal there is nothing to be live on
        ended = fluvial("top", port_of(metrics), *words)
        lines = [line.split() for line in ended.out.splitlines()]
        assert (ended.code, ended.out.splitlines()[0]) == (0, "copy on local: 1 container")
        assert ["send_to", "copies", "3"] in [line[:3] for line in lines]


def test_a_run_as_json(fluvial: Fluvial, metrics: Metrics) -> None:
    run(copy(), system=three_words(), until="end", metrics=metrics)
    seen = json.loads(fluvial("top", metrics.url, "--json").out)
    assert (seen["pipeline"], seen["engine"], seen["containers"][0]["phase"]) == ("copy", "local", "done")
    assert [(row["stream"], row["processed"], row["lag"]) for row in seen["inputs"]] == [("words", 3, 0)]
    assert [(row["operator"], row["messages"]) for row in seen["operators"]] == [("stream-1", 3), ("send_to-2", 3)]


def test_a_run_with_elasticity_shows_its_key_buckets(fluvial: Fluvial, metrics: Metrics) -> None:
    run(copy(), system=three_words(), until="end", metrics=metrics, settings=Settings(elasticity=2))
    seen = json.loads(fluvial("top", metrics.url, "--json").out)
    assert {row["task"]: row["processed"] for row in seen["key_buckets"]} == {"words/0-0-2": 2, "words/0-1-2": 1}
    lines = [line.split() for line in fluvial("top", metrics.url).out.splitlines()]
    assert [line[:3] for line in lines if line[:1] == ["words/0-0-2"]] == [["words/0-0-2", "0", "67%"]]


def test_a_run_is_found_by_its_name_or_as_the_only_one(fluvial: Fluvial, metrics: Metrics) -> None:
    found: list[str] = []

    def look(_: Progress) -> None:
        found.extend(fluvial("top", "--json", *words).out for words in (["copy"], []))

    run(copy(), system=three_words(), until="end", metrics=metrics, progress=look)
    assert {json.loads(text)["pipeline"] for text in found} == {"copy"}
    assert len(found) == 4


def test_a_name_that_nothing_has_lists_those_there_are(fluvial: Fluvial, metrics: Metrics) -> None:
    found: list[Ended] = []

    def look(_: Progress) -> None:
        found.append(fluvial("top", "x"))

    run(copy(), system=three_words(), until="end", metrics=metrics, progress=look)
    found.append(fluvial("top", "x"))
    assert [ended.code for ended in found] == [2, 2, 2]
    assert [ended.err.splitlines()[2] for ended in found] == [
        "  expected: the name of one of these: copy; or HOST:PORT",
        "  expected: the name of one of these: copy; or HOST:PORT",
        "  expected: the name of one of these: none; or HOST:PORT",
    ]
    assert found[-1].err.startswith("no run of 'x' serves metrics here\n  at the command line\n")


def test_without_a_name_there_must_be_one_run(fluvial: Fluvial) -> None:
    ended = fluvial("top")
    assert (ended.code, ended.err.splitlines()[0]) == (2, "runs that serve metrics here: none")


def test_nobody_at_the_address_is_a_system_out_of_reach(fluvial: Fluvial, free_port: int) -> None:
    ended = fluvial("top", f"127.0.0.1:{free_port}")
    assert ended.code == 4
    assert ended.err.startswith(f"no run answers at http://127.0.0.1:{free_port}: ")


def test_addresses_of_two_pipelines_are_not_added_up(fluvial: Fluvial, metrics: Metrics) -> None:
    with Metrics() as other:
        run(copy(), system=three_words(), until="end", metrics=metrics)
        run(copy("other"), system=three_words(), until="end", metrics=other)
        ended = fluvial("top", port_of(metrics), port_of(other))
    assert (ended.code, ended.err.splitlines()[0]) == (2, "these serve more than one pipeline: copy, other")


def test_looking_goes_on_until_nobody_answers() -> None:
    with Metrics() as metrics:
        run(copy(), system=three_words(), until="end", metrics=metrics)
        looks = top.overviews([f"{metrics.url}/metrics"], lambda: None)
        first, second = next(looks), next(looks)
    assert (first.inputs[0].per_second > 0, second.inputs[0].per_second) == (True, 0)
    assert list(looks) == []


def test_looking_live_at_nobody_is_a_system_out_of_reach(free_port: int) -> None:
    with pytest.raises(SystemProblem):
        next(top.overviews([f"localhost:{free_port}"], lambda: None))


def test_without_a_plan_operators_have_no_labels_but_their_ids(metrics: Metrics) -> None:
    """As of a container that is about to begin."""
    assert top.labels([metrics.url]) == {}


def test_the_last_look_stays_on_the_terminal(metrics: Metrics, capsys: pytest.CaptureFixture[str]) -> None:
    run(copy(), system=three_words(), until="end", metrics=metrics)
    console = Console(force_terminal=True, width=100)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    top.live([metrics.url], console, every=1, sleep=interrupt)
    assert capsys.readouterr().out.rpartition("\x1b[?1049l")[2].count("send_to copies") == 1


@pytest.mark.slow
@pytest.mark.parametrize("containers", [pytest.param(1, marks=pytest.mark.long), 2])
def test_processes_that_go_on_are_found_and_shown_together(fluvial: Fluvial, folder: Path, containers: int) -> None:
    fluvial("produce", "words", "words.jsonl")
    code = "import sys; from fluvial.runtime.cli.entry import main; sys.exit(main())"
    words = ["run", "letters.py", "--metrics-port", "0", "--containers", str(containers)]
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=folder, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            for _ in range(containers):  # a warning may come between
                while "metrics at http://127.0.0.1:" not in (line := process.stderr.readline()):
                    assert line, "the run has ended"
            seen = until_read(fluvial, 6, containers)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()
    assert process.returncode == 0
    assert [row["container"] for row in seen["containers"]] == [str(number) for number in range(containers)]
    assert fluvial("top", "letters").code == 2


def until_read(fluvial: Fluvial, words: int, containers: int) -> dict[str, Any]:
    """What top shows once so many words were processed, and what came of them."""
    while True:
        ended = fluvial("top", "letters", "--json")
        seen: dict[str, Any] = json.loads(ended.out) if ended.code == 0 else {"inputs": [], "containers": []}
        processed = {row["stream"]: row["processed"] for row in seen["inputs"]}
        # Of one letter several words may be one record.
        crossed = 0 < processed.get("letters-by-letter", 0) < words
        if processed.get("words") == words and crossed and len(seen["containers"]) == containers:
            return seen


def test_why_a_run_does_not_answer_is_reported(fluvial: Fluvial, metrics: Metrics) -> None:
    ended = fluvial("top", port_of(metrics))
    assert ended.code == 4
    assert ended.err.startswith(f"no run answers at {metrics.url}: the run has not begun\n")
