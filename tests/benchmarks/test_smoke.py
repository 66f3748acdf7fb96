"""The benchmarks run, and all contenders write the same; how fast is no test."""

from pathlib import Path

import msgspec
import pytest

from benchmarks.__main__ import main
from benchmarks.report import Results


def test_the_local_engine_writes_what_the_loop_writes(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    code = main(["--messages", "5000", "--rounds", "1", "--engine", "local", "--output", str(file)])
    found = msgspec.json.decode(file.read_bytes(), type=Results)
    assert code == 0
    assert {(run.engine, run.output_correct) for run in found.runs} == {("loop", True), ("local", True)}


def test_a_profile_names_the_dearest_functions(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--messages", "1000", "--workload", "filter_map", "--profile", "local"])
    assert "tottime" in capsys.readouterr().out
