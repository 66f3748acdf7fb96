"""`checkpoint` and `reset --to`: the offsets that a pipeline goes on from are shown, set and moved."""

import json
from pathlib import Path

import pytest

from engines.command_line import Fluvial
from fluvial.runtime.local.coordination import exclusion
from kafka.broker import Broker

COPIES = """
from fluvial.dsl import Pipeline

pipeline = Pipeline("copies-of-words")
pipeline.stream("copied-words", value=str).send_to("copies-of-words-out")
"""


@pytest.fixture(autouse=True)
def _files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "ANSWER_SECONDS", 0.1)
    (folder / "copies.py").write_text(COPIES)
    lines = (f'{{"text":"{word}","at":{1000 * number + 1000}}}\n' for number, word in enumerate("abc"))
    (folder / "abc.jsonl").write_text("".join(lines))


def load(fluvial: Fluvial, *where: str) -> None:
    options = ("--format", "json", "--timestamp-field", "at")
    assert fluvial("produce", "copied-words", "abc.jsonl", *options, *where).code == 0


def copied(fluvial: Fluvial, *where: str) -> int:
    """How many words a run copies."""
    before = fluvial("consume", "copies-of-words-out", "--values", *where).out.count("\n")
    assert fluvial("run", "copies.py", "--until", "end", "--quiet", *where).code == 0
    return fluvial("consume", "copies-of-words-out", "--values", *where).out.count("\n") - before


def test_offsets_are_shown_and_set(fluvial: Fluvial) -> None:
    load(fluvial)
    assert fluvial("checkpoint", "show", "copies.py").out == "nothing is committed yet\n"
    assert copied(fluvial) == 3
    (row,) = json.loads(fluvial("checkpoint", "show", "copies.py", "--json").out)
    assert (row["task"], row["stream"], row["offset"], row["lag"]) == ("copied-words/0", "copied-words", 3, 0)
    assert "copied-words/0" in fluvial("checkpoint", "show", "copies.py").out
    words = ("checkpoint", "set", "copies.py", "--input", "copied-words=1970-01-01T00:00:02Z")
    told = "set copied-words, partition 0, in task copied-words/0: from 3 to 1, 2 back\n"
    assert fluvial(*words, "--dry-run").out.startswith(f"would {told}")
    assert copied(fluvial) == 0
    done = fluvial(*words)
    assert done.out == f"{told}up to 2 messages of copied-words are processed again: outputs are written again\n"
    assert copied(fluvial) == 2
    done = fluvial("checkpoint", "set", "copies.py", "--input", "copied-words/0=2", "--json")
    assert json.loads(done.out)["changes"][0] == {
        "task": "copied-words/0",
        "stream": "copied-words",
        "partition": 0,
        "before": 3,
        "offset": 2,
        "set": True,
    }


def test_offsets_move_to_another_log(fluvial: Fluvial, folder: Path) -> None:
    for where in ((), ("--system", "log:elsewhere")):
        load(fluvial, *where)
    copied(fluvial)
    assert fluvial("checkpoint", "export", "copies.py", "offsets.json").out == (
        "wrote the offsets of copied-words/0 to offsets.json\n"
    )
    record = json.loads(fluvial("checkpoint", "export", "copies.py", "offsets.json", "--json").out)
    assert record == json.loads((folder / "offsets.json").read_text())
    moved = fluvial("checkpoint", "import", "copies.py", "offsets.json", "--system", "log:elsewhere")
    assert moved.out == "set copied-words, partition 0, in task copied-words/0: to 3\n"
    load(fluvial, "--system", "log:elsewhere")
    assert copied(fluvial, "--system", "log:elsewhere") == 3


def test_a_pipeline_starts_over_from_a_time(fluvial: Fluvial) -> None:
    load(fluvial)
    copied(fluvial)
    told = fluvial("reset", "copies.py", "--to", "1970-01-01T00:00:03Z")
    assert (told.code, told.out) == (2, "would set start copied-words/0 at 2\n")
    assert "--to without --yes" in told.err
    done = fluvial("reset", "copies.py", "--to", "copied-words=1", "--yes", "--json")
    assert json.loads(done.out) == [{"kind": "start", "name": "copied-words/0 at 1", "set": True}]
    assert copied(fluvial) == 2


@pytest.mark.parametrize(
    ("words", "code", "wrong"),
    [
        (("checkpoint", "set", "copies.py", "--input", "copied-words"), 2, "--input copied-words"),
        (("checkpoint", "set", "copies.py", "--input", "copied-words=soon"), 2, "expected: STREAM[/PARTITION]=WHERE"),
        (("checkpoint", "set", "copies.py", "--input", "copied-words=9"), 2, "offset 9 is outside"),
        (("checkpoint", "show", "copies.py", "--engine", "spark"), 3, "checkpoint show with engine 'spark'"),
        (("reset", "copies.py", "--to", "latest", "--to", "copied-words=1"), 2, "one start point for all streams"),
        (("reset", "copies.py", "--to", "latest", "--engine", "spark"), 3, "with engine 'spark'"),
        (("reset", "copies.py", "--to", "latest", "--state", "x"), 2, "reset with --state and --all"),
    ],
)
def test_what_is_wrong_is_reported(fluvial: Fluvial, words: tuple[str, ...], code: int, wrong: str) -> None:
    load(fluvial)
    ended = fluvial(*words)
    assert (ended.code, wrong in ended.err) == (code, True), ended.err


@pytest.mark.kafka
@pytest.mark.slow
def test_on_kafka(fluvial: Fluvial, broker: Broker) -> None:
    on_kafka = ("--system", f"kafka://{broker.address}")
    load(fluvial, *on_kafka)
    fluvial("run", "copies.py", "--until", "end", "--quiet", *on_kafka)
    for where, left in (("1970-01-01T00:00:02Z", 2), ("2030-01-01T00:00:00Z", 0)):
        words = ("checkpoint", "set", "copies.py", "--input", f"copied-words={where}", *on_kafka)
        ended = fluvial(*words)
        # The end of a topic is behind the marks of transactions.
        assert (ended.code, f" to {3 - left}" in ended.out or not left) == (0, True), ended.out
        assert copied(fluvial, *on_kafka) == left
    fluvial("checkpoint", "set", "copies.py", "--input", "copied-words=1", *on_kafka)
    assert fluvial("checkpoint", "export", "copies.py", "offsets.json", *on_kafka).code == 0
    assert fluvial("reset", "copies.py", "--to", "latest", "--yes", *on_kafka).code == 0
    assert copied(fluvial, *on_kafka) == 0
    assert fluvial("checkpoint", "import", "copies.py", "offsets.json", *on_kafka).code == 0
    assert copied(fluvial, *on_kafka) == 2
