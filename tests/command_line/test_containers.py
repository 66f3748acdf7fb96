"""`run --containers`: children that share the work, and what is refused."""

import json
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path

import pytest

from engines.command_line import Ended, Fluvial
from explained import assert_explains, error_of
from fluvial.dsl import UnsupportedError, UsageError
from fluvial.planner import Settings
from fluvial.runtime import Report, run
from fluvial.runtime.cli.commands.run import RunOptions, run_pipeline
from fluvial.runtime.containers.child_process import ChildConfig, ChildReport
from fluvial.runtime.containers.running_child import Say, Start, Starting
from fluvial.runtime.containers.start import SupervisedContainers, run_containers
from fluvial.runtime.metrics.http import Address
from fluvial.runtime.pipeline_loader import load_pipeline
from fluvial.runtime.process.stop_request import Stopped
from fluvial.runtime.systems import MemorySystem, open_system

WORDS = ("--input", "words=words.jsonl", "--partitions", "3")
COUNTS = ("--output", "counts=counts.jsonl")
SAME = ("pipeline", "engine", "read", "written", "late", "failed")
ON = ("--containers", "2", "--on", "local[2]")


def counts(folder: Path) -> list[str]:
    return sorted((folder / "counts.jsonl").read_text().splitlines())


@pytest.mark.slow
def test_two_containers_write_what_one_does(fluvial: Fluvial, folder: Path) -> None:
    alone = fluvial("run", "letters.py", *WORDS, *COUNTS, "--json")
    wanted = counts(folder)
    ended = fluvial("run", "letters.py", *WORDS, *COUNTS, "--json", "--quiet", "--containers", "2")
    assert (ended.code, ended.err) == (0, "")
    assert counts(folder) == wanted
    one, both = json.loads(alone.out), json.loads(ended.out)
    assert {name: one[name] for name in SAME} == {name: both[name] for name in SAME}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")  # which a master of the same URL finds
def test_two_containers_on_a_cluster_write_what_one_does(fluvial: Fluvial, folder: Path) -> None:
    alone = fluvial("run", "letters.py", *WORDS, *COUNTS, "--json", "--quiet")
    wanted = counts(folder)
    ended = fluvial("run", "letters.py", "--system", "log:here", *WORDS, *COUNTS, "--json", "--quiet", *ON)
    assert (ended.code, ended.err) == (0, "")
    assert counts(folder) == wanted
    one, both = json.loads(alone.out), json.loads(ended.out)
    assert {name: one[name] for name in SAME} == {name: both[name] for name in SAME}


@pytest.mark.slow
def test_what_children_say_is_shown_with_their_number(fluvial: Fluvial, folder: Path) -> None:
    program = folder / "letters.py"
    program.write_text(program.read_text() + "\nimport sys\nprint('loaded', file=sys.stderr)\n")
    ended = fluvial("run", "letters.py", *WORDS, "--containers", "2", "--quiet")
    assert sorted(ended.err.splitlines()) == ["container 0: loaded", "container 1: loaded", "loaded"]


@pytest.mark.slow
def test_a_line_of_a_child_without_end_is_shown_in_pieces(fluvial: Fluvial, folder: Path) -> None:
    program = folder / "letters.py"
    endless = "if sys.argv[-1].startswith('letters'): print('x' * 17_000_000, end='', file=sys.stderr)"
    program.write_text(f"{program.read_text()}\nimport sys\n{endless}\n")
    ended = fluvial("run", "letters.py", *WORDS, "--containers", "2", "--quiet")
    assert ended.code == 0
    pieces = [line for line in ended.err.splitlines() if line.startswith("container ")]
    assert max(map(len, pieces)) < 200_000
    assert len(pieces) > 2


@pytest.mark.slow
def test_escapes_that_children_say_are_shown(fluvial: Fluvial, folder: Path) -> None:
    program = folder / "letters.py"
    program.write_text(program.read_text().replace("return word.text[0]", "raise ValueError('\\x1b[2Jgone')"))
    ended = fluvial("run", "letters.py", *WORDS, "--containers", "2")
    assert ended.code == 5
    assert "ValueError: \\x1b[2Jgone" in ended.err
    assert "\x1b" not in ended.err


@pytest.mark.slow
def test_idle_containers_are_reported(fluvial: Fluvial, folder: Path) -> None:
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", *COUNTS, "--quiet", "--containers", "3")
    assert (ended.code, len(counts(folder))) == (0, 3)
    assert ended.err == "1 container of 3 will be idle: there are no more tasks\n"


@pytest.mark.slow
def test_an_error_of_a_child_is_that_of_all(fluvial: Fluvial, folder: Path) -> None:
    (folder / "words.jsonl").write_text('{"text":3}\n')
    ended = fluvial("run", "letters.py", *WORDS, "--containers", "2")
    assert ended.code == 5
    assert "container 0: " in ended.err
    assert ended.err.endswith("container 0 ended with exit code 5, which ends the run. The others are stopped.\n")


def test_one_container_of_several_by_its_number(fluvial: Fluvial) -> None:
    fluvial("produce", "words", "words.jsonl", "--partitions", "2")
    words = ("run", "letters.py", "--until", "end", "--containers", "5", "--json", "--container-id")
    # There are four tasks, so the last one is idle; the others would wait for each other.
    ended = fluvial(*words, "4")
    assert (ended.code, json.loads(ended.out)["read"]) == (0, {})


