"""What a run of the local engine reports."""

from engines.targets import write
from fluvial.dsl import Pipeline
from fluvial.runtime import run
from fluvial.runtime.cli.display import summary
from fluvial.runtime.systems import MemorySystem


def test_control_messages_are_not_counted_as_read() -> None:
    pipeline, system = Pipeline("p"), MemorySystem()
    crossed = pipeline.stream("in", value=str).partition_by(str.upper, id="by", key_type=str)
    crossed.send_to("out")
    write(system, {"in": [[(None, b"a", 0, ()), (None, b"b", 1, ())], [(None, b"c", 2, ())], []]})
    report = run(pipeline, system=system, until="end")
    assert report.read == {"in": 3, "p-by": 3}
    assert not report.resumed
    again = run(pipeline, system=system, until="end")
    assert again.read == {}
    assert again.resumed
    assert "continued from checkpoints: counts are of this process alone" in summary(again)
