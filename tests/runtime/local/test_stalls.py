"""A run that waits for what will not come says so."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from fluvial.dsl import NoProgressError, Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.kernel.stamps import read_control
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.memory import MemoryTransaction
from targets import write


def ends_nothing(record: Record) -> bool:
    headers = record[3]
    control = read_control(headers[-1][1]) if headers else None
    return control is None or not control.ended


def test_an_intermediate_stream_that_never_ends_is_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    append = MemoryTransaction.append

    def lossy(transaction: MemoryTransaction, stream: str, partition: int, records: Sequence[Record]) -> None:
        append(transaction, stream, partition, [record for record in records if ends_nothing(record)])

    monkeypatch.setattr(MemoryTransaction, "append", lossy)
    pipeline, system = Pipeline("p"), MemorySystem()
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out")
    write(system, {"in": [[(None, b"a", 0, ())]]})
    impatient = Settings(stall_timeout=timedelta(milliseconds=20))
    with pytest.raises(NoProgressError, match=r"task p-by/0 waits for the end of p-by\n.*expected: progress"):
        run(pipeline, system=system, until="end", settings=impatient)
