"""Intermediate streams keep what is still to be read, and not all that ever was."""

from datetime import timedelta
from pathlib import Path

import pytest

from engines.several import at_each_turn, run_together
from engines.targets import contents, write
from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import Progress, run
from fluvial.runtime.local import container
from fluvial.runtime.systems import LogSystem


def words_by_letter() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out", value=str)
    return pipeline


def numbers(start: int, stop: int, step: int = 1) -> list[Record]:
    return [(None, b"%d" % value, 0, ()) for value in range(start, stop, step)]


def test_an_intermediate_stream_does_not_grow_during_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "TRIM_SECONDS", 0)
    system = LogSystem(tmp_path, fsync=False, segment_bytes=100)
    most = 0

    def look(_: Progress) -> None:
        nonlocal most
        most = max(most, len(list(tmp_path.glob("streams/p-by/*/*.seg"))))

    write(system, {"in": [numbers(0, 2_000)]})
    often = Settings(commit_interval=timedelta(0))
    with at_each_turn():
        run(words_by_letter(), system=system, settings=often, until="end", progress=look)
    assert 0 < most <= 6
    assert sorted(int(record[1] or b"") for record in contents(system, "out")) == list(range(2_000))


@pytest.mark.slow
@pytest.mark.parametrize(("containers", "elasticity"), [(1, 1), (2, 1), (3, 1), (2, 2)])
def test_at_the_end_of_a_run_intermediate_streams_are_empty(tmp_path: Path, containers: int, elasticity: int) -> None:
    system = LogSystem(tmp_path, fsync=False)
    pipeline = words_by_letter()
    for number in range(3):
        write(system, {"in": [numbers(100 * number + part, 100 * number + 100, 3) for part in range(3)]})
        run_together(system, pipeline, containers, Settings(elasticity=elasticity))
        assert system.admin().starts("p-by") == system.admin().ends("p-by")
        assert list(tmp_path.glob("streams/p-by/*/*.seg")) == []
    assert sorted(int(record[1] or b"") for record in contents(system, "out")) == list(range(300))