@pytest.mark.parametrize(
    ("words", "wrong", "expected"),
    [
        (("--container-id", "1"), "container 1 without the number of containers", "on Kafka"),
        (("--container-id", "2", "--containers", "2"), "--container-id 2 of --containers 2", "0 to 1"),
        ((*WORDS, "--container-id", "0", "--containers", "2"), "with --input or --output", "all containers"),
        (("--containers", "2", "--engine", "spark"), "2 containers with engine='spark'", "the engine 'local'"),
        (("--containers", "2", "--system", "memory:"), "2 containers on memory:", "a system that all of them see"),
        (("--on", "local[2]"), "--on without --containers", "--containers"),
        ((*ON, "--container-id", "0"), "--on local[2] with --container-id 0", "all containers"),
        ((*ON, "--input", "words=words.jsonl"), "--on local[2] without --system", "a system that all workers see"),
        ((*ON, "--engine", "spark"), "--on local[2] with engine='spark'", "the engine 'local'"),
        ((*ON, "--system", "memory:"), "--on local[2] on memory:", "a system that all of them see"),
    ],
)
def test_what_is_refused(fluvial: Fluvial, words: tuple[str, ...], wrong: str, expected: str) -> None:
    ended: Ended = fluvial("run", "letters.py", *words)
    assert ended.code in (2, 3)
    first, *rest = ended.err.splitlines()
    assert wrong in first
    assert any(line.startswith("  expected: ") and expected in line for line in rest)


def test_a_cluster_that_is_not_there_is_reported_before_anything_is_written(fluvial: Fluvial, folder: Path) -> None:
    pytest.importorskip("pyspark")
    words = ("--containers", "2", "--on", "spark://127.0.0.1:1", "--system", "log:here")
    ended = fluvial("run", "letters.py", *words, *WORDS)
    assert ended.code == 4
    assert ended.err.startswith("no master of Spark's answers at spark://127.0.0.1:1 (")
    assert not (folder / "here").exists()


@pytest.mark.parametrize(("container", "containers"), [(2, 2), (-1, 1), (0, 0), (0, True + 0.5), (None, 2)])
def test_a_container_that_does_not_exist_is_refused_in_python_too(
    folder: Path, container: int | None, containers: int
) -> None:
    pipeline = load_pipeline(str(folder / "letters.py"))
    error = error_of(
        lambda: run(pipeline, system=MemorySystem(), container_id=container, containers=containers), UsageError
    )
    wrong = f"container_id={container}, containers={containers}"
    assert_explains(error, wrong, None, "one of them, counted from 0")


def test_children_need_a_system_that_they_can_open(folder: Path) -> None:
    class Own(MemorySystem):
        @property
        def url(self) -> str:
            return "own:"

    system = Own()
    system.admin().create("words", 1)
    pipeline = load_pipeline(str(folder / "letters.py"))

    def both() -> Report:
        options = RunOptions(target="letters.py", system=system, containers=2, until="end")
        return run_pipeline(pipeline, options, None)[0]

    assert "own: cannot be opened by another process" in str(error_of(both, UsageError))
    memory = open_system("memory:")
    assert_explains(
        error_of(lambda: run(pipeline, system=memory, container_id=0, containers=2), UnsupportedError),
        "2 containers on memory:, which other processes cannot see",
        None,
        "a system that all of them see",
    )


class Ending:
    """A container that has ended when it is looked at."""

    alive = waits = False

    def send_signal(self, number: signal.Signals) -> None:
        raise AssertionError(number)

    async def exited(self) -> int:
        return 0

    async def close(self) -> None:
        """Nothing is open."""


def test_each_container_is_started_where_its_hosts_say(folder: Path) -> None:
    pipeline, system = load_pipeline(str(folder / "letters.py")), open_system(f"log:{folder / 'here'}")
    system.admin().create("words", 2)
    started, said = list[ChildConfig](), list[str]()

    async def start(config: ChildConfig, title: str, receive: Callable[[ChildReport], None], _: Say) -> Ending:
        assert title == f"letters: container {config.container} of 5"
        started.append(config)
        receive(ChildReport(report=Report(pipeline=pipeline.name, engine="local", seconds=1.0, read={"words": 7})))
        return Ending()

    @asynccontextmanager
    async def starting() -> AsyncIterator[Start]:
        yield start

    containers = SupervisedContainers(
        number=5, most_restarts=0, hosts=nullcontext(starting()), metrics=Address("127.0.0.1", 9000)
    )
    report = run_containers(pipeline, "", system, Settings(), "end", containers, progress=None, say=said.append)
    assert said == ["1 container of 5 will be idle: there are no more tasks"]
    assert report.read == {"words": 35}
    addresses = [config.metrics and config.metrics.port for config in started]
    assert (addresses, [config.container for config in started]) == ([*range(9000, 9005)], [*range(5)])
    assert {(config.containers, config.until, *config.partitions.items()) for config in started} == {
        (5, "end", ("words", 2))
    }


def test_a_run_that_is_stopped_before_its_hosts_are_there_begins_nothing(folder: Path) -> None:
    pipeline, system = load_pipeline(str(folder / "letters.py")), open_system(f"log:{folder / 'here'}")
    system.admin().create("words", 2)

    @contextmanager
    def stopped() -> Iterator[Starting]:
        raise Stopped
        yield

    containers = SupervisedContainers(number=2, hosts=stopped())
    report = run_containers(pipeline, "", system, Settings(), "end", containers, progress=None, say=print)
    assert (report.pipeline, report.read) == ("letters", {})
