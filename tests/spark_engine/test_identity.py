"""The name of a checkpoint on Spark, by which the log knows which batches it has."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from fluvial.runtime.spark import atomic_file as files
from fluvial.runtime.spark.query import query


def test_a_crash_while_a_checkpoint_is_named_leaves_none_without_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(file: Path, _: bytes) -> None:
        file.touch()
        raise KeyboardInterrupt

    named: Any = query._identity
    monkeypatch.setattr(files, "write_file", killed)
    with pytest.raises(KeyboardInterrupt):
        named(tmp_path)
    monkeypatch.undo()
    assert named(tmp_path)
    assert named(tmp_path) == named(tmp_path)
