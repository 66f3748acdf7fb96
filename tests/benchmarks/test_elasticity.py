"""The arithmetic of the measurements of elasticity, their pictures, and what feeds them."""

from pathlib import Path
from xml.etree import ElementTree
from zlib import crc32

import msgspec
import pytest

from benchmarks.elasticity import containers, discarding, followed_load, moved_state, standbys
from benchmarks.elasticity.__main__ import MAKER, PAGE, RESULTS
from benchmarks.elasticity.bucket_run import Course, Passed
from benchmarks.elasticity.containers import Busy
from benchmarks.elasticity.curves import Curve, Panel, drawn
from benchmarks.elasticity.discarding import Passing
from benchmarks.elasticity.followed_load import FollowedLoad, LoadSample
from benchmarks.elasticity.goals import Goal, Judged
from benchmarks.elasticity.landings import Landing, between, by_second, longest_gap, percentile, problem, split
from benchmarks.elasticity.measurements import MEASUREMENTS
from benchmarks.elasticity.moved_state import SMALL, Change
from benchmarks.elasticity.numbers import fill, numbering
from benchmarks.elasticity.page import figures
from benchmarks.elasticity.pipelines import FILLING, Answer, Numbered
from benchmarks.elasticity.programs import tasks_moved
from benchmarks.elasticity.standbys import Loss
from benchmarks.page import published, write_figures
from benchmarks.results import circumstances, save
from benchmarks.topics import Topics
from kafka.broker import Broker
from waiting import wait_until


def landing(number: int, task: int, produced: int, took: int = 5) -> Landing:
    return Landing(number, task, produced, produced + took)


STEADY = [landing(number, number % 4, number * 10) for number in range(400)]
"""Four seconds of 100 messages each, of four tasks, each after 5 ms."""


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(picture).iter()]


def paths(picture: str) -> list[str]:
    elements = ElementTree.fromstring(picture).iter()
    return [element.get("d", "") for element in elements if "line" in element.get("class", "").split()]


def test_one_in_a_hundred_is_above_the_99th_percentile() -> None:
    assert (percentile([1] * 98 + [7, 99], 99), percentile([1] * 98 + [7, 99], 50)) == (7, 1)
    assert percentile([3], 99) == 3


def test_latencies_are_split_by_task_and_by_time() -> None:
    of, others = split(STEADY, [1, 3])
    assert {one.task for one in of} == {1, 3}
    assert len(of) == len(others) == 200
    assert [one.produced for one in between(STEADY, 20, 50)] == [20, 30, 40]
    seconds = by_second([*STEADY, landing(400, 0, 1_500, took=90)], 0)
    assert [(one.second, one.p50) for one in seconds] == [(0, 5), (1, 5), (2, 5), (3, 5)]
    assert [one.p99 for one in seconds] == [5, 5, 5, 5], "one of 101 is within one in a hundred"


def test_a_gap_is_of_one_task_and_touches_the_time_that_is_asked_for() -> None:
    assert longest_gap(STEADY, 0, 4_000) == 40
    paused = [one for one in STEADY if one.task != 1 or not 1_000 <= one.produced < 2_000]
    assert longest_gap(paused, 1_500, 1_501) == 1_040
    assert longest_gap(paused, 2_500, 3_500) == 40
    assert longest_gap([], 0, 1) == 0


def test_what_is_missing_doubled_or_wrong_is_reported() -> None:
    assert problem(STEADY, 400, once=True) == ""
    assert problem(STEADY[1:], 400, once=True) == "1 missing"
    assert problem([*STEADY, STEADY[0]], 400, once=True) == "1 doubled"
    assert problem([*STEADY, STEADY[0]], 400, once=False) == ""
    assert problem(STEADY, 399, once=False) == "1 unknown"
    wrong = msgspec.structs.replace(STEADY[0], right=False)
    assert problem([wrong, *STEADY[1:]], 400, once=True) == "1 of a wrong state"


@pytest.mark.parametrize(("measured", "sign"), [(1.9, ""), (1.8, ""), (1.7, "; NOT REACHED")])
def test_a_goal_says_whether_it_is_reached(measured: float, sign: str) -> None:
    goal = Goal(what="ratio", bound="at least", limit=1.8, measured=measured)
    assert goal.told() == f"ratio: {measured} (at least 1.8{sign})"
    assert msgspec.structs.replace(goal, bound="at most").reached == (measured <= 1.8)


