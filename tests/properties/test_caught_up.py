"""However the input is cut into runs that catch up with it, all of them together write what one run writes."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same
from engines.targets import PATIENT, append, outputs_of, with_remote_rows
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem
from generators.building import build
from generators.cases import Case, Pieces, cases, expected, pieces_of
from generators.draft import Extra
from generators.how_many import examples
from oracle.interpreter import Outputs


@settings(max_examples=examples(30), deadline=None, suppress_health_check=PATIENT)
@given(cases(max_records=10, extras=get_args(Extra)), st.data())
def test_runs_that_catch_up_write_what_one_run_writes(case: Case, data: st.DataObject) -> None:
    pieces = data.draw(pieces_of(case.inputs, case.first), label="pieces")
    last = data.draw(st.integers(0, len(pieces)), label="runs before the last")
    assert_same(written_in_runs(case, pieces, last), expected(case))


@with_remote_rows
def written_in_runs(case: Case, pieces: Pieces, before_last: int) -> Outputs:
    """Write piece by piece, with a run that catches up after each of the first `before_last`, and one to the end."""
    pipeline = build(case.description)
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        for stream, count in case.partitions.items():
            system.admin().create(stream, count)
        for number, (partition, records) in enumerate(pieces):
            append(system, *partition, records)
            if number < before_last:
                run(pipeline, system=system, until="caught-up", settings=Settings(cached_entries=3))
        run(pipeline, system=system, until="end")
        return outputs_of(system, {*case.inputs}, pipeline.name)
