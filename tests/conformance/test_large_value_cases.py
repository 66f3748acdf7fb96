"""Conformance cases about state that is larger than a chunk: it grows, shrinks and is read again, run after run."""

import zlib
from collections.abc import Iterable
from datetime import timedelta

import pytest

from engines.runs_in_a_row import OneRun, Runs, assert_each_run_writes_what_it_should, on_targets
from fluvial.dsl import (
    Aggregate,
    Context,
    KeyedProcessor,
    ListState,
    MapState,
    Message,
    Pane,
    Pipeline,
    ValueState,
    aggregate,
    collect,
    session,
    tumbling,
)
from fluvial.dsl.message import Record
from fluvial.dsl.windows.assigners import Session
from fluvial.runtime.kernel.chunked_values import CHUNK

HOUR = timedelta(hours=1)
NAME = "large"
TEXTS = [f"{number} " * (CHUNK // 3) for number in range(8)]
"""More than a chunk each."""


def told(text: str) -> str:
    return f"{len(text)} {zlib.crc32(text.encode())}"


def told_pane(pane: Pane[str, list[str]]) -> str:
    return told("".join(pane.value))


def told_value(pane: Pane[str, str]) -> str:
    return told(pane.value)


def collected(assigner: Session) -> Pipeline:
    pipeline = Pipeline(NAME)
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(assigner, collect(), id="w").map(told_pane).send_to("out")
    return pipeline


def latest_first() -> Aggregate[str, str]:
    def add(held: str, text: str) -> str:
        return text + held

    return aggregate(str, add)


def opaque() -> Pipeline:
    pipeline = Pipeline(NAME)
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(tumbling(HOUR), latest_first(), id="w").map(told_value).send_to("out")
    return pipeline


class Keeper(KeyedProcessor[str, str, str]):
    """Keeps texts in each kind of state, and tells what it has. A text "forget" clears all."""

    last = ValueState(str)
    texts = ListState(str)
    by_length = MapState(str, str)

    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str]:  # noqa: ARG002
        if message.value == "forget":
            self.last.clear()
            self.texts.clear()
            self.by_length.clear()
        else:
            self.last.value = message.value + (self.last.value or "")
            self.texts.append(message.value)
            self.by_length[str(len(message.value))] = message.value
        yield told(self.last.value or "")
        yield told("".join(self.texts))
        yield told("".join(self.by_length.values()))


def kept() -> Pipeline:
    pipeline = Pipeline(NAME)
    pipeline.stream("in", value=str, key=str).process(Keeper(), id="p").send_to("out")
    return pipeline


def read(*texts: str, at: int = 1) -> list[list[Record]]:
    return [[(b"k", text.encode(), at, ()) for text in texts]]


def writes(*texts: str) -> dict[str, list[str]]:
    return {"out": [told(text) for text in texts]}


ALL = "".join(TEXTS)
SMALL = "small"
CASES = [
    Runs(
        "a-session-grows-beyond-a-chunk",
        lambda: collected(session(HOUR)),
        [
            OneRun(read(SMALL), {}),
            OneRun(read(*TEXTS[:5]), {}),
            OneRun(read(*TEXTS[5:]), {}),
            OneRun([[]], writes(SMALL + ALL), until="end"),
        ],
    ),
    Runs(
        "an-accumulator-changes-as-a-whole",
        opaque,
        [
            OneRun(read(*TEXTS[:2]), {}),
            OneRun(read(SMALL), {}),
            OneRun([[]], writes(SMALL + TEXTS[1] + TEXTS[0]), until="end"),
        ],
    ),
    Runs(
        "states-of-a-processor-grow-and-are-cleared",
        kept,
        [
            OneRun(read(TEXTS[0]), writes(TEXTS[0], TEXTS[0], TEXTS[0])),
            OneRun(read(SMALL), writes(SMALL + TEXTS[0], TEXTS[0] + SMALL, TEXTS[0] + SMALL)),
            OneRun(read("forget"), writes("", "", "")),
            OneRun(read(TEXTS[1]), writes(TEXTS[1], TEXTS[1], TEXTS[1])),
        ],
    ),
]


@pytest.mark.parametrize(("case", "target"), on_targets(CASES))
def test_large_state_is_read_as_it_was_written(case: Runs, target: str, request: pytest.FixtureRequest) -> None:
    assert_each_run_writes_what_it_should(case, target, request)