def busy(system: str, containers: int, speed: float, problem: str = "") -> Busy:
    return Busy(system=system, containers=containers, messages_per_second=speed, noise=0.0, problem=problem)


def test_ratios_are_of_pairs_and_the_median_counts() -> None:
    pairs = [(1_000.0, 1_900.0), (500.0, 900.0), (1_000.0, 1_000.0)]
    runs = [busy("log", number, speed) for pair in pairs for number, speed in zip((1, 2), pair, strict=True)]
    found = containers.judged(10, runs, small=True)
    assert [(goal.measured, goal.samples) for goal in found.goals] == [(1.8, [1.9, 1.8, 1.0])]
    assert found.output_correct
    assert not containers.judged(10, [*runs, busy("log", 1, 1, "lost"), busy("log", 2, 1)], small=True).output_correct


def test_keys_are_of_both_buckets_in_turn() -> None:
    keys = containers.even_keys()
    assert len(set(keys)) == len(keys) == 1_000
    assert {crc32(key) % 2 == number % 2 for number, key in enumerate(keys)} == {True}


def passing(buckets: int, nanoseconds: float) -> Passing:
    return Passing(buckets=buckets, nanoseconds=nanoseconds, noise=0.0)


def test_to_read_a_message_is_no_cost_of_passing_over_it() -> None:
    runs = [passing(0, 1_000), passing(1, 4_000), passing(2, 1_200), passing(4, 1_400)]
    found = discarding.judged(10, runs, small=True)
    assert (found.read_ns, found.kept_ns, found.discarded_ns) == ([1_000], [4_000], {"2": [1_200], "4": [1_400]})
    assert [goal.measured for goal in found.goals] == [0.05, 0.1]


def test_keys_of_others_are_not_in_the_first_bucket() -> None:
    keys = {discarding.foreign_key(f"user-{number}") for number in range(200)}
    assert len(keys) == 200
    assert {crc32(key) % 4 for key in keys} == {1, 3}


def test_processor_time_counts_from_the_first_messages_on() -> None:
    first, last = Passed(kept=100, discarded=100, processor_seconds=1.0), Passed(kept=600, processor_seconds=1.002)
    course = Course(first=first, last=msgspec.structs.replace(last, discarded=100))
    assert course.nanoseconds == pytest.approx(4_000)


def test_moves_are_judged_beside_the_quiet_time_before_them(tmp_path: Path) -> None:
    slower = [landing(400 + number, number % 4, 4_000 + number * 10, took=20) for number in range(200)]
    paused = [one for one in slower if one.task != 1 or one.produced >= 5_000]
    changes = [
        Change(containers=2, first=4_000, last=6_000, moved=[1]),
        Change(containers=1, first=6_000, last=6_001, moved=[1]),
    ]
    found = moved_state.judged([*STEADY, *paused], changes, SMALL, 0, small=True, noise=0.0, wrong="")
    there, back = found.moves
    assert (there.pause_ms, there.others_before_ms, there.others_ms, there.times_as_long) == (1_055, 5, 20, 4.0)
    assert (there.at, there.seconds, back.containers) == (4.0, 2.0, 1)
    assert [goal.measured for goal in found.goals] == [1.055, 4.0], "moves back do not count"
    save(found, tmp_path / "found.json")
    shown = texts(moved_state.picture((tmp_path / "found.json").read_bytes()))
    assert {"scale", "done", "4 s"} <= set(shown)


def test_the_pause_of_a_loss_is_that_of_its_own_tasks() -> None:
    paused = [one for one in STEADY if one.task != 2 or not 1_000 <= one.produced < 3_000]
    lost = [Loss(container=number, tasks=tasks, at=1_500) for number, tasks in enumerate(([0, 1], [2, 3]))]
    killed = [standbys.with_pause(loss, paused) for loss in lost]
    assert [loss.pause_ms for loss in killed] == [40, 2_040]
    found = standbys.judged(killed, [], ["", ""], 0, small=True, noise=0.0)
    assert [goal.measured for goal in found.goals] == [1.04, 0]
    assert found.output_correct
    assert not standbys.judged(killed, [], ["", "1 doubled"], 1, small=True, noise=0.0).output_correct
    assert standbys.doubles([*STEADY, STEADY[7]]) == 1


