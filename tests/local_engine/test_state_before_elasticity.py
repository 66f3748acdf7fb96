"""What a version kept that could not split tasks is split, merged, and left as that version would have left it.

`kept/` has what it kept amid its input, and what it kept and had written as it went on: see the README there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from fluvial.dsl.message import Record
from fluvial.runtime.local.checkpoints.border_compatibility import holds_unread_messages
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.coordination import exclusion
from fluvial.runtime.state import RocksStore
from generators.before_elasticity import (
    KINDS,
    PARTITIONS,
    PORTIONS,
    STREAM_PARTITIONS,
    pipeline_before,
    portion,
    settings_of,
)
from generators.kept_before_elasticity import Kept, goes_on, kept_later, opened, text_of
from oracle.interpreter import run_oracle
from oracle.outputs import Outputs

FILES = Path(__file__).parent / "kept"
CHANGELOGS = [kind for kind in KINDS if kind != "log"]
BORDERS = ("kept-by-page", "kept-by-view")

CHECKPOINT: Mapping[str, Any] = {
    "version": int,
    "offsets": dict[str, int],
    "highs": dict[str, int],
    "producers": dict[str, dict[int, int]],
    "changelogs": dict[str, int],
    "run": str,
    "ended": dict[str, list[int]],
    "idle": dict[str, list[int]],
    "clock": int,
    "met": dict[str, int],
    "rested": dict[str, dict[int, int]],
    "lateness": dict[str, int],
    "out_of_order": dict[str, int],
    "forgotten": dict[str, int],
    "reached": dict[str, int],
    "rung": dict[str, int],
    "states": dict[str, Any],
    "atomic": bool,
    "number": int,
    "identities": dict[str, str],
    "tables": dict[str, int],
    "versions": dict[str, int],
    "built": dict[str, int],
    "borders": dict[str, Any],
    "quiet_since": dict[str, int],
    "fired_at_end": dict[str, int],
    "cursors": dict[str, tuple[int, bytes]],
}
"""The fields of a checkpoint that the version knew, in its order."""
OF_RUNS = ("run", "number", "clock", "rung", "changelogs", "versions", "built")
"""Those that tell which run has committed, when, and how often."""
OF_A_STORE = {b"checkpoint", b"pending", b"moved", b"log"}
"""What a store said of itself in that version."""


class Runs:
    """What is found of a kind before the runs, what they kept, and what they left."""

    def __init__(self, kind: str, folder: Path, elasticity: Sequence[int]) -> None:
        self.kind, self.folder = kind, folder
        self.system = opened(FILES, kind, folder)
        self.begun = self.system.admin().checkpoints("kept")
        self.unread = [holds_unread_messages(self.system, one, checkpoints_in(self.system, "kept")) for one in BORDERS]
        self.kept = goes_on(self.system, [settings_of(kind, each) for each in elasticity])
        self.later = kept_later(FILES, kind)


@pytest.fixture(scope="module", params=KINDS)
def scaled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    with patch.object(exclusion, "ANSWER_SECONDS", 0.05):
        return Runs(request.param, tmp_path_factory.mktemp("scaled"), (1, 4, 2, 1))


@pytest.fixture(scope="module", params=CHANGELOGS)
def unscaled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(request.param, tmp_path_factory.mktemp("unscaled"), (1, 1, 1, 1))


def written(kept: Kept) -> dict[str, Counter[Any]]:
    return {stream: Counter(map(tuple, messages)) for stream, messages in kept.outputs.items()}


@pytest.mark.slow
def test_an_unscaled_run_goes_on_as_that_version_would(unscaled: Runs) -> None:
    assert written(unscaled.kept) == written(unscaled.later)
    assert unscaled.kept.state == unscaled.later.state


@pytest.mark.slow
def test_runs_of_several_elasticities_begin_amid_borders_and_write_what_an_unscaled_run_writes(scaled: Runs) -> None:
    assert scaled.unread == [True, True]
    assert written(scaled.kept) == written(scaled.later)


@pytest.mark.slow
def test_they_write_what_the_oracle_writes(scaled: Runs, expected: dict[str, Counter[Any]]) -> None:
    found, wanted = written(scaled.kept), expected
    assert found.keys() - wanted.keys() == {"reviews", "living"}
    letters = "kept-dead-letters"
    assert {stream: found[stream] for stream in wanted if stream != letters} == {
        stream: messages for stream, messages in wanted.items() if stream != letters
    }
    assert Counter(value for _, value, _ in found[letters].elements()) == Counter(
        value for _, value, _ in wanted[letters].elements()
    )


@pytest.fixture(scope="module")
def expected() -> dict[str, Counter[Any]]:
    """What the oracle writes: it is exact in what is late for one partition, and behind borders for all."""
    found: dict[str, Counter[Any]] = {}
    for partition in range(PARTITIONS):
        found = {name: found.get(name, Counter()) + of for name, of in counted([partition]).items()}
    whole = counted(range(PARTITIONS))
    return found | {"pages": whole["pages"], "seen": whole["seen"]}


def counted(partitions: Sequence[int]) -> dict[str, Counter[Any]]:
    """What the oracle makes of these partitions, portion by portion."""
    inputs: dict[str, list[list[Record]]] = {stream: [[] for _ in partitions] for stream, _ in STREAM_PARTITIONS}
    turns: list[tuple[str, int]] = []
    for (stream, partition), records in (one for number in range(PORTIONS) for one in portion(number).items()):
        if partition in partitions:
            inputs[stream][partitions.index(partition)] += records
            turns += [(stream, partitions.index(partition))] * len(records)
    outputs: Outputs = run_oracle(pipeline_before(whole=False), inputs, turns=turns)
    return {
        stream: Counter((text_of(key), text_of(value), time) for key, value, time, _ in messages)
        for stream, messages in outputs.items()
    }


@pytest.mark.slow
def test_the_state_that_they_leave_is_that_of_an_unscaled_run_entry_by_entry(scaled: Runs) -> None:
    assert without_times(scaled.kept.state) == without_times(scaled.later.state)


def without_times(state: Mapping[str, str]) -> dict[str, str]:
    """State without the times at which windows look for ended sessions: they are set as watermarks come, in between
    others, and lead to the same sessions."""
    return {entry: value for entry, value in state.items() if not entry.startswith(("views/0: t", "views/1: t"))}


@pytest.mark.slow
def test_the_checkpoints_that_they_leave_are_those_of_an_unscaled_run(scaled: Runs) -> None:
    found, wanted = scaled.kept.checkpoints, scaled.later.checkpoints
    assert found.keys() == wanted.keys()
    for task, checkpoint in found.items():
        before = wanted[task]
        # More tasks write behind a border meanwhile.
        ours, theirs = [{**one["offsets"], **dict.fromkeys(BORDERS)} for one in (checkpoint, before)]
        assert ours == theirs
        assert {name for name in CHECKPOINT if checkpoint[name] != before[name]} <= {*OF_RUNS, "offsets"}
        versions = checkpoint["versions"]
        assert checkpoint["built"] == ({"living": versions["users"] + versions["towns"]} if versions else {})


@pytest.mark.slow
def test_that_version_can_read_the_checkpoints(scaled: Runs) -> None:
    known: Any = msgspec.defstruct("Checkpoint", [*CHECKPOINT.items()], forbid_unknown_fields=True)
    left = scaled.system.admin().checkpoints("kept")
    for data in (*scaled.begun.values(), *left.values()):
        assert [*msgspec.json.decode(data)] == [*CHECKPOINT]
        assert msgspec.json.decode(data, type=known).version == 1
    assert left.keys() == scaled.begun.keys()


@pytest.mark.slow
@pytest.mark.parametrize("scaled", CHANGELOGS, indirect=True)
def test_that_version_knows_all_that_is_in_changelogs(scaled: Runs) -> None:
    assert scaled.kept.forms == scaled.later.forms


@pytest.mark.slow
@pytest.mark.parametrize("scaled", ["log"], indirect=True)
def test_that_version_knows_all_that_is_in_stores(scaled: Runs) -> None:
    home = scaled.folder / "log" / "state" / "kept"
    stateful = {task for task, one in scaled.later.checkpoints.items() if one["states"]}
    assert {folder.name for folder in home.iterdir()} == {task.replace("/", "-") for task in stateful}
    operators = {entry.partition("/")[0] for entry in scaled.later.state}
    for folder in home.iterdir():
        with closing(RocksStore(folder)) as store:
            prefixes = [key.partition(b"\0") for key, _ in store.scan(b"")]
        assert {name for operator, _, name in prefixes if not operator} <= OF_A_STORE
        assert {operator.decode() for operator, _, _ in prefixes if operator} <= operators
