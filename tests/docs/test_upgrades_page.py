"""Every row of the guide to upgrades has a test that proves it."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/guide/upgrades.md").read_text(encoding="utf-8")

UPGRADES = "tests/both_engines/test_upgrades.py"
TYPES = "tests/planner/test_type_reading.py"
SCHEMAS = "tests/planner/test_state_schema.py"
PIPELINES = "tests/local_engine/test_changed_pipelines.py"
TABLES = "tests/local_engine/test_changed_tables.py"
RECORD = "tests/runtime/spark/query/test_checkpoint_record.py"
LAYOUT = "tests/runtime/serdes/test_protobuf_layout.py"

PROOFS: dict[str, tuple[str, ...]] = {
    "functions, with the same types": (f"{UPGRADES}::a function with the same types",),
    "`lateness`, longer": (f"{UPGRADES}::lateness, longer",),
    "`combine` of a window": (
        "tests/runtime/kernel/test_partial_aggregates.py"
        "::test_messages_and_partial_aggregates_are_read_whatever_combine_says_now",
    ),
    "`lateness`, shorter": (f"{UPGRADES}::lateness, shorter",),
    "`out_of_order`": (f"{UPGRADES}::out_of_order, longer", f"{UPGRADES}::out_of_order, shorter"),
    "`idle_after`": (f"{PIPELINES}::test_a_source_without_patience_is_not_idle_any_more",),
    "the `priority` of a stream or of a `partition_by`": (
        "tests/local_engine/test_priority.py::test_it_may_be_another_one_in_the_next_run",
    ),
    "the number of messages in a trigger": (f"{UPGRADES}::the count of a trigger",),
    "`ttl` of a state that has one, longer or shorter": (f"{UPGRADES}::ttl, longer", f"{UPGRADES}::ttl, shorter"),
    "`within` of a deduplication, longer or shorter": (
        f"{UPGRADES}::within of a deduplication, longer",
        f"{UPGRADES}::within of a deduplication, shorter",
    ),
    "a state more, or less, in a processor": (
        f"{UPGRADES}::a state more",
        f"{UPGRADES}::a state less",
        "tests/local_engine/test_changed_state.py::test_a_state_that_comes_back_has_the_form_that_it_had",
    ),
    "timers in processing time (`ClockTimers`) more, or none, in a processor": (
        f"{UPGRADES}::timers in processing time that are new",
        f"{UPGRADES}::timers in processing time that are gone",
        f"{UPGRADES}::test_timers_that_come_back_fire_on_the_local_engine",
        f"{UPGRADES}::test_timers_that_come_back_fire_on_spark",
        "tests/command_line/test_check.py::test_what_a_processor_does_not_declare_any_more",
    ),
    "a field with a default more in a class that is kept, or a field less": (
        f"{UPGRADES}::a field with a default",
        f"{UPGRADES}::a field less",
        f"{TYPES}::test_a_field_that_comes_back_has_the_type_that_it_had",
    ),
    "the same of an `array_like` Struct or a `NamedTuple`": (
        f"{UPGRADES}::a field at the end of what is kept by position",
        f"{UPGRADES}::a field less at the end of what is kept by position",
        f"{UPGRADES}::a field at the end of a NamedTuple",
    ),
    "a type to a wider one: `int` to `float`, `int` to `Optional[int]`, fewer or wider conditions (`Meta(ge=...)`)": (
        f"{UPGRADES}::a wider type",
        f"{UPGRADES}::an optional type of the items of a list",
        f"{UPGRADES}::wider conditions",
    ),
    "the default of a field": (f"{UPGRADES}::the default of a field that is not kept",),
    "an operator more, or less": (
        f"{UPGRADES}::an operator more",
        f"{UPGRADES}::an operator less",
        f"{PIPELINES}::test_an_operator_that_comes_back_finds_its_state_in_its_changelog",
    ),
    "a join of tables more, or one that comes back": (
        f"{TABLES}::test_a_joined_table_that_is_gone_for_a_run_misses_nothing",
    ),
    "a source or a partition more in front of the operator": (
        f"{PIPELINES}::test_an_input_before_the_others_begins_nothing_anew",
    ),
    "a source less in front of the operator": (f"{PIPELINES}::test_an_input_that_comes_back_is_gone_on_with",),
    "a key from `int` to `INT64`, or back": (
        f"{UPGRADES}::keys of int as INT64",
        f"{SCHEMAS}::test_keys_that_are_the_same_bytes_are_the_same",
    ),
    "the schema of a serde of Avro with a registry": (
        "tests/runtime/serdes/test_registry_serdes.py::test_a_newer_program_reads_older_messages",
    ),
    "fields of a message of Protobuf: more, fewer, or renamed": (
        f"{LAYOUT}::test_fields_come_and_go_and_may_be_renamed",
    ),
    "other streams before and behind the operator, names of stages, options of asynchronous calls": (
        f"{SCHEMAS}::test_what_is_before_a_join_may_change",
        f"{PIPELINES}::test_the_name_of_a_stage_moves_no_state_on_the_log",
        f"{UPGRADES}::options of asynchronous calls",
    ),
    "on the local engine, a topic with k times the partitions": (
        "tests/runtime/local/test_grown_plan.py::test_tasks_stay_and_read_what_the_stream_has_got",
        "tests/kafka/test_input_topics.py::test_state_stays_with_its_keys_as_a_topic_grows_and_their_order_is_kept",
    ),
    "on the local engine, `group_by`": (
        "tests/runtime/local/checkpoints/test_migration.py::test_partitions_that_are_grouped_otherwise_are_refused",
    ),
    "on the local engine, `elasticity`": (
        "tests/local_engine/test_elasticity.py::test_state_is_kept_as_the_elasticity_changes",
        "tests/local_engine/test_state_before_elasticity.py"
        "::test_the_state_that_they_leave_is_that_of_an_unscaled_run_entry_by_entry",
    ),
    "on the local engine, a stream that becomes a table": (
        f"{TABLES}::test_a_stream_that_becomes_a_table_is_read_from_its_start",
    ),
    "all": (f"{SCHEMAS}::test_another_kind_of_operator", f"{SCHEMAS}::test_keys_that_are_spread_over_other_partitions"),
    "windows": (f"{SCHEMAS}::test_a_window_with_another_meaning",),
    "joins of streams": (f"{SCHEMAS}::test_a_join_with_another_meaning",),
    "deduplications": (f"{SCHEMAS}::test_a_deduplication_with_another_meaning",),
    "tables": (f"{SCHEMAS}::test_a_table_has_rows_of_one_form", f"{SCHEMAS}::test_joined_tables_have_two_sides"),
    "processors": (f"{SCHEMAS}::test_a_processor_with_another_meaning",),
    "classes that are kept": (f"{TYPES}::test_what_cannot_be_read",),
    "serdes": (
        f"{SCHEMAS}::test_a_serde_of_the_users_is_known_by_its_whole_name",
        f"{LAYOUT}::test_a_number_keeps_its_type",
        f"{LAYOUT}::test_a_name_keeps_its_number",
    ),
    "lists of a processor": (f"{SCHEMAS}::test_a_list_of_bytes_stays_one",),
    "streams between stages": (
        "tests/runtime/local/checkpoints/test_border_compatibility.py::test_what_reads_messages_otherwise_is_refused",
    ),
    "other types": (f"{TYPES}::test_what_cannot_be_read",),
    "queries on Spark, besides": (
        f"{RECORD}::test_a_stream_that_becomes_a_table_is_refused",
        f"{RECORD}::test_an_operator_that_moves_its_stage_behind_a_shuffle_is_refused",
    ),
}
"""By the first cell of a row, its tests: a function of a file, or the id of a row of UPGRADES."""


def rows() -> Iterator[str]:
    """The first cells of the tables of the page, without their heads."""
    for block in re.split(r"\n\n+", PAGE):
        lines = block.splitlines()
        if len(lines) > 2 and lines[1].startswith("|---"):
            yield from (line.split("|")[1].strip() for line in lines[2:])


@cache
def names_in(file: str) -> frozenset[str]:
    """The functions of a file of tests, and the ids of its rows."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Row"]
    ids = {node.args[0].value for node in calls if node.args and isinstance(node.args[0], ast.Constant)}
    return frozenset(functions | {id for id in ids if isinstance(id, str)})


@pytest.mark.parametrize("row", list(rows()))
def test_a_row_has_tests(row: str) -> None:
    assert row in PROOFS, f"docs/guide/upgrades.md has the row {row!r}: write a test for it, and name it in PROOFS"
    for proof in PROOFS[row]:
        file, name = proof.split("::")
        assert name in names_in(file), f"{file} has no test {name!r}, which proves the row {row!r}"


def test_every_proof_is_of_a_row() -> None:
    assert set(PROOFS) == set(rows())
