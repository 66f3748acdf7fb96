"""`plan` and `draw`: what a pipeline means, on paper."""

import json
import webbrowser
from pathlib import Path

import pytest

from engines.command_line import Fluvial
from fluvial.planner import Plan, plan
from fluvial.planner.drawing import Format, draw
from fluvial.runtime.pipeline_loader import load_pipeline

TABLES = """\
letters: 2 stages, 3 streams

stage 1: words, 4 tasks
  operator                role          emits  options           at             id
  stream words            non-terminal  Word   timestamp=lambda  letters.py:35  stream-1
  filter(is_word)         non-terminal  Word   function=is_word  letters.py:36  filter-2
  partition_by by-letter  terminal      Word   key=letter, combines for=count  letters.py:37  by-letter

stage 2: letters-by-letter, 4 tasks
  operator        role          emits           options                                at             id
  window count    both          Pane[str, int]  windows=tumbling 1 s, aggregate=count  letters.py:38  count
  map(to_count)   non-terminal  Count           function=to_count                      letters.py:39  map-5
  send_to counts  terminal      Count                                                  letters.py:40  send_to-6

streams
  stream             kind          partitions  key  value
  words              source        4           -    Word
  letters-by-letter  intermediate  4           str  Word
  counts             output        4           str  Count

stores
  of     stage              key  value  changelog
  count  letters-by-letter  str  int    letters-count-changelog

engines
  local  runs all of it
  spark  runs all of it
"""


def cells(text: str) -> list[list[str]]:
    """The words of a table without its spacing."""
    return [line.split() for line in text.splitlines()]


def test_a_plan_is_shown_as_tables(fluvial: Fluvial) -> None:
    ended = fluvial("plan", "letters.py", "--partitions", "words=4")
    assert (ended.code, ended.err) == (0, "")
    assert cells(ended.out) == cells(TABLES)


def test_tasks_of_one_stream_are_shown(fluvial: Fluvial, folder: Path) -> None:
    merging = (folder / "letters.py").read_text() + '\nboth = Pipeline("both")\n'
    merging += 'both.stream("a", value=str).merge(both.stream("b", value=str)).send_to("out")\n'
    (folder / "letters.py").write_text(merging)
    for words, tasks in (((), "2 tasks"), (("--group-by", "stream-partition"), "3 tasks by stream-partition")):
        shown = fluvial("plan", "letters.py:both", "--partitions", "a=2", "--partitions", "b=1", *words).out
        assert f"stage 1: a, {tasks}" in shown.splitlines()


def test_a_gap_is_shown(fluvial: Fluvial) -> None:
    ended = fluvial("plan", "letters.py", "--system", "memory:")
    last = " ".join(cells(ended.out)[-1])
    assert last == "spark cannot run the system memory:; Spark's workers are other processes and cannot see it"


def test_operators_whose_results_an_end_parts_are_shown(fluvial: Fluvial, folder: Path) -> None:
    discarding = (folder / "letters.py").read_text().replace('id="count")', 'id="count", accumulate=False)')
    (folder / "letters.py").write_text(discarding)
    shown = fluvial("plan", "letters.py").out.splitlines()
    at = shown.index("--until end")
    assert shown[at + 1] == "  results depend on how the input is cut into runs: use --until caught-up"
    (row,) = shown[at + 2 :]
    assert row.startswith("  window count  its panes hold what came since the last one")
    assert "letters.py:" in row


def test_counts_come_from_the_system_unless_given(fluvial: Fluvial) -> None:
    fluvial("produce", "words", "words.jsonl", "--partitions", "3")
    made = json.loads(fluvial("plan", "letters.py", "--system", "log:.fluvial", "--json").out)
    assert [stream["partitions"] for stream in made["streams"]] == [3, 3, 3]
    made = json.loads(
        fluvial("plan", "letters.py", "--partitions", "words=5", "--system", "log:.fluvial", "--json").out
    )
    assert [stream["partitions"] for stream in made["streams"]] == [5, 5, 5]


def test_json_is_a_plan(fluvial: Fluvial) -> None:
    text = fluvial("plan", "letters.py", "--json").out
    assert Plan.from_json(text, load_pipeline("letters.py")).name == "letters"


