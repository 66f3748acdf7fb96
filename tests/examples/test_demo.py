"""The demo, and the plans of the examples."""

from collections.abc import Callable
from pathlib import Path

import pytest

from examples import demo
from fluvial.planner import draw, plan
from fluvial.runtime.pipeline_loader import load_pipeline
from golden import assert_golden

EXAMPLES = Path(__file__).parents[2] / "examples"
GOLDEN = Path(__file__).with_name("golden")
PIPELINES = sorted(file.stem for file in EXAMPLES.glob("*.py") if "= Pipeline(" in file.read_text())


def test_the_demo_runs_and_draws(script: Callable[..., str], tmp_path: Path) -> None:
    told = script("-m", "examples.demo", "--engine", "local", "--requests", "1000", "--drawings", str(tmp_path))
    assert "203.0.113." in told
    assert (tmp_path / "visitor-sessions.svg").read_text().startswith("<svg")
    assert "visitor-sessions" in (tmp_path / "visitor-sessions.html").read_text()


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_engines_agree_in_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main(["--requests", "1000", "--drawings", str(tmp_path)]) == 0
    assert "Both engines wrote the same sessions." in capsys.readouterr().out


@pytest.mark.parametrize("name", PIPELINES)
def test_the_plan_is_the_golden_one(name: str) -> None:
    pipeline = load_pipeline(str(EXAMPLES / f"{name}.py"))
    assert_golden(draw(plan(pipeline)), GOLDEN / f"{name}.txt")


def test_the_plan_as_json_is_the_golden_one() -> None:
    pipeline = load_pipeline(str(EXAMPLES / "visitor_sessions.py"))
    text = plan(pipeline).to_json().replace(f"{EXAMPLES}/", "examples/")
    assert_golden(f"{text}\n", GOLDEN / "visitor_sessions.json")