def test_a_key_that_is_not_counted_one_by_one_has_lost_state() -> None:
    def answers(*seen: int) -> list[Answer]:
        return [Answer(number * standbys.KEYS, 0, 0, count, True) for number, count in enumerate(seen)]

    assert standbys.miscounted(answers(1, 2, 3)) == 0
    assert standbys.miscounted(answers(1, 2, 2)) == 1
    assert standbys.miscounted(answers(2, 3)) == 1


def followed(sizes: list[int], waits: int) -> FollowedLoad:
    steps = [(10, 4.0), (30, 4.0), (10, 4.0)]
    samples = [LoadSample(at * 2.0, at * 20, at * 20 - waits, size) for at, size in enumerate(sizes)]
    return FollowedLoad(
        **circumstances(),
        small=True,
        noise=0.0,
        output_correct=True,
        goals=followed_load.goals(samples, steps),
        steps=steps,
        samples=samples,
        said=[],
    )


def test_a_load_is_followed_up_and_down() -> None:
    good, bad = followed([1, 1, 2, 3, 2, 1], 0), followed([1, 1, 1, 1, 1, 2], 50)
    assert [goal.reached for goal in good.goals] == [True] * 3
    assert [goal.measured for goal in bad.goals] == [2, 2, 5.0]
    drawing = followed_load.picture(msgspec.json.encode(good))
    assert {"containers", "messages that wait", "30/s", "10/s", "10 s"} <= set(texts(drawing))
    assert len(paths(drawing)) == 4


def test_rates_are_taken_over_some_samples() -> None:
    samples = followed([1] * 8, 0).samples
    assert followed_load.rates(samples, [sample.arrived for sample in samples])[1:] == [
        (at * 2.0, 10.0) for at in range(1, 8)
    ]


def test_a_curve_ends_where_there_is_no_value() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 4.0)]
    (line,) = paths(drawn("a title", [Panel("a panel <ms>", [Curve("ours", points)])], {1.0: "a change"}))
    assert line == "M64.0 106.5L292.0 79.0M748.0 24.0"


def test_the_page_has_a_row_for_each_goal() -> None:
    found = followed([1, 1, 2, 2, 1, 1], 0)
    page = figures({"followed-load": found})
    assert "| containers of a followed load, at the most | 2 | at least 2 |" in page
    assert f"`{found.commit}`" in page
    assert "not quiet" not in page
    assert "up to 40%" in figures({"followed-load": msgspec.structs.replace(found, noise=0.4)})


def test_figures_are_filled_into_their_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- figures: written by make bench-elasticity -->\nold\n<!-- end of figures -->\nafter\n")
    write_figures(page, "new\n", "make bench-elasticity")
    assert published(page, "make bench-elasticity") == "new\n"
    assert page.read_text().split("\n")[2:] == ["new", "<!-- end of figures -->", "after", ""]
    with pytest.raises(ValueError, match="has no place for figures"):
        write_figures(page, "new\n", "make bench")


def test_the_guide_shows_the_figures_that_are_kept() -> None:
    files = {name: one.file(RESULTS) for name, one in MEASUREMENTS.items()}
    kept = {name: msgspec.json.decode(file.read_bytes(), type=Judged) for name, file in files.items()}
    assert published(PAGE, MAKER) == figures(kept)


def test_the_tasks_that_moved_are_named_by_their_partitions() -> None:
    assert tasks_moved([{"task": "held-in/3", "from": 0, "to": 1}, {"task": "held-in/1", "from": 0, "to": 1}]) == [1, 3]


@pytest.mark.kafka
def test_numbers_come_in_turn_and_as_many_as_are_told(broker: Broker) -> None:
    topics, topic = Topics(broker.address), broker.make_topic(4)
    try:
        fill(broker.address, topic, 40)
        with numbering(topics, topic, 200, 40) as numbers:
            wait_until(lambda: sum(topics.ends(topic)) > 100, "numbers are there", 30)
        found = [msgspec.json.decode(value, type=Numbered).number for value, _ in topics.read(topic)]
    finally:
        topics.close()
    assert found.count(FILLING) == 40
    assert sorted(number for number in found if number != FILLING) == list(range(numbers.sent))
