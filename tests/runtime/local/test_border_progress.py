"""What a task reports at its borders, and what is no news there."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, read_control
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.local.border_progress import BorderProgress


@dataclass
class Stage:
    """How far time has come in front of the border."""

    watermark: int = START
    told: int = START
    idle: bool = False
    busy: bool = False

    def watermark_of(self, operator: str) -> int:
        assert operator == "border"
        return self.watermark

    def reported_watermark_of(self, operator: str) -> int:
        assert operator == "border"
        return self.told

    def has_ended(self, operator: str) -> bool:
        assert operator == "border"
        return self.watermark == END

    def is_idle(self, operator: str) -> bool:
        assert operator == "border"
        return self.idle


@dataclass
class Sent:
    """A buffer that knows to which partitions what was sent."""

    size: int = 0
    records: list[tuple[int, Record]] = field(default_factory=list)

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        assert stream == BORDER
        self.records += [(partition, record) for record in records]

    def take(self) -> list[tuple[int, int, int, bool, bool]]:
        """Partition, timestamp, watermark, end and idleness of each control message since the last call."""
        taken, self.records = self.records, []
        controls = [(partition, record[2], read_control(record[3][0][1])) for partition, record in taken]
        return [(at, time, one.watermark, one.ended, one.idle) for at, time, one in controls if one is not None]


PIPELINE = Pipeline("p")
PIPELINE.stream("in", value=str, key=str).partition_by(lambda value: value, key_type=str, id="border").send_to("out")
PLAN = plan(PIPELINE, partitions={"in": 2})
STAGE = PLAN.stages[0]
BORDER = PLAN.operator("border").writes[0]


def borders_of(stage: Stage) -> BorderProgress:
    return BorderProgress(PLAN, STAGE, stage, partial(ControlMessage, "run", 1, 0, 2))


def test_news_goes_to_every_partition_once() -> None:
    stage, sent = Stage(), Sent()
    borders = borders_of(stage)
    assert not borders.report(sent)
    stage.watermark = stage.told = 7
    assert borders.report(sent)
    assert sent.take() == [(0, 7, 7, False, False), (1, 7, 7, False, False)]
    assert not borders.report(sent)
    assert sent.take() == []


def test_a_border_that_is_idle_is_news_both_when_it_begins_and_when_it_is_over() -> None:
    stage, sent = Stage(watermark=7, told=7), Sent()
    borders = borders_of(stage)
    for idle in (False, True, False):
        stage.idle = idle
        assert borders.report(sent)
        assert sent.take() == [(partition, 7, 7, False, idle) for partition in (0, 1)]


def test_an_end_waits_for_what_is_in_flight_and_does_not_move_the_watermark() -> None:
    stage, sent = Stage(watermark=7, told=7), Sent()
    borders = borders_of(stage)
    borders.report(sent)
    sent.take()
    stage.watermark, stage.busy = END, True
    assert (borders.has_unreported_end, borders.report(sent)) == (True, False)
    stage.busy = False
    assert borders.report(sent)
    assert sent.take() == [(0, 7, 7, True, False), (1, 7, 7, True, False)]
    assert not borders.has_unreported_end


def test_time_waits_for_no_task_without_an_input_that_leads_to_the_border() -> None:
    sent = Sent()
    assert borders_of(Stage(watermark=END)).report(sent)
    assert sent.take() == [(0, END, END, True, False), (1, END, END, True, False)]