def test_a_pipeline_without_a_plan(fluvial: Fluvial, folder: Path) -> None:
    (folder / "open.py").write_text(
        'from fluvial.dsl import Pipeline\n\nopen = Pipeline("open")\nopen.stream("a", value=str).map(len)\n'
    )
    ended = fluvial("plan", "open.py")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == (
        "nothing reads what map(len) emits\n  at open.py:4\n  expected: a terminal operator\n"
        "  to do: end it with .send_to(...) or .sink(...)\n"
    )


@pytest.fixture
def letters(folder: Path) -> Plan:  # noqa: ARG001 - it holds the file
    return plan(load_pipeline("letters.py"))


def test_a_drawing_is_text_unless_told(fluvial: Fluvial, letters: Plan) -> None:
    assert fluvial("draw", "letters.py").out == draw(letters, "text").rstrip("\n") + "\n"


@pytest.mark.parametrize(
    ("ending", "format"),
    [("svg", "svg"), ("html", "html"), ("mmd", "mermaid"), ("dot", "dot"), ("txt", "text"), ("json", "json")],
)
def test_the_format_follows_the_name(fluvial: Fluvial, letters: Plan, ending: str, format: Format) -> None:
    ended = fluvial("draw", "letters.py", "-o", f"dag.{ending}", "--view", "stages")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert Path(f"dag.{ending}").read_text().rstrip("\n") == draw(letters, format, view="stages").rstrip("\n")


def test_the_format_can_be_named(fluvial: Fluvial, letters: Plan) -> None:
    assert fluvial("draw", "letters.py", "--format", "mmd").out.rstrip("\n") == draw(letters, "mermaid").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [(["-o", "dag.png"], "-o dag.png"), (["-o", "dag"], "-o dag"), (["--format", "png"], "--format png")],
)
def test_a_format_that_is_none(fluvial: Fluvial, words: list[str], wrong: str) -> None:
    ended = fluvial("draw", "letters.py", *words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        f"{wrong}\n  at the command line\n  expected: one of the formats svg, html, mmd, dot, txt, json\n"
        "  to do: name one: -o plan.svg, or --format svg\n"
    )


def test_a_drawing_can_be_opened(fluvial: Fluvial, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    fluvial("draw", "letters.py", "-o", "dag.html", "--open")
    assert opened == [(folder / "dag.html").resolve().as_uri()]


def test_a_folder_that_is_missing(fluvial: Fluvial) -> None:
    ended = fluvial("draw", "letters.py", "-o", "no/dag.svg")
    assert ended.code == 2
    assert ended.err.startswith("the file cannot be written: No such file or directory\n  at no/dag.svg\n")


def test_partitions_of_a_stream_that_is_not_there_are_refused(fluvial: Fluvial) -> None:
    ended = fluvial("plan", "letters.py", "--partitions", "word=4")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "--partitions word=4\n  at the command line\n"
        "  expected: a stream of letters: words, letters-by-letter, counts\n"
        "  to do: correct the name\n"
    )


def test_the_columns_of_its_streams_in_a_frame(fluvial: Fluvial) -> None:
    ended = fluvial("plan", "letters.py", "--columns")
    assert cells(ended.out) == [
        ["stream", "kind", "column", "type"],
        ["words", "source", "text", "string"],
        ["words", "source", "at", "bigint"],
        ["counts", "output", "letter", "string"],
        ["counts", "output", "words", "bigint"],
    ]
    told = json.loads(fluvial("plan", "letters.py", "--columns", "--json").out)
    assert {one["stream"] for one in told} == {"words", "counts"}


def test_a_stream_without_columns_says_why(fluvial: Fluvial, tmp_path: Path) -> None:
    untyped = tmp_path / "untyped.py"
    untyped.write_text(
        "from fluvial.dsl import Pipeline\n"
        "pipeline = Pipeline('untyped')\n"
        "pipeline.stream('words', value=str).map(lambda word: (word, 1)).send_to('pairs')\n"
    )
    assert "no columns: the type of the values is not known" in fluvial("plan", str(untyped), "--columns").out
