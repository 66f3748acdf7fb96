"""`reset`: what a pipeline keeps is removed, and its operators start empty."""

import json
import shlex
from pathlib import Path

import pytest

from engines.command_line import Fluvial
from fluvial.runtime.local.coordination import exclusion
from kafka.broker import Broker

COUNTS = """
from collections.abc import Iterable

from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, ValueState


class Count(KeyedProcessor[str, str, int]):
    seen = ValueState({kind}, {kind}())

    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[int]:
        self.seen.value += 1
        yield self.seen.value


pipeline = Pipeline("counts-of-words")
words = pipeline.stream("words", value=str).partition_by(str, id="by-word", key_type=str)
words.process(Count(), id="count").send_to("counts-of-words-out")
"""
STREAMS = [
    f"counts-of-words-{name}" for name in ("out", "by-word", "count-changelog", "checkpoints", "coordinator")
] + ["words"]


@pytest.fixture(autouse=True)
def _files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "ANSWER_SECONDS", 0.1)
    (folder / "counts.py").write_text(COUNTS.format(kind="int"))
    (folder / "tea.txt").write_text("tea\n")


def count_tea(fluvial: Fluvial, *words: str) -> str:
    """The count for one more word; what went wrong where that could not be."""
    system = words[words.index("--system") :] if "--system" in words else ()
    assert fluvial("produce", "words", "tea.txt", *system[:2]).code == 0
    ended = fluvial("run", "counts.py", "--until", "end", "--quiet", *words)
    if ended.code:
        return ended.err
    return fluvial("consume", "counts-of-words-out", "--values", *system[:2]).out.splitlines()[-1]


def test_where_nothing_is_kept_nothing_is_asked_for(fluvial: Fluvial) -> None:
    assert fluvial("produce", "words", "tea.txt").code == 0
    ended = fluvial("reset", "counts.py", "--all")
    assert (ended.code, ended.out) == (0, "nothing is stored\n")


def change(folder: Path) -> None:
    """Let the state have another type."""
    (folder / "counts.py").write_text(COUNTS.format(kind="float"))


def test_an_operator_begins_anew_after_another_meaning_was_refused(fluvial: Fluvial, folder: Path) -> None:
    assert [count_tea(fluvial) for _ in range(2)] == ["1", "2"]
    (folder / "counts.py").write_text(COUNTS.format(kind="str").replace("+= 1", '+= "x"'))
    told = count_tea(fluvial)
    assert "the stored state of process count has another meaning: values of state seen: was int, is str" in told
    assert "fluvial reset counts.py --state count" in told
    (folder / "counts.py").write_text(COUNTS.format(kind="int"))
    assert fluvial("reset", "counts.py", "--state", "count").code == 0
    assert count_tea(fluvial) == "2"  # with the word that could not be counted


def test_the_hint_names_the_system_of_the_run(fluvial: Fluvial, folder: Path) -> None:
    elsewhere = ("--system", "log:an other")
    assert count_tea(fluvial, *elsewhere) == "1"
    (folder / "counts.py").write_text(COUNTS.format(kind="str").replace("+= 1", '+= "x"'))
    for told in (count_tea(fluvial, *elsewhere), fluvial("check", "counts.py", *elsewhere).out):
        hint = "fluvial reset counts.py --system 'log:an other' --state count"
        assert hint in told
    assert fluvial(*shlex.split(hint)[1:]).code == 0
    assert count_tea(fluvial, *elsewhere) == '"xx"'  # with the word that could not be counted


def test_a_log_that_does_not_exist_stays_so(fluvial: Fluvial, folder: Path) -> None:
    ended = fluvial("reset", "counts.py", "--state", "count")
    assert ended.code == 2
    assert "there is no log in .fluvial" in ended.err
    assert "--system log:DIR" in ended.err
    assert not (folder / ".fluvial").exists()


def test_what_would_be_removed_is_shown_first(fluvial: Fluvial) -> None:
    count_tea(fluvial)
    ended = fluvial("reset", "counts.py", "--all")
    assert ended.code == 2
    assert "would remove store .fluvial/state/counts-of-words\n" in ended.out
    assert "would remove checkpoint words/0\n" in ended.out
    assert "--yes, once you have read what would be removed" in ended.err
    assert count_tea(fluvial) == "2"
    assert fluvial("reset", "counts.py", "--all", "--dry-run").code == 0
    ended = fluvial("reset", "counts.py", "--all", "--yes", "--json")
    assert {(step["kind"], step["removed"]) for step in json.loads(ended.out)} == {
        ("store", True),
        ("checkpoint", True),
    }
    assert fluvial("reset", "counts.py", "--all", "--yes").out == "nothing is stored\n"
    assert count_tea(fluvial) == "3"  # all words are read again


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ((), "reset was not told what to reset"),
        (("--all", "--state", "count"), "reset with --state and --all"),
        (("--stream", "words", "--state", "count"), "reset with --state and --stream"),
        (("--keep-offsets", "--all"), "--keep-offsets with --all"),
    ],
)
def test_one_of_the_three_is_wanted(fluvial: Fluvial, words: tuple[str, ...], wrong: str) -> None:
    ended = fluvial("reset", "counts.py", *words)
    assert (ended.code, ended.err.startswith(wrong)) == (2, True), ended.err
    assert "--stream STREAM" in ended.err


