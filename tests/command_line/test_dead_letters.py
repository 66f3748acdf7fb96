"""`dead-letters`: listed, shown, replayed and dropped."""

import json
from pathlib import Path

import pytest

from engines.command_line import Fluvial
from fluvial.runtime.systems import LogSystem
from kafka.broker import Broker

SHARES = """
from fluvial.dsl import Pipeline, dead_letter

pipeline = Pipeline("letters-of-shares", on_error=dead_letter())
pipeline.stream("shared", value=int).map(lambda number: 12 // number).send_to("letters-of-shares-out")
"""


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    (folder / "shares.py").write_text(SHARES)
    (folder / "numbers.jsonl").write_text("4\n0\n0\n")


def load(fluvial: Fluvial, *where: str) -> None:
    assert fluvial("produce", "shared", "numbers.jsonl", *where).code == 0
    assert fluvial("run", "shares.py", "--until", "end", "--quiet", *where).code == 0


def replay_all(fluvial: Fluvial, *where: str) -> None:
    (group,) = json.loads(fluvial("dead-letters", "list", "shares.py", "--json", *where).out)
    assert (group["operator"], group["error"], group["letters"]) == ("map-2", "ZeroDivisionError", 2)
    words = ("dead-letters", "replay", "shares.py", "--all", *where)
    assert fluvial(*words, "--dry-run").out == "would replay 2 dead letters of shared\n"
    assert fluvial(*words).out == "replayed 2 dead letters of shared\n"
    assert fluvial(*words).out == "no dead letters\n"
    assert fluvial("consume", "shared", "--values", *where).out.splitlines() == ["4", "0", "0", "0", "0"]


def test_letters_are_replayed_once(fluvial: Fluvial) -> None:
    load(fluvial)
    assert "ZeroDivisionError" in fluvial("dead-letters", "list", "shares.py").out
    replay_all(fluvial)
    assert fluvial("dead-letters", "list", "shares.py").out == "no dead letters\n"
    assert "map-2" in fluvial("dead-letters", "list", "shares.py", "--handled").out


def test_a_letter_is_shown_and_dropped(fluvial: Fluvial) -> None:
    load(fluvial)
    facts = json.loads(fluvial("dead-letters", "show", "shares.py", "0:1", "--json").out)
    assert (facts["value"], facts["origin"]) == ("0", {"stream": "shared", "partition": 0, "offset": 2})
    words = ("dead-letters", "drop", "shares.py", "--offset", "0:1")
    assert json.loads(fluvial(*words, "--json").out) == {"handled": {"shared": 1}, "left": {}, "done": True}
    assert fluvial(*words).out == "left 1 dead letter: dropped before\n"
    assert "handled: dropped\n" in fluvial("dead-letters", "show", "shares.py", "0:1").out


def test_what_a_letter_says_is_neither_obeyed_nor_taken_for_markup(fluvial: Fluvial, folder: Path) -> None:
    load(fluvial)
    system = LogSystem(folder / ".fluvial")
    writing = system.producer().begin()
    said = {"error": "[/x]: no", "operator": "[bold]\x1b[2J", "stream": "\x1b[2J", "partition": "0", "offset": "0"}
    headers = tuple((f"fluvial-{name}", text.encode()) for name, text in said.items())
    writing.append("letters-of-shares-dead-letters", 0, [(None, b"0", 0, headers)])
    writing.commit()
    verbs = (("list",), ("show", "0:2"), ("replay", "--all"), ("drop", "--all"))
    ended = [fluvial("dead-letters", verb, "shares.py", *words) for verb, *words in verbs]
    assert "[bold]\\x1b[2J" in ended[0].out
    assert "[/x]" in ended[0].out
    assert "dropped 1 dead letter of \\x1b[2J" in ended[-1].out
    assert not any(one.code or "\x1b" in one.out + one.err for one in ended), ended


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("replay", "shares.py"), "dead-letters was not told which"),
        (("drop", "shares.py", "--all", "--operator", "map-2"), "dead-letters with --all and --operator"),
        (("show", "shares.py", "0:9"), "there is no dead letter at 0:9"),
        (("replay", "shares.py", "--offset", "9"), "letter '9'"),
    ],
)
def test_what_is_wrong_is_reported(fluvial: Fluvial, words: tuple[str, ...], wrong: str) -> None:
    load(fluvial)
    ended = fluvial("dead-letters", *words)
    assert (ended.code, wrong in ended.err) == (2, True), ended.err


@pytest.mark.kafka
@pytest.mark.slow
def test_on_kafka(fluvial: Fluvial, broker: Broker) -> None:
    on_kafka = ("--system", f"kafka://{broker.address}")
    load(fluvial, *on_kafka)
    replay_all(fluvial, *on_kafka)
