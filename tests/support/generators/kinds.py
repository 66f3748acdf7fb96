"""The generators' table of kinds: the part of a description that makes each kind of operator, or why there is none."""

from collections.abc import Mapping

from fluvial.dsl import operators as ops
from fluvial.dsl.operators import Operator
from fluvial.dsl.operators.kind_table import KindTable
from generators import described_steps as steps
from generators import described_tables as tables
from generators.described_tables import Compact

DRAWN_KINDS: Mapping[type[Operator], type[Compact]] = {
    ops.Source: steps.Source,
    ops.Map: steps.Map,
    ops.Filter: steps.Filter,
    ops.FlatMap: steps.FlatMap,
    ops.MapMessages: steps.Messages,
    ops.Merge: steps.Merge,
    ops.Split: steps.Split,
    ops.Branch: steps.Split,
    ops.AsyncFlatMap: steps.Async,
    ops.PartitionBy: steps.Border,
    ops.Broadcast: steps.Broadcast,
    ops.WindowBy: steps.WindowStep,
    ops.JoinStreams: steps.Join,
    ops.JoinTable: steps.Lookup,
    ops.JoinTables: tables.TablePair,
    ops.JoinRemote: steps.RemoteLookup,
    ops.TableOf: tables.TableSource,
    ops.PutRemote: steps.RemotePut,
    ops.Deduplicate: steps.Deduplicate,
    ops.Process: steps.Process,
    ops.Side: steps.Process,
    ops.SendTo: steps.Send,
}
NOT_DRAWN: Mapping[type[Operator], str] = {
    ops.PutTo: "a lookup behind it needs one order of arrival: FILLED in tests/properties/test_engines.py has it",
    ops.Task: "what it does hangs on offsets, commits and the clock: tests/conformance/test_task_cases.py has it",
    ops.TaskCall: "it is but in front of a stream task: tests/conformance/test_task_cases.py has it",
    ops.SinkTo: "a description can be printed, and a sink is an object: tests/docs/test_rules_of_routing.py has it",
}
"""Why random pipelines have no operator of a kind, and which tests run it instead."""

RANDOM_KINDS: KindTable[type[Compact] | str] = KindTable(
    "tests/support/generators/kinds.py", {**DRAWN_KINDS, **NOT_DRAWN}
)
