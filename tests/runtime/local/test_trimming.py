"""Intermediate streams keep what is still to be read, and not all that ever was."""

from pathlib import Path

import pytest

from fluvial.dsl import Pipeline
from fluvial.runtime import run
from fluvial.runtime.local import container
from fluvial.runtime.systems import LogSystem
from targets import contents, write


def test_an_intermediate_stream_does_not_grow_with_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "TRIM_SECONDS", 0)
    system = LogSystem(tmp_path, fsync=False, segment_bytes=100)
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out", value=str)
    for number in range(5):
        write(system, {"in": [[(None, b"%d" % value, 0, ()) for value in range(100 * number, 100 * number + 100)]]})
        run(pipeline, system=system, until="end")
        assert len(list(tmp_path.glob("streams/p-by/0/*.seg"))) <= 3
    (start,), (end,) = system.admin().starts("p-by"), system.admin().ends("p-by")
    assert 400 <= start <= end
    assert sorted(int(record[1] or b"") for record in contents(system, "out")) == list(range(500))
