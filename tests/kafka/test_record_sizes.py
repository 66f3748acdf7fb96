"""What a broker takes is what a run sends it: records around the limit of their topic, alone and many at once."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from engines.targets import append, contents
from fluvial.dsl import ErrorPolicy, Pipeline, SystemProblem, dead_letter, skip
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import KafkaSystem, Report, run
from kafka.broker import Broker

pytestmark = pytest.mark.kafka

MakeTopic = Callable[..., str]
MIB = 1 << 20
AROUND = range(MIB - 620, MIB + 600, 40)
GUARANTEES: tuple[Guarantee, ...] = ("at_least_once", "exactly_once")


def long_text(size: int) -> str:
    return "x" * size


@pytest.fixture
def name() -> str:
    """A name that no other test's pipeline has."""
    return f"sizes-{uuid4().hex[:8]}"


def fed(kafka: KafkaSystem, name: str, sizes: range) -> None:
    kafka.admin().create(f"{name}-in", 1)
    append(kafka, f"{name}-in", 0, [(b"k", b"%d" % size, 1 + at, ()) for at, size in enumerate(sizes)])


def ran(kafka: KafkaSystem, pipeline: Pipeline, folder: Path, guarantee: Guarantee = "at_least_once") -> Report:
    settings = Settings(state_dir=str(folder), guarantee=guarantee)
    return run(pipeline, system=kafka, until="end", settings=settings)


def copied(name: str, on_error: ErrorPolicy, output: str) -> Pipeline:
    pipeline = Pipeline(name, on_error=on_error)
    pipeline.stream(f"{name}-in", value=int, key=str).map(long_text).send_to(output)
    return pipeline


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("policy", [skip(), dead_letter()], ids=["skip", "dead_letter"])
def test_no_size_ends_the_run(
    broker: Broker, topic: MakeTopic, name: str, tmp_path: Path, guarantee: Guarantee, policy: ErrorPolicy
) -> None:
    kafka, output = KafkaSystem(broker.address), topic(max_message_bytes=str(MIB))
    fed(kafka, name, AROUND)
    report = ran(kafka, copied(name, policy, output), tmp_path, guarantee)
    written = [len(value or b"") for _, value, _, _ in contents(kafka, output)]
    assert written == [size for size in AROUND if size <= MIB - 512 - 1]
    assert sum(report.failed.values()) == len(AROUND) - len(written)


def test_a_border_that_was_made_with_the_default_is_checked_as_well(broker: Broker, name: str, tmp_path: Path) -> None:
    kafka = KafkaSystem(broker.address, topics={"max.message.bytes": MIB})
    fed(kafka, name, range(MIB - 700, MIB, 100))
    pipeline = Pipeline(name, on_error=skip())
    texts = pipeline.stream(f"{name}-in", value=int, key=str).map(long_text)
    texts.partition_by(len, id="by", key_type=int, value=str).map(len).send_to(f"{name}-out")
    report = ran(kafka, pipeline, tmp_path)
    assert (report.written[f"{name}-out"], report.failed) == (2, {"by": 5})


@pytest.mark.parametrize("compression", ["lz4", "zstd", "gzip", "snappy"])
def test_what_the_client_compresses_is_sent_if_it_fits_then(
    broker: Broker, topic: MakeTopic, name: str, tmp_path: Path, compression: str
) -> None:
    conf = {"compression.type": compression}
    kafka, output = KafkaSystem(broker.address, conf=conf), topic(max_message_bytes=str(MIB))
    fed(kafka, name, range(MIB, 34 * MIB, 16 * MIB))  # 1, 17 and 33 MiB; the client takes 32
    assert ran(kafka, copied(name, skip(), output), tmp_path).failed == {"send_to-3": 1}
    assert len(contents(kafka, output)) == 2


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_topic_with_a_low_limit_takes_many_small_records(
    broker: Broker, topic: MakeTopic, name: str, tmp_path: Path, guarantee: Guarantee
) -> None:
    kafka, output = KafkaSystem(broker.address), topic(max_message_bytes="20000")
    fed(kafka, name, range(1_000, 1_300))
    assert ran(kafka, copied(name, skip(), output), tmp_path, guarantee).failed == {}
    assert len(contents(kafka, output)) == 300


def test_a_limit_that_was_lowered_during_the_run_is_reported(broker: Broker, topic: MakeTopic, tmp_path: Path) -> None:
    kafka, output = KafkaSystem(broker.address), topic(max_message_bytes=str(MIB))
    name = f"sizes-{uuid4().hex[:8]}"
    fed(kafka, name, range(500_000, 500_001))

    def lowered(number: int) -> str:
        broker.change(output, max_message_bytes="100000")
        return long_text(number)

    pipeline = Pipeline(name, on_error=skip())
    pipeline.stream(f"{name}-in", value=int, key=str).map(lowered).send_to(output)
    with pytest.raises(SystemProblem, match=r"would not take a record of 500,001 bytes for") as raised:
        ran(kafka, pipeline, tmp_path)
    assert "to do: raise max.message.bytes of the topic" in str(raised.value)
