"""The harness with the loop by hand, on a broker and a small input."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.events import EVENTS
from benchmarks.latency import latency
from benchmarks.parts import WHOLE, shares
from benchmarks.profiling import profile
from benchmarks.results import Latency, load
from benchmarks.rounds import Size, compare
from benchmarks.topics import Topics
from benchmarks.topics import load as load_topic
from benchmarks.workloads import WORKLOADS
from kafka.broker import Broker
from waiting import wait_until

pytestmark = pytest.mark.kafka

RAW = CONTENDERS["raw"]
MESSAGES = 2_000


@pytest.fixture
def topics(broker: Broker) -> Topics:
    return Topics(broker.address)


def quiet(_: str) -> None:
    pass


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_loop_by_hand_writes_what_the_oracle_expects(name: str, topics: Topics) -> None:
    (found,) = compare(WORKLOADS[name], [RAW], Size(MESSAGES), topics, quiet)
    assert found.output_correct, found
    assert found.ratio_to_raw == 1.0
    assert found.messages_per_second > 0
    assert found.peak_rss_mb > 0


def test_an_input_is_loaded_once(topics: Topics) -> None:
    told: list[str] = []
    (name,) = load_topic(topics, [EVENTS], 500, told.append)
    assert load_topic(topics, [EVENTS], 500, told.append) == (name,)
    assert len(told) == 1
    assert sum(topics.ends(name)) == EVENTS.whole_size(500)


@pytest.mark.parametrize("name", ["W5", *(pytest.param(name, marks=pytest.mark.long) for name in ("W2", "W6"))])
def test_the_time_of_the_main_thread_is_reported_by_part(name: str, topics: Topics) -> None:
    found = list(shares(WORKLOADS[name], Size(MESSAGES), topics, quiet))
    ours = {share.part: share.nanoseconds for share in found if share.engine == "local"}
    assert ours[WHOLE] == pytest.approx(sum(ours.values()) - ours[WHOLE], abs=len(ours))
    assert min(ours.values()) >= 0
    assert [share.part for share in found if share.engine == "raw"] == [WHOLE]


def test_a_run_leaves_nothing_behind(topics: Topics) -> None:
    load_topic(topics, [EVENTS], MESSAGES, quiet)
    before = topics.names()
    compare(WORKLOADS["W3"], [RAW], Size(MESSAGES), topics, quiet)
    # A broker may list a topic for a moment after it has removed it.
    wait_until(lambda: topics.names() == before, "the topics that were there before", 30)


def test_a_program_that_fails_is_reported_with_its_last_words(topics: Topics, tmp_path: Path) -> None:
    program = tmp_path / "fails.py"
    program.write_text("raise SystemExit('out of luck')")
    told: list[str] = []
    broken = [RAW, replaced(str(program))]
    _, found = compare(WORKLOADS["W1"], broken, Size(MESSAGES), topics, told.append)
    assert (found.messages_per_second, found.output_correct, found.problem) == (0, False, "out of luck")
    assert "out of luck" in told[-1]


def replaced(program: str) -> Contender:
    return replace(CONTENDERS["local"], command=lambda _: (sys.executable, program))


def test_latencies_are_those_of_messages_at_the_rate(topics: Topics) -> None:
    found = latency(RAW, topics, 200, 1.0)
    assert isinstance(found, Latency), found
    assert 0 <= found.p50_ms <= found.p99_ms <= found.worst_ms
    assert found.samples > 0


def test_a_profile_names_the_dearest_functions(topics: Topics, capsys: pytest.CaptureFixture[str]) -> None:
    profile(RAW, WORKLOADS["W1"], Size(MESSAGES), topics, quiet)
    # Of so few messages the imports may be the dearest.
    assert "filename:lineno(function)" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.long  # what it puts together is tested above
def test_the_command_starts_a_broker_and_saves_what_it_found(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    words = "--messages 500 --rounds 1 --workload W1 --engine raw --engine pyspark-each --rate 200 --seconds 1 "
    assert main([*words.split(), "--broker", f"{tmp_path}/kafka", "--output", str(file)]) == 0
    found = load(file)
    assert [latency.engine for latency in found.latencies] == ["raw"]  # the other does not do what it is measured with
    assert [(run.engine, run.workload, run.output_correct) for run in found.runs] == [("raw", "W1", True)]
    assert found.versions["confluent-kafka"]
    assert found.versions["kafka"].count(".") == 2
