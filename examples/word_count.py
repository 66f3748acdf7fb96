"""How often each word occurs in a day.

    fluvial run examples/word_count.py --input lines=README.md --output counts=-

Lines have the time at which they were written to the stream. On Spark: add `--engine spark`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fluvial.dsl import Pane, Pipeline, count, tumbling


@dataclass(frozen=True, slots=True)
class WordCount:
    """How often a word occurred on a day, such as 2024-05-17 (UTC)."""

    word: str
    day: str
    count: int


def words(line: str) -> Iterable[str]:
    """The words of a line, in lower case."""
    return re.findall(r"\w+", line.lower())


def to_count(pane: Pane[str, int]) -> WordCount:
    """What a finished window says."""
    day = datetime.fromtimestamp(pane.window.start / 1000, UTC)
    return WordCount(pane.key, f"{day:%Y-%m-%d}", pane.value)


pipeline = Pipeline("word-count")
(
    pipeline.stream("lines", value=str)
    .flat_map(words)
    # Equal words meet in one task.
    .partition_by(lambda word: word, id="by-word", key_type=str)
    .window(tumbling(timedelta(days=1)), count(), id="per-day")
    .map(to_count)
    .send_to("counts", key=lambda counted: counted.word)
)
