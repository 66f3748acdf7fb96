"""What a stage is called moves nothing that is kept on a real broker: its tasks go by the id that they always had."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engines.targets import contents
from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, ValueState
from fluvial.planner import Settings, plan
from fluvial.runtime import open_system, run
from kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("broker")]


class Counter(KeyedProcessor[str, str, int]):
    """Counts the messages of a key, across runs."""

    seen = ValueState(int, 0)

    def on_message(self, message: Message[str], context: Context[str]) -> list[int]:  # noqa: ARG002
        self.seen.value += 1
        return [self.seen.value]


def pipeline(first: str, second: str) -> Pipeline:
    """Its second stage is called after its border, which was written first; its tasks go by the second stream."""
    made = Pipeline(f"of-{first}")
    keyed = made.stream(first, value=str).partition_by(str, id="by", key_type=str)
    keyed.merge(made.stream(second, value=str, key=str)).process(Counter(), id="n").send_to(f"{first}-out")
    return made


def test_state_goes_on_under_the_id_of_its_stage(broker: Broker, topic: Callable[..., str], tmp_path: Path) -> None:
    first, second = topic(1), topic(1)
    system: Any = open_system(f"kafka://{broker.address}")

    def counted(stream: str, folder: str) -> None:
        sender = system.record_producer()
        sender.send(stream, 0, [(b"k", b"k", 0, ())])
        sender.flush()
        sender.close()
        run(pipeline(first, second), system=system, settings=Settings(state_dir=str(tmp_path / folder)), until="end")

    border = f"of-{first}-by"
    assert [stage.name for stage in plan(pipeline(first, second)).stages] == [first, border]
    counted(first, "one")
    assert set(system.admin().checkpoints(f"of-{first}")) == {f"{first}/0", f"{second}/0"}
    counted(second, "one")
    counted(second, "another")  # restored from its changelog
    assert [record[1] for record in contents(system, f"{first}-out")] == [b"1", b"2", b"3"]
