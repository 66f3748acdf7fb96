"""The differential property is worth something: it catches mistakes planted in the kernel and the local engine."""

from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings

from cases import Case, cases, judge
from descriptions import Mode
from fluvial.runtime.kernel.cells import Cells
from fluvial.runtime.kernel.inputs import Inputs
from fluvial.runtime.kernel.sessions import SessionOperator
from fluvial.runtime.kernel.tumbling import TumblingOperator
from mutants import Mutant, planted
from targets import PATIENT, on_driver

BOUNDED = settings(
    max_examples=400,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    suppress_health_check=PATIENT,
)

MUTANTS = [
    (Mutant(TumblingOperator, "_add", "end + lateness <= watermark", "end + lateness < watermark"), "late"),
    (Mutant(TumblingOperator, "advance", "self._fired < end <= watermark", "self._fired < end < watermark"), "late"),
    (Mutant(TumblingOperator, "advance", "end + self._lateness <= watermark", "end <= watermark"), "late"),
    (Mutant(SessionOperator, "add", "timestamp <= span.last + gap", "timestamp < span.last + gap"), "on_time"),
    (Mutant(SessionOperator, "_union", "held[1:]", "held[2:]"), "on_time"),
    (Mutant(SessionOperator, "add", "sorted([*others, span], key=_first)", "[span, *others]"), "on_time"),
    (Mutant(Inputs, "_control", "len(ended) >= control.producers", "len(ended) >= 1"), "on_time"),
    (Mutant(Inputs, "_least", "min(told.values())", "max(told.values())"), "on_time"),
    (Mutant(Cells, "floor", "found[0].watermark", "found[-1].watermark"), "on_time"),
]
"""The mistake, and the mode whose cases can show it."""


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "mode"), MUTANTS, ids=lambda one: str(one))
def test_a_mistake_is_caught(mutant: Mutant, mode: Mode) -> None:
    @BOUNDED
    @given(cases(mode))
    def check(case: Case) -> None:
        judge(case, on_driver)

    # A pipeline may also fail or never end because of the mistake.
    with planted(mutant), pytest.raises(Exception):  # noqa: B017, PT011
        check()


def test_a_lost_control_message_is_caught() -> None:
    @BOUNDED
    @given(cases("on_time"))
    def check(case: Case) -> None:
        judge(case, on_driver)

    with patch.object(Inputs, "_control", lambda *_: None), pytest.raises(Exception):  # noqa: B017, PT011
        check()
