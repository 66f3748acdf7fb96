"""`fluvial scale`: how it ends."""

import signal
from pathlib import Path
from unittest.mock import patch

import pytest

from fluvial.runtime.cli import scale_verb


def test_sigterm_unwinds_a_change_so_that_it_is_taken_back(tmp_path: Path) -> None:
    target, undone = tmp_path / "visits.py", list[str]()
    target.write_text("from fluvial.dsl import Pipeline\np = Pipeline('p')\np.stream('a', value=str).send_to('b')\n")

    def scale(*_: object, **__: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            undone.append("taken back")

    with patch.object(scale_verb, "scale", scale), pytest.raises(SystemExit) as ended:
        scale_verb.scale_verb(str(target), "kafka://localhost:1", containers=2)
    assert ended.value.code == 128 + signal.SIGTERM
    assert undone
