"""Pipelines in which early panes of a window without end cross a border, and are windowed there."""

from dataclasses import replace

from hypothesis import strategies as st

from generators.cases import Case, cases_of
from generators.described_steps import Source, When, WindowStep
from generators.descriptions import Description
from generators.draft import Windows

_TIMES = st.none() | st.sampled_from((1, 5, 6, 10, 50))


@st.composite
def crossing_early(draw: st.DrawFn, windows: Windows, *, in_order: bool = False) -> Case:
    """One such pipeline with inputs; if they are `in_order`, nothing is late."""
    times = _TIMES if windows == "triggers" else st.none()
    whens = st.builds(When, st.none() | st.integers(1, 3), times, times, repeats=st.booleans())
    when = draw(whens.filter(lambda one: (one.count, one.first, one.last) != (None, None, None)))
    first = WindowStep(
        0, "unbounded", 0, "count", accumulate=draw(st.booleans()), panes="early", crosses=True, trigger=when
    )
    behind = WindowStep(
        1,
        draw(st.sampled_from(("tumbling", "session"))),
        draw(st.sampled_from((1, 5, 10, 50))),
        "count",
        lateness=draw(st.sampled_from((0, 10, 50))),
        late_to=draw(st.sampled_from((None, "late"))),
        panes="panes",
    )
    source = Source("a", "str", "record", draw(st.sampled_from((0, 1, 5, 20))))
    case = draw(cases_of(Description((source,), (first, behind), "fail", "late"), max_records=20))
    if not in_order:
        return case
    ((records,),) = case.inputs.values()
    return replace(case, inputs={"a": [sorted(records, key=lambda record: record[2])]})
