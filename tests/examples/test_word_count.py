"""The example that counts words."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_each_word_is_counted(
    run: Callable[..., str], values: Callable[[Path], list[dict[str, Any]]], tmp_path: Path
) -> None:
    lines, counts = tmp_path / "lines", tmp_path / "counts"
    lines.write_text("To be, or not to be.\n\nBe!\n" * 100)
    run("word_count.py", "--input", f"lines={lines}", "--output", f"counts={counts}")
    found: Counter[str] = Counter()
    for row in values(counts):
        # At midnight the lines may come to lie in two days.
        found[row["word"]] += row["count"]
    assert found == {"to": 200, "be": 300, "or": 100, "not": 100}
