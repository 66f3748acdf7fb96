"""Programs that are measured: runs of a pipeline by the command line, and what they are told while they run."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.contenders import Contender, environment
from benchmarks.elasticity.landings import Landing
from benchmarks.elasticity.pipelines import Answer
from benchmarks.job import Job
from benchmarks.process import Running
from benchmarks.topics import Topics

FLUVIAL = str(Path(sys.executable).with_name("fluvial"))
_PIPELINES = Path(__file__).with_name("pipelines.py")
_LOOK = 0.25


def program(which: str, url: Callable[[Job], str], *options: str) -> Contender:
    """A run of a pipeline by the command line, on the system that its job is for."""
    command = (FLUVIAL, "run", f"{_PIPELINES}:{which}", "--quiet", *options)
    return Contender(which, which, "own", lambda job: (*command, "--system", url(job)), {})


def on_kafka(job: Job) -> str:
    """The system of a job on the broker."""
    return f"kafka://{job.address}"


class ScaleProblem(Exception):
    """`fluvial scale` has changed nothing, or could not say what it would change."""


def scale(process: Running, which: str, containers: int, *options: str) -> list[dict[str, object]]:
    """Give a run another number of containers; the tasks that move, or have moved."""
    job = process.job
    words = (FLUVIAL, "scale", f"{_PIPELINES}:{which}", "--system", on_kafka(job), "--json")
    command = [*words, "--containers", str(containers), *options]
    done = subprocess.run(command, cwd=job.folder, env=environment(job), capture_output=True, text=True, check=False)
    if done.returncode:
        raise ScaleProblem(f"fluvial scale ended with {done.returncode}:\n{done.stderr}\n{process.tail()}")
    moves: list[dict[str, object]] = json.loads(done.stdout)
    return moves


def tasks_moved(moves: Sequence[dict[str, object]]) -> list[int]:
    """The partitions of the tasks that have moved."""
    return sorted(int(str(move["task"]).rpartition("/")[2]) for move in moves)


def until(process: Running, is_so: Callable[[], bool], what: str, seconds: float) -> None:
    """Wait until something is so, while the process runs."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if process.look() is not None:
            raise SystemExit(f"the run has ended before {what}:\n{process.tail()}")
        if time.monotonic() > deadline:
            raise SystemExit(f"not so after {seconds:.0f} s: {what}\n{process.tail()}")
        time.sleep(_LOOK)


def landings_of(topics: Topics, output: str) -> list[Landing]:
    """All that is in the output of a pipeline, in the order of landing in each partition."""
    return [landing for _, landing in answers(topics, output)]


def answers(topics: Topics, output: str) -> Iterator[tuple[Answer, Landing]]:
    """Each answer, and when it landed."""
    decode = msgspec.json.Decoder(Answer).decode
    for value, landed in topics.read(output):
        answer = decode(value)
        yield answer, Landing(answer.number, answer.task, answer.produced, landed, answer.right)


def tell(line: str) -> None:
    """Say how far a measurement is."""
    print(line, file=sys.stderr, flush=True)
