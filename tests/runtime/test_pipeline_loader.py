"""Targets name pipelines, and what is wrong with one is told from the user's side."""

import dataclasses
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from fluvial.dsl import PipelineError, UsageError
from fluvial.runtime.pipeline_loader import load_pipeline

PIPELINE = """
from fluvial.dsl import Pipeline

def shout(word: str) -> str:
    return word.upper()

def built(name: str = "{name}") -> Pipeline:
    made = Pipeline(name)
    made.stream("words", value=str).map(shout).send_to("loud")
    return made
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes a file of Python below the current folder; what it brings in is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(sys.modules)

    def write(code: str, name: str = "words_to_load.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(code))
        return path

    yield write
    for name in sys.modules.keys() - before.keys():
        del sys.modules[name]


def text_of(error: type[Exception], target: str) -> str:
    with pytest.raises(error) as caught:
        load_pipeline(target)
    return str(caught.value)


@pytest.mark.parametrize(
    "target", ["words_to_load.py", "words_to_load.py:pipeline", "words_to_load:pipeline", "words_to_load"]
)
def test_each_form_names_the_pipeline(write: Write, target: str) -> None:
    write(PIPELINE.format(name="words") + "pipeline = built()")
    assert load_pipeline(target).name == "words"


def test_a_file_is_known_by_its_path(write: Write, tmp_path: Path) -> None:
    write(PIPELINE.format(name="words") + "pipeline = built()", "sub/words_to_load.py")
    assert load_pipeline("sub/words_to_load.py").name == "words"
    assert load_pipeline(str(tmp_path / "sub/words_to_load.py")).name == "words"


def test_a_function_that_returns_one_is_called(write: Write) -> None:
    write(PIPELINE.format(name="made"))
    assert load_pipeline("words_to_load.py:built").name == "made"
    assert load_pipeline("words_to_load.py").name == "made"


def test_two_names_of_one_pipeline_are_one(write: Write) -> None:
    write(PIPELINE.format(name="words") + "pipeline = built()\nalias = pipeline")
    assert load_pipeline("words_to_load.py").name == "words"


def test_a_file_may_import_its_neighbours(write: Write) -> None:
    write(PIPELINE.format(name="near"), "neighbour_to_load.py")
    write("from neighbour_to_load import built\npipeline = built()")
    assert load_pipeline("words_to_load.py").name == "near"
    assert sys.modules.keys() >= {"neighbour_to_load", "words_to_load"}


def test_classes_of_a_file_are_found_under_its_name(write: Write) -> None:
    write(
        PIPELINE.format(name="words")
        + "from dataclasses import dataclass\n@dataclass\nclass Word:\n    text: str\npipeline = built()"
    )
    load_pipeline("words_to_load.py")
    word = sys.modules["words_to_load"].Word("ada")
    assert dataclasses.asdict(pickle.loads(pickle.dumps(word))) == {"text": "ada"}


def test_a_changed_file_is_loaded_anew(write: Write) -> None:
    write(PIPELINE.format(name="first") + "pipeline = built()")
    load_pipeline("words_to_load.py")
    write(PIPELINE.format(name="the-second") + "pipeline = built()")
    assert load_pipeline("words_to_load.py").name == "the-second"


@pytest.mark.parametrize("stem", ["json", "statistics", "fluvial"])
def test_a_file_does_not_take_the_name_of_another_module(write: Write, stem: str) -> None:
    write(PIPELINE.format(name="words") + "pipeline = built()", f"{stem}.py")
    kept = sys.modules.get(stem)
    assert load_pipeline(f"{stem}.py").name == "words"
    assert sys.modules.get(stem) is kept
    assert f"{stem}_file" in sys.modules


@pytest.mark.parametrize("file", ["networkx.py", "statistics.py"])
def test_a_file_takes_no_place_of_what_plans_and_metrics_need(
    write: Write, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    """Also where a library is loaded later than the file: `statistics` stands for all that it imports itself."""
    for name in ("networkx", "prometheus_client"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    write("raise AssertionError", file)
    write(PIPELINE.format(name="words") + "pipeline = built()")
    load_pipeline("words_to_load.py")
    assert hasattr(sys.modules["networkx"], "MultiDiGraph")
    assert hasattr(sys.modules["prometheus_client"], "CollectorRegistry")


@pytest.mark.parametrize("target", ["nope.py", "nope.py:pipeline"])
def test_no_such_file(write: Write, target: str) -> None:  # noqa: ARG001 - it changes the current folder
    assert text_of(UsageError, target) == (
        f"there is no file 'nope.py'\n  at target {target}\n"
        "  expected: file.py, file.py:attribute or module:attribute\n"
        "  to do: correct the path; it is relative to the current folder"
    )


@pytest.mark.parametrize("place", ["nope", "nope.deeper", ".nope", ""])
def test_no_such_module(write: Write, place: str) -> None:  # noqa: ARG001 - it changes the current folder
    assert text_of(UsageError, f"{place}:pipeline") == (
        f"there is no module '{place}'\n  at target {place}:pipeline\n"
        "  expected: file.py, file.py:attribute or module:attribute\n"
        "  to do: correct the name; a file's name ends in .py; modules are looked for in the current folder too"
    )


def test_no_such_attribute(write: Write) -> None:
    write(PIPELINE.format(name="words") + "one = built()\ntwo = built()")
    assert text_of(UsageError, "words_to_load.py:three") == (
        "words_to_load has no 'three'\n  at target words_to_load.py:three\n  expected: one of its pipelines: one, two\n"
        "  to do: write words_to_load.py:one"
    )


def test_several_pipelines(write: Write) -> None:
    write(PIPELINE.format(name="words") + "one = built()\ntwo = built()")
    assert text_of(UsageError, "words_to_load.py") == (
        "words_to_load.py holds 2 pipelines: one, two\n  at target words_to_load.py\n  expected: the name of one\n"
        "  to do: write words_to_load.py:one"
    )


def test_no_pipeline(write: Write) -> None:
    write("x = 1")
    assert text_of(UsageError, "words_to_load.py") == (
        "words_to_load.py holds no Pipeline\n  at target words_to_load.py\n"
        "  expected: one Pipeline, or a function annotated to return one\n"
        '  to do: write pipeline = Pipeline("name") at its top level'
    )


@pytest.mark.parametrize(
    ("attribute", "wrong"),
    [
        ("number", "it is int, not a Pipeline"),
        ("needy", "words_to_load.py:needy cannot be called without arguments: missing a required argument: 'x'"),
        ("number_of", "it is int, not a Pipeline"),
    ],
)
def test_what_is_no_pipeline(write: Write, attribute: str, wrong: str) -> None:
    write("number = 1\ndef needy(x): ...\ndef number_of(): return 1")
    assert text_of(UsageError, f"words_to_load.py:{attribute}").startswith(f"{wrong}\n")


def test_an_error_in_the_file_shows_its_own_lines_only(write: Write) -> None:
    write(
        """
        import json

        def load():
            return json.loads("{")

        load()
        """
    )
    text = text_of(PipelineError, "words_to_load.py")
    head, *frames, error, at, expected, remedy = text.splitlines()
    assert head == "words_to_load.py fails as it is loaded:"
    assert [line.strip().partition(", ")[2] for line in frames if "File" in line] == [
        "line 7, in <module>",
        "line 5, in load",
    ]
    assert error.startswith("json.decoder.JSONDecodeError: Expecting property name")
    assert at == "  at words_to_load.py:5"
    assert expected == "  expected: a file that can be imported"
    assert remedy.startswith("  to do: correct it; ")


def test_an_import_that_fails_is_the_files_error(write: Write) -> None:
    write("import a_module_that_is_nowhere")
    text = text_of(PipelineError, "words_to_load:pipeline")
    assert "ModuleNotFoundError: No module named 'a_module_that_is_nowhere'" in text
    assert "  at words_to_load.py:1\n" in text


def test_a_package_that_fails_is_not_missing(write: Write) -> None:
    write("import a_module_that_is_nowhere", "package_to_load/__init__.py")
    assert "No module named 'a_module_that_is_nowhere'" in text_of(PipelineError, "package_to_load.pipelines")


def test_a_syntax_error_is_shown_where_it_is(write: Write) -> None:
    write("x = 1\ny = = 2\n")
    text = text_of(PipelineError, "words_to_load.py")
    assert "SyntaxError: invalid syntax" in text
    assert "  at words_to_load.py:2\n" in text


def test_a_file_that_ends_python(write: Write) -> None:
    write("import sys\nsys.exit(7)")
    assert "SystemExit: 7\n  at words_to_load.py:2\n" in text_of(PipelineError, "words_to_load.py")


def test_a_mistake_in_a_pipeline_is_reported_as_it_is(write: Write) -> None:
    write("from fluvial.dsl import Pipeline\n\nPipeline('no spaces')")
    assert text_of(PipelineError, "words_to_load.py") == (
        "pipeline name 'no spaces'\n  at words_to_load.py:3\n"
        "  expected: letters, digits, '_' and '-', at most 200 of them\n"
        "  to do: choose such a name; it becomes part of names of topics, stores and checkpoints"
    )


def test_a_file_that_failed_leaves_nothing(write: Write) -> None:
    write("1 / 0")
    text_of(PipelineError, "words_to_load.py")
    assert "words_to_load" not in sys.modules


BROKEN = """
from fluvial.dsl import Pipeline

words = Pipeline("p").stream("words", value=str)
{line}
"""


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ('words.send_to("out").map(len)', "send_to and sink end a stream"),
        ("a, b, c = words.split(str.isalpha)", "split gives a stream for each function and one more"),
        ("a, b = words.split(str.isalpha, str.isdigit)", "split gives a stream for each function and one more"),
        ("a, b = [1]", "correct it; what is not to happen"),
        ("None.format()", "correct it; what is not to happen"),
    ],
)
def test_what_pythons_own_error_means_of_a_stream_is_reported(write: Write, line: str, remedy: str) -> None:
    write(BROKEN.format(line=line))
    assert f"  to do: {remedy}" in text_of(PipelineError, "words_to_load.py")