def test_inputs_of_the_log_are_never_made_anew(fluvial: Fluvial) -> None:
    count_tea(fluvial)
    ended = fluvial("reset", "counts.py", "--stream", "words")
    assert ended.code == 3
    assert "kafka://HOST:PORT, where topics may be deleted and created again" in ended.err


@pytest.mark.kafka
def test_what_is_kept_on_kafka(fluvial: Fluvial, broker: Broker) -> None:
    broker.remove_topics(*STREAMS)
    on_kafka = ("--system", f"kafka://{broker.address}")
    assert [count_tea(fluvial, *on_kafka) for _ in range(2)] == ["1", "2"]
    assert (
        "removed changelog counts-of-words-count-changelog"
        in fluvial("reset", "counts.py", "--state", "count", *on_kafka).out
    )
    assert count_tea(fluvial, *on_kafka) == "1"
    ended = fluvial("reset", "counts.py", "--stream", "words", "--dry-run", *on_kafka)
    assert ended.out == "would remove offset of words in words/0\n"
    ended = fluvial("reset", "counts.py", "--all", "--yes", *on_kafka)
    assert "removed stream counts-of-words-by-word" in ended.out
    assert count_tea(fluvial, *on_kafka, "--guarantee", "exactly_once") == "4"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_what_is_kept_by_spark(fluvial: Fluvial, folder: Path) -> None:
    on_spark = ("--engine", "spark", "--master", "local[2]")
    assert count_tea(fluvial, *on_spark) == "1"
    assert (
        ".fluvial/spark/counts-of-words" in fluvial("reset", "counts.py", "--engine", "spark", "--state", "count").out
    )
    assert count_tea(fluvial, *on_spark) == "1"
    change(folder)
    assert count_tea(fluvial, *on_spark) == "2.0"
    fluvial("reset", "counts.py", "--engine", "spark", "--all", "--yes")
    assert count_tea(fluvial, *on_spark) == "4.0"


def test_state_in_another_folder_is_found_with_its_name_alone(fluvial: Fluvial, folder: Path) -> None:
    where = ("--state-dir", "elsewhere")
    assert count_tea(fluvial, *where) == "1"
    assert (folder / "elsewhere" / "counts-of-words").is_dir()
    assert fluvial("check", "counts.py", "--system", "log:.fluvial", *where).code == 0
    assert fluvial("reset", "counts.py", "--all", "--yes").code == 0
    told = count_tea(fluvial, *where)
    assert "the store of task counts-of-words-by-word/0 has state, and log:.fluvial has no checkpoint" in told
    assert fluvial("reset", "counts.py", "--all", "--yes", *where).code == 0
    assert count_tea(fluvial, *where) == "3"


def test_a_temporary_log_keeps_no_state_elsewhere(fluvial: Fluvial) -> None:
    ended = fluvial("run", "counts.py", "--input", "words=tea.txt", "--state-dir", "elsewhere")
    assert ended.code == 2
    assert "--state-dir elsewhere without --system, for a temporary log" in ended.err


FILLED = """
from fluvial.dsl import Pipeline

pipeline = Pipeline("filled")
latest = pipeline.table("latest", key=str, value={kind})
words = pipeline.stream("words", value={kind}).partition_by(str, id="by-word", key_type=str, value={kind})
words.send_to(latest)
"""


def test_a_table_that_is_filled_is_told_to_begin_empty(fluvial: Fluvial, folder: Path) -> None:
    (folder / "counts.py").write_text(FILLED.format(kind="str"))
    assert fluvial("produce", "words", "tea.txt").code == 0
    assert fluvial("run", "counts.py", "--until", "end", "--quiet").code == 0
    (folder / "counts.py").write_text(FILLED.format(kind="int"))
    told = "table 'latest' starts empty: only new messages add rows to it"
    refused = fluvial("run", "counts.py", "--until", "end", "--quiet")
    assert refused.code == 3
    assert told in refused.err
    assert fluvial("reset", "counts.py", "--state", "latest").out.splitlines()[-1] == told
