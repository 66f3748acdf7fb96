"""Tests give our code objects that implement its contracts. Where one replaces a part of it, its file is listed.

A method or function is replaced only to make a crash, a pause or a look happen at one chosen moment, or where Spark or
a broker would have to run otherwise; a constant, so that a test need not wait or write as long as a user would.
"""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
SHORTER, SMALLER = "waits that are shorter than a user's", "pieces so small that little fills several"
REPLACEMENTS: Mapping[str, tuple[str, str]] = {
    "command_line/test_checkpoint.py": ("", SHORTER),
    "command_line/test_reset.py": ("", SHORTER),
    "examples/conftest.py": ("one Spark session for all examples", ""),
    "faults/test_handovers_on_kafka.py": ("no objects are frozen, as in a process of one container", ""),
    "faults/test_restores.py": ("notes when a changelog is read", ""),
    "kafka/test_autosizing.py": ("", SHORTER),
    "kafka/test_input_topics.py": ("", SHORTER),
    "local_engine/test_forgetting.py": ("", SMALLER),
    "local_engine/test_input_streams.py": ("", SHORTER),
    "local_engine/test_state_before_elasticity.py": ("", SHORTER),
    "local_engine/test_trimming.py": ("", SHORTER),
    "properties/conftest.py": ("", SMALLER),
    "properties/test_containers.py": ("", SHORTER),
    "properties/test_paused_firings.py": ("", "a pause behind each emission, and one run that is started again"),
    "properties/test_processors_state.py": ("", SMALLER),
    "properties/test_rescales.py": ("", SHORTER),
    "properties/test_state.py": ("", SMALLER),
    "runtime/cli/test_scale_verb.py": ("a signal that comes while a change is made", ""),
    "runtime/containers/test_remote_children.py": ("", SHORTER),
    "runtime/kernel/calls/test_cancellation.py": ("", SHORTER),
    "runtime/kernel/test_stage.py": ("", SMALLER),
    "runtime/kernel/time/test_task_progress.py": ("", SMALLER),
    "runtime/local/coordination/test_limit_leases.py": ("", SHORTER),
    "runtime/local/handover/test_scaling.py": ("", SHORTER),
    "runtime/local/handover/test_standbys.py": ("", SHORTER),
    "runtime/local/handover/test_task_merges.py": ("a task that stands still, and what others have fired", SHORTER),
    "runtime/local/handover/test_warm_up.py": ("", SHORTER),
    "runtime/local/handover/test_task_moves.py": ("", SHORTER),
    "runtime/local/stores/test_state_moves.py": ("", SMALLER),
    "runtime/local/test_rescaling.py": ("a crash at a chosen call; tasks that never meet", ""),
    "runtime/metrics/test_http.py": ("", "a limit that must not end the test's request"),
    "runtime/process/test_signals.py": ("", SHORTER),
    "runtime/spark/query/test_bucket_split.py": ("the record of a checkpoint as an earlier version wrote it", ""),
    "runtime/spark/test_task_jobs.py": ("", SHORTER),
    "runtime/spark/worker/test_state_pages.py": ("", SMALLER),
    "runtime/spark/worker/test_worker_process.py": ("", SHORTER),
    "runtime/test_open_resources.py": ("", SHORTER),
    "runtime/test_output_routes.py": ("", SHORTER),
    "runtime/test_pipeline_offsets.py": ("", SHORTER),
    "runtime/local/test_open_journals.py": ("", SHORTER),
    "runtime/test_pipeline_reset.py": ("", SHORTER),
    "spark_engine/test_clock.py": ("a crash after a batch is written", ""),
    "spark_engine/test_data_frames.py": ("tells when a stop has cancelled the jobs of Spark's that run", ""),
    "spark_engine/test_on_kafka.py": ("", SHORTER),
    "support/engines/live_containers.py": ("restores in the turns of a container; stores that outlive it", SHORTER),
    "support/engines/sending.py": ("stores that outlive a run in memory", ""),
    "support/engines/several.py": ("a crash at a chosen call", SHORTER),
    "support/faults/commit_deaths.py": ("a crash at a chosen call", ""),
    "support/faults/mortal.py": ("a crash at a chosen call", ""),
    "support/generators/layouts.py": ("a crash at a chosen call", ""),
    "support/generators/slow_pipelines.py": ("", SHORTER),
    "test_kinds.py": ("one more kind of operator", ""),
}
"""Why each file replaces functions, and why constants; empty where it replaces none."""

Row = tuple[str, str]


