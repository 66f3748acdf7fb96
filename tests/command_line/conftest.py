"""The command line as a function, in a folder of its own with a pipeline."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engines.command_line import Ended, Fluvial, forget_modules_of
from fluvial.runtime.cli.app import main

VISITS = '''"""Counts of words by their first letter."""

from dataclasses import dataclass
from datetime import timedelta

from fluvial.dsl import Pane, Pipeline, count, tumbling


@dataclass(frozen=True)
class Word:
    text: str
    at: int


@dataclass(frozen=True)
class Count:
    letter: str
    words: int


def is_word(word: Word) -> bool:
    return word.text.isalpha()


def letter(word: Word) -> str:
    return word.text[0]


def to_count(pane: Pane[str, int]) -> Count:
    return Count(pane.key, pane.value)


pipeline = Pipeline("letters")
(
    pipeline.stream("words", value=Word, timestamp=lambda word: word.at)
    .filter(is_word)
    .partition_by(letter, id="by-letter", key_type=str)
    .window(tumbling(timedelta(seconds=1)), count(), id="count")
    .map(to_count)
    .send_to("counts")
)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder of the command: it holds letters.py and words.jsonl."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # Python would take a file that is written anew within a second, as long as before, for the one that it compiled.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("COLUMNS", "120")
    tmp_path.joinpath("letters.py").write_text(VISITS)
    words = ["apple", "avocado", "banana", "3", "cherry", "apricot"]
    lines = (f'{{"text":"{word}","at":{100 * number}}}\n' for number, word in enumerate(words))
    tmp_path.joinpath("words.jsonl").write_text("".join(lines))
    yield tmp_path
    forget_modules_of(tmp_path)


@pytest.fixture
def fluvial(folder: Path, capfd: pytest.CaptureFixture[str]) -> Fluvial:  # noqa: ARG001 - it changes the current folder
    """The command line, run in this process in the folder."""

    def run(*words: str) -> Ended:
        capfd.readouterr()
        code = main(words)
        sys.stdout.flush()
        printed = capfd.readouterr()
        return Ended(code, printed.out, printed.err)

    return run
