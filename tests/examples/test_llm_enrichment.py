"""The example that asks a language model within limits, a budget, and without paying twice."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from engines.targets import contents
from examples.llm_enrichment import EUROS_A_TOKEN, INSTRUCTIONS, mood_of
from fluvial.runtime.systems import LogSystem
from programs import CLI, ROOT, serving
from waiting import wait_until


@pytest.fixture
def model() -> Iterator[str]:
    with serving("examples/llm_enrichment.py", "--serve", "0") as address:
        yield address


def reviews(number: int) -> list[dict[str, Any]]:
    random = Random(3)
    return [{"product": f"p{one % 7}", "text": f"{one} " + "fine " * random.randrange(40)} for one in range(number)]


def spent(model: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{model}/spent") as answer:
        return msgspec.json.decode(answer.read(), type=dict[str, int])


def start(folder: Path, model: str, budget: float = 1.0) -> "subprocess.Popen[str]":
    """The pipeline over a log that has the reviews already, or gets them with this run."""
    words = [sys.executable, "-c", CLI, "run", "examples/llm_enrichment.py", "--system", f"log:{folder / 'log'}"]
    words += ["--until", "end", "--output", f"enriched={folder / 'enriched'}"]
    if not (folder / "log").exists():
        words += ["--input", f"reviews={folder / 'reviews'}", "--input-format", "json"]
    env = {**os.environ, "MODEL_URL": model, "MODEL_BUDGET": f"{budget}"}
    return subprocess.Popen(words, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(run: "subprocess.Popen[str]") -> str:
    with run:
        printed, _ = run.communicate(timeout=120)
    assert run.returncode == 0, printed
    return printed


def wanted(made: list[dict[str, Any]]) -> int:
    return sum(INSTRUCTIONS + len(review["text"]) // 4 for review in made)


def test_all_reviews_are_answered_within_what_the_model_allows(model: str, tmp_path: Path) -> None:
    made = reviews(120)
    (tmp_path / "reviews").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in made))
    finish(start(tmp_path, model))
    found = [msgspec.json.decode(line) for line in (tmp_path / "enriched").read_bytes().splitlines()]
    moods = sorted((row["review"]["text"], row["answer"]["mood"]) for row in found)
    assert moods == sorted((review["text"], mood_of(review["text"])) for review in made)
    asked = spent(model)
    assert (asked["tokens"], asked["twice"]) == (wanted(made), 0)
    # On a busy machine requests that left evenly may arrive together; without the limit far more would be refused.
    assert asked["refused"] < len(made) / 4


def test_no_more_is_spent_than_the_budget(model: str, tmp_path: Path) -> None:
    made = reviews(60)
    (tmp_path / "reviews").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in made))
    most = wanted(made) // 2
    printed = finish(start(tmp_path, model, budget=most * EUROS_A_TOKEN))
    dearest = max(wanted([review]) for review in made)
    assert most - dearest <= spent(model)["tokens"] <= most + dearest
    assert "llm-enrichment-dead-letters" in printed


def test_what_was_paid_is_not_paid_again_after_a_kill(model: str, tmp_path: Path) -> None:
    made = reviews(120)
    (tmp_path / "reviews").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in made))
    first = start(tmp_path, model)
    wait_until(lambda: spent(model)["tokens"] > wanted(made) // 2, "half of the reviews were answered")
    first.kill()
    first.communicate()
    finish(start(tmp_path, model))
    found = [msgspec.json.decode(value or b"") for _, value, _, _ in contents(LogSystem(tmp_path / "log"), "enriched")]
    assert {row["review"]["text"] for row in found} == {review["text"] for review in made}
    # Those that were in flight, or whose answer had just come.
    assert spent(model)["twice"] <= 25
