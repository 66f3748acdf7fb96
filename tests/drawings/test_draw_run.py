"""Drawings of runs as SVG: well-formed whatever users write, and the same each time."""

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from fluvial.dsl import Pipeline, UsageError
from fluvial.runtime.testing import PipelineDriver, Recorder, Recording, draw_run
from tests.planner.drawing.samples import HOSTILE
from tests.runtime.testing.drawing.runs import shares, windows


def texts(picture: str) -> list[str]:
    return [text for found in ElementTree.fromstring(picture).iter() if (text := found.text) and "text" in found.tag]


@pytest.mark.parametrize("run", [windows(), shares(), Recording("empty", (), None)], ids=["windows", "shares", "empty"])
@pytest.mark.parametrize("options", [{}, {"by": "stream"}, {"across": "clock"}, {"by": "stream", "across": "clock"}])
def test_a_drawing_is_well_formed_and_always_the_same(run: Recording, options: Any) -> None:
    picture = draw_run(run, **options)
    assert ElementTree.fromstring(picture).tag.endswith("svg")
    assert picture == draw_run(run, **options)
    assert "nan" not in picture


def test_what_users_write_is_escaped() -> None:
    pipeline = Pipeline("hostile")
    pipeline.stream("in", key=str, value=str).send_to("out")
    with PipelineDriver(pipeline) as driver:
        recorder = Recorder(driver)
        for text in HOSTILE:
            recorder.send("in", text.encode(errors="replace").decode(), key=text.encode(errors="replace").decode())
        for by in ("step", "stream"):
            ElementTree.fromstring(draw_run(recorder.recording, by=by))


def test_values_keys_streams_and_times_are_written() -> None:
    found = texts(draw_run(windows()))
    assert {"in", "out", "ann", "bob", "a", "d", "event time, seconds", "10", "too late"} <= set(found)


def test_an_interval_is_drawn_and_explained() -> None:
    intervals = {"in": lambda message: (message.timestamp, message.timestamp + 5000)}
    picture = draw_run(windows(), intervals=intervals, interval_legend="how long it is kept")
    assert picture.count('class="interval"') == 4 + 1
    assert "how long it is kept" in texts(picture)


def test_a_run_that_goes_by_the_clock_is_drawn_over_it() -> None:
    found = texts(draw_run(windows(time="processing")))
    assert {"clock, seconds", "the clock; behind it, time has passed"} <= set(found)
    assert "event time, seconds" in texts(draw_run(windows(time="processing"), across="event"))


def test_each_key_has_a_shape() -> None:
    picture = draw_run(windows(), by="stream")
    assert re.search(r'class="mark sent k0"><title>[^<]*</title><circle', picture)
    assert re.search(r'class="mark sent k1"><title>[^<]*</title><polygon', picture)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"by": "key"}, "by='key'"),
        ({"across": "space"}, "across='space'"),
        ({"streams": ["inn"]}, "streams= names 'inn'"),
    ],
)
def test_wrong_options_are_refused(options: Any, text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        draw_run(windows(), **options)


def test_what_is_no_recording_is_refused() -> None:
    wrong: Any = "run"
    with pytest.raises(UsageError, match="a Recording"):
        draw_run(wrong)
