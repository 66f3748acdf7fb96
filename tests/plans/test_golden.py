"""The plan of a pipeline with every kind of operator, as text and as JSON, is the golden one."""

from pathlib import Path

import pytest

from fluvial.planner import Plan, draw, plan
from fluvial.planner.drawing import View
from golden import assert_golden
from tests.plans.samples import every_kind

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture(scope="module")
def made() -> Plan:
    return plan(every_kind(), partitions={"orders": 4, "payments": 4, "names": 4, "towns": 4})


@pytest.mark.parametrize("view", ["operators", "stages"])
def test_the_plan_as_text_is_the_golden_one(made: Plan, view: View) -> None:
    assert_golden(draw(made, view=view), GOLDEN / f"every-kind-{view}.txt")


def test_the_plan_as_json_is_the_golden_one(made: Plan) -> None:
    assert_golden(made.to_json().replace(f"{ROOT}/", "") + "\n", GOLDEN / "every-kind.json")


def test_the_golden_json_is_read_back(made: Plan) -> None:
    text = (GOLDEN / "every-kind.json").read_text().replace('"tests/', f'"{ROOT}/tests/')
    assert Plan.from_json(text, made.pipeline) == made