def imported(tree: ast.AST) -> dict[str, str]:
    """The modules that names come from, by name."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {(name.asname or name.name.partition(".")[0]): name.name for name in names}
            case ast.ImportFrom(module=str(module), names=names):
                found |= {(name.asname or name.name): module for name in names}
            case _:
                pass
    return found


def target(node: ast.AST) -> tuple[ast.expr, str] | None:
    """The object whose attribute a statement replaces, and the name of the attribute; empty where that is computed."""
    match node:
        case ast.Call(
            func=ast.Name(id="setattr")
            | ast.Attribute(attr="setattr")
            | ast.Attribute(value=ast.Name(id="patch"), attr="object"),
            args=[owner, name, *_],
        ):
            if isinstance(owner, ast.Constant):
                return owner, str(owner.value).rpartition(".")[2]
            return owner, str(name.value) if isinstance(name, ast.Constant) else ""
        case ast.Assign(targets=[ast.Attribute(value=ast.Name() as owner, attr=name)]):
            return owner, name
        case _:
            return None


def ours(owner: ast.expr, node: ast.AST, modules: Mapping[str, str]) -> bool:
    """Whether an object is of this package. One that is computed is, where a test replaces what it has."""
    if isinstance(owner, ast.Constant):
        return str(owner.value).startswith("fluvial.")
    while isinstance(owner, ast.Attribute | ast.Call):
        owner = owner.value if isinstance(owner, ast.Attribute) else owner.func
    module = modules.get(owner.id, "") if isinstance(owner, ast.Name) else ""
    replaces = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return module.partition(".")[0] == "fluvial" or (not module and replaces)


def replaced(code: str) -> Row:
    """The names of the functions, and those of the constants, that code replaces; `computed` for one without a name."""
    tree = ast.parse(code)
    modules = imported(tree)
    found = [at[1] for node in ast.walk(tree) if (at := target(node)) is not None and ours(at[0], node, modules)]
    functions = sorted({name or "computed" for name in found if not name.isupper()})
    return ", ".join(functions), ", ".join(sorted({name for name in found if name.isupper()}))


def replacing(root: Path) -> Iterable[tuple[str, Row]]:
    """The files of tests that replace something of ours, and what."""
    for path in sorted(root.rglob("*.py")):
        if any(found := replaced(path.read_text())):
            yield path.relative_to(root).as_posix(), found


def differences(found: Mapping[str, Row], listed: Mapping[str, Row]) -> Iterable[str]:
    """Where the list does not say what files do."""
    nothing = ("", "")
    for file in sorted({*found, *listed}):
        for what, names, why in zip(
            ("functions", "constants"), found.get(file, nothing), listed.get(file, nothing), strict=True
        ):
            if bool(names) != bool(why):
                yield f"{file} replaces {what}: {names or 'none'}; the list says: {why or 'none'}"


def test_only_files_that_are_listed_replace_parts_of_our_code() -> None:
    """A new test gives an object instead: a system or a store of its own, as in `tests/support/engines/silent.py`."""
    assert list(differences(dict(replacing(ROOT)), REPLACEMENTS)) == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from fluvial.runtime import run\nmonkeypatch.setattr(run, 'x', 1)", ("x", "")),
        ("import fluvial.runtime.launch as l\nmonkeypatch.setattr(l.Launch, 'x', 1)", ("x", "")),
        ("from fluvial.runtime import run\nmonkeypatch.setattr(run, '_MOST', 1)", ("", "_MOST")),
        ("monkeypatch.setattr('fluvial.runtime.launch.start', None)", ("start", "")),
        ("from fluvial.runtime import run\nsetattr(run, name, 1)", ("computed", "")),
        ("from fluvial.runtime import run\nrun.x = lambda: 1", ("x", "")),
        ("from fluvial.runtime import run\nwith patch.object(run, 'x', 1): pass", ("x", "")),
        ("for owner in owners:\n    patched.setattr(owner, 'x', 1)", ("x", "")),
        ("import os\nmonkeypatch.setattr(os, 'x', 1)", ("", "")),
        ("monkeypatch.setattr('sys.stdin', lines)", ("", "")),
        ("mine.x = 1\nsetattr(mine, 'y', 1)", ("", "")),
    ],
)
def test_each_way_to_replace_is_seen(code: str, found: Row) -> None:
    assert replaced(code) == found


def test_a_list_that_is_not_true_is_seen() -> None:
    listed = {"test_one.py": ("a crash", ""), "test_gone.py": ("", SHORTER)}
    assert len(list(differences({"test_one.py": ("x", "MOST"), "test_new.py": ("y", "")}, listed))) == 3
