"""`deduplicate` in the time of its stage: what it passes on meets the watermark of that moment."""

from datetime import timedelta

from fluvial.dsl import Pipeline, count, skip, tumbling
from fluvial.runtime.testing import PipelineDriver

TEN = timedelta(milliseconds=10)


def itself(word: str) -> str:
    return word


def test_what_is_passed_on_in_one_batch_crosses_a_border_with_the_watermark_of_each_message() -> None:
    pipeline = Pipeline("p")
    once = pipeline.stream("in", key=str, value=str).deduplicate(TEN, by=itself, id="once")
    words = once.partition_by(itself, id="by", key_type=str)
    words.window(tumbling(TEN), count(), id="w").map(lambda pane: pane.key).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.records.send("in", [(b"k", word, at, ()) for word, at in ((b"a", 0), (b"b", 15), (b"c", 5))])
        driver.end()
        # The window of "c" has fired when "b" moved time; for `deduplicate` it is not late.
        assert sorted(message.value for message in driver.read("out")) == ["a", "b"]
        assert driver.report().late == {"w": 1}


def test_messages_that_fail_elsewhere_are_not_remembered() -> None:
    pipeline = Pipeline("p", on_error=skip())
    words = pipeline.stream("in", key=str, value=str)
    words.deduplicate(TEN, id="once").send_to("out")
    words.map(int).send_to("numbers")
    with PipelineDriver(pipeline) as driver:
        for word in ("no number", "3"):
            driver.send("in", word, key="k", timestamp=0)
        assert [message.value for message in driver.read("out")] == ["3"]
