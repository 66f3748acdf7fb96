"""The name of a checkpoint on Spark, by which the log knows which batches it has."""

from pathlib import Path
from typing import Any, NoReturn

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from fluvial.runtime.spark.query import query


def test_a_crash_while_a_checkpoint_is_named_leaves_none_without_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(file: Path, name: Path) -> NoReturn:
        del file, name
        raise KeyboardInterrupt

    named: Any = query._identity
    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        named(tmp_path)
    assert [*tmp_path.iterdir()], "what it had written is left"
    monkeypatch.undo()
    assert named(tmp_path)
    assert named(tmp_path) == named(tmp_path)
