"""What stands in the streams of a plan, as messages."""

from fluvial.dsl import Message, Pipeline
from fluvial.planner import Plan, plan
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, control_record, pack_trailer, with_trailer
from fluvial.runtime.testing.stream_messages import readers


def lengths() -> Plan:
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str, timestamp=len)
    words.partition_by(len, id="by", key_type=int).send_to("out")
    return plan(pipeline)


def test_there_is_a_reader_for_each_stream_in_the_order_of_the_plan() -> None:
    assert list(readers(lengths())) == ["words", "p-by", "out"]


def test_inputs_have_the_time_that_the_pipeline_goes_by() -> None:
    assert list(readers(lengths())["words"]([(None, b"tea", 99, ())])) == [Message(None, "tea", 3)]


def test_a_time_that_is_not_known_is_that_of_the_record() -> None:
    assert list(readers(lengths())["words"]([(b"k", None, 99, ())])) == [Message(b"k", None, 99)]


def test_stamps_and_control_messages_between_stages_are_left_out() -> None:
    key, stamp = (3).to_bytes(8, "big"), pack_trailer(0, 7)
    headers = (("trace", b"1"),)
    records = [
        with_trailer((key, b"tea", 5, headers), stamp),
        control_record(ControlMessage("run", 0, 0, 1, 7, False), 7),
        with_trailer((key, None, 6, headers), stamp),
    ]
    found = list(readers(lengths())["p-by"](records))
    assert found == [Message(3, "tea", 5, headers), Message(3, None, 6, headers)]
