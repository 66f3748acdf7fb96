"""A load that steps up and down, and how many containers an autosizer gives it."""

import re
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec
from msgspec import Struct

from benchmarks.elasticity.curves import Color, Curve, Panel, drawn
from benchmarks.elasticity.goals import Goal, Judged
from benchmarks.elasticity.programs import on_kafka, program, tell, until
from benchmarks.latency import feeding
from benchmarks.process import Running, running
from benchmarks.results import circumstances
from benchmarks.sampling import Noise
from benchmarks.topics import Topics

Steps = Sequence[tuple[int, float]]
"""Messages per second, and for how many seconds."""

STEPS: Steps = ((800, 90), (2500, 240), (800, 420))
SMALL: Steps = ((200, 5), (400, 5))
MOST = 4
_OPTIONS = ("--containers", f"1..{MOST}", "--elasticity", "1..8", "--autosize")
_EVERY = 2.0
_SPREAD = 5
"""Samples over which rates are taken."""
_LONGEST = 300.0
_WARM_RATE = 20
"""Messages per second until there is output."""
_FOLLOWS = re.compile(r"the run has (\d+) containers? from now on")


class LoadSample(Struct, frozen=True):
    """What had arrived and what was processed after so many seconds, in messages, and the containers of the run."""

    seconds: float
    arrived: int
    processed: int
    containers: int


class FollowedLoad(Judged, frozen=True, kw_only=True):
    """What came of it. `said` is what the autosizer has told."""

    steps: list[tuple[int, float]]
    samples: list[LoadSample]
    said: list[str]


def measured(topics: Topics, *, small: bool) -> FollowedLoad:
    """Feed a run at the rates of the steps, and watch how many containers it has."""
    steps, source = (SMALL if small else STEPS), f"followed-in-{int(time.time())}"
    topics.create(source)
    noise = Noise()
    try:
        with running(program("slow", on_kafka, *_OPTIONS), "slow", topics, (source,), endless=True) as process:
            output = process.job.output
            with feeding(topics, source, _WARM_RATE, _LONGEST):
                until(process, lambda: sum(topics.ends(output)) > 0, "there is output", _LONGEST)
            samples = list(_samples(process, topics, source, steps))
            until(process, lambda: sum(topics.ends(output)) >= sum(topics.ends(source)), "all is done", _LONGEST)
            others, said = noise.share(process.sampler), process.said()
            lost = missing(topics, source, output)
    finally:
        topics.remove([source])
    return FollowedLoad(
        **circumstances(),
        small=small,
        noise=round(others, 2),
        output_correct=not lost,
        problem=f"{lost:,} missing" if lost else "",
        goals=goals(samples, steps),
        steps=list(steps),
        samples=samples,
        said=[line for line in said if line.startswith("autosizer: ")],
    )


def goals(samples: Sequence[LoadSample], steps: Steps) -> list[Goal]:
    """That it grows with the load, catches up, and shrinks with it."""
    most, last = max(sample.containers for sample in samples), samples[-1]
    before = [sample for sample in samples if sample.seconds < steps[0][1]][-1].containers
    waits = float(max(0, last.arrived - last.processed))
    return [
        Goal(what="containers of a followed load, at the most", bound="at least", limit=before + 1, measured=most),
        Goal(
            what="containers of a followed load, in the end", bound="at most", limit=most - 1, measured=last.containers
        ),
        Goal(
            what="seconds of input that wait in the end of a followed load",
            bound="at most",
            limit=1,
            measured=waits / steps[-1][0],
        ),
    ]


def missing(topics: Topics, source: str, output: str) -> int:
    """How many messages are not in the output, which has each as it came."""
    left = {value for value, _ in topics.read(source)}
    return len(left.difference(value for value, _ in topics.read(output)))


def containers_of(said: Sequence[str]) -> int:
    """The containers that a run has, by what it has said.

    >>> containers_of(["the run has 4 containers from now on, in place of 1", "autosizer: 4 containers after 4.8 s"])
    4
    """
    followed = [int(found[1]) for line in said if (found := _FOLLOWS.match(line))]
    return followed[-1] if followed else 1


def _samples(process: Running, topics: Topics, source: str, steps: Steps) -> Iterator[LoadSample]:
    begun = time.monotonic()
    for rate, seconds in steps:
        over = time.monotonic() + seconds
        with feeding(topics, source, rate, seconds) as feeder:
            while time.monotonic() < over:
                if process.look() is not None:
                    raise SystemExit(f"the run has ended:\n{process.tail()}")
                arrived, processed = sum(topics.ends(source)), sum(topics.ends(process.job.output))
                at = round(time.monotonic() - begun, 1)
                yield (sample := LoadSample(at, arrived, processed, containers_of(process.said())))
                tell(f"{at:6.0f} s  {arrived - processed:8,} wait  {sample.containers} containers")
                time.sleep(_EVERY)
            feeder.wait()


def rates(samples: Sequence[LoadSample], counts: Sequence[int]) -> list[tuple[float, float | None]]:
    """Messages per second at each sample, by counts of messages."""
    found: list[tuple[float, float | None]] = [(samples[0].seconds, None)] if samples else []
    for at in range(1, len(samples)):
        before = max(0, at - _SPREAD)
        passed = samples[at].seconds - samples[before].seconds
        found.append((samples[at].seconds, (counts[at] - counts[before]) / passed))
    return found


def picture(saved: bytes) -> str:
    """The containers, the messages per second, and those that wait, over time."""
    found = msgspec.json.decode(saved, type=FollowedLoad)
    samples = found.samples
    arrived = rates(samples, [sample.arrived for sample in samples])
    processed = rates(samples, [sample.processed for sample in samples])
    waits = [(sample.seconds, float(max(0, sample.arrived - sample.processed))) for sample in samples]
    sizes = [(sample.seconds, float(sample.containers)) for sample in samples]
    panels = [
        Panel("containers", [_curve("ours", sizes)], most=float(MOST)),
        Panel(
            "messages per second: arrived (yellow), processed (blue)",
            [_curve("other", arrived), _curve("ours", processed)],
        ),
        Panel("messages that wait", [_curve("ours", waits)]),
    ]
    return drawn("Containers that follow a load", panels, marks(found.steps))


def marks(steps: Steps) -> dict[float, str]:
    """The moments at which another load begins.

    >>> marks([(800, 90), (2500, 240), (800, 420)])
    {90.0: '2,500/s', 330.0: '800/s'}
    """
    found: dict[float, str] = {}
    at = 0.0
    for (_, seconds), (rate, _) in pairwise(steps):
        found[at := at + seconds] = f"{rate:,}/s"
    return found


def _curve(color: Color, points: Sequence[tuple[float, float | None]]) -> Curve:
    return Curve(color, points)
