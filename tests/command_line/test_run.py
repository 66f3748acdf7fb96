"""`run`: files in, the pipeline, files out."""

import gzip
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from engines.command_line import Fluvial

COUNTS = [
    {"letter": "a", "words": 3},
    {"letter": "b", "words": 1},
    {"letter": "c", "words": 1},
]


def documents(text: str) -> list[Any]:
    return sorted((json.loads(line) for line in text.splitlines()), key=str)


@pytest.fixture
def temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where temporary ones are made."""
    made = folder / "temporary"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    return made


def test_a_file_goes_through_and_nothing_stays(fluvial: Fluvial, folder: Path, temporary: Path) -> None:
    before = {path.name for path in folder.iterdir()}
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--output", "counts=counts.jsonl")
    assert (ended.code, ended.err) == (0, "")
    assert documents((folder / "counts.jsonl").read_text()) == COUNTS
    head, *rows = ended.out.splitlines()
    assert head.startswith("letters on local: ")
    counts = [row.split() for row in rows]
    assert ["read", "words", "6"] in counts
    assert ["written", "counts", "3"] in counts
    assert {path.name for path in folder.iterdir()} - before <= {"counts.jsonl", "__pycache__"}
    assert list(temporary.iterdir()) == []


def test_standard_output_is_for_values_alone(fluvial: Fluvial) -> None:
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--output", "counts=-")
    assert documents(ended.out) == COUNTS
    assert ended.err.startswith("letters on local: ")


def test_no_terminal_obeys_a_value_on_standard_output(fluvial: Fluvial, folder: Path) -> None:
    (folder / "copy.py").write_text(
        "from fluvial.dsl import Pipeline\n"
        "pipeline = Pipeline('copied')\n"
        "pipeline.stream('said', value=str).send_to('heard', value=str)\n"
    )
    (folder / "said.txt").write_text("\x9b2J\n")
    words = ("run", "copy.py", "--input", "said=said.txt", "--quiet", "--output")
    assert fluvial(*words, "heard=-").out == '"\\u009b2J"\n'
    assert fluvial(*words, "heard=-", "--raw").out == "\x9b2J\n"
    assert fluvial(*words, "heard=heard.jsonl").code == 0
    assert (folder / "heard.jsonl").read_text() == '"\x9b2J"\n'


def test_standard_input(fluvial: Fluvial, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b'{"text":"x","at":1}\n')))
    monkeypatch.setattr("sys.stdin", lines)
    ended = fluvial("run", "letters.py", "--input", "words=-", "--output", "counts=-", "--quiet")
    assert (ended.out, ended.err) == ('{"letter":"x","words":1}\n', "")


def test_gzip_in_and_out(fluvial: Fluvial, folder: Path) -> None:
    (folder / "words.gz").write_bytes(gzip.compress((folder / "words.jsonl").read_bytes()))
    fluvial("run", "letters.py", "--input", "words=words.gz", "--output", "counts=counts.gz")
    assert documents(gzip.decompress((folder / "counts.gz").read_bytes()).decode()) == COUNTS


def test_partitions_do_not_change_the_result(fluvial: Fluvial) -> None:
    words = [
        "--input",
        "words=words.jsonl",
        "--output",
        "counts=-",
        "--partitions",
        "3",
        "--intermediate-partitions",
        "2",
    ]
    assert documents(fluvial("run", "letters.py", *words).out) == COUNTS


def test_other_formats(fluvial: Fluvial, folder: Path) -> None:
    (folder / "rows.py").write_text(
        "from fluvial.dsl import Pipeline\n"
        'pipeline = Pipeline("rows")\n'
        'pipeline.stream("rows", value=dict[str, str]).map(lambda row: row["b"]).send_to("out", value=str)\n'
    )
    (folder / "rows.csv").write_text("a;b\n1;x\n2\n3;y\n")
    words = [
        "run",
        "rows.py",
        "--input",
        "rows=rows.csv",
        "--output",
        "out=-",
        "--input-format",
        "csv",
        "--delimiter",
        ";",
    ]
    ended = fluvial(*words)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("1 columns, the header has 2\n  at rows.csv:3\n")
    ended = fluvial(*words, "--skip-malformed")
    assert ended.out == '"x"\n"y"\n'
    assert ended.err.startswith("rows: 2 records in 1 partition, 1 malformed line skipped; the first is line 3: ")
    assert fluvial(*words, "--skip-malformed", "--raw", "--quiet").out == "x\ny\n"


def test_the_report_as_json(fluvial: Fluvial) -> None:
    report = json.loads(fluvial("run", "letters.py", "--input", "words=words.jsonl", "--json").out)
    assert (report["pipeline"], report["engine"], report["read"]["words"], report["written"]["counts"]) == (
        *("letters", "local", 6, 3),
    )


def test_streams_of_a_log_are_kept(fluvial: Fluvial) -> None:
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--system", "log:kept", "--quiet")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
    assert documents(fluvial("consume", "counts", "--values", "--system", "log:kept").out) == COUNTS


def test_only_what_the_run_wrote_goes_to_the_output(fluvial: Fluvial, folder: Path) -> None:
    fluvial("run", "letters.py", "--input", "words=words.jsonl", "--system", "log:kept")
    (folder / "more.jsonl").write_text('{"text":"date","at":9000}\n')
    words = ["--input", "words=more.jsonl", "--append", "--system", "log:kept", "--output", "counts=-"]
    assert documents(fluvial("run", "letters.py", *words).out) == [{"letter": "d", "words": 1}]


def test_nothing_is_loaded_before_a_run_that_is_refused(fluvial: Fluvial, folder: Path) -> None:
    """Else the same command, after a reset, would feed the file twice."""
    words = ["letters.py", "--input", "words=words.jsonl", "--append", "--system", "log:kept"]
    assert fluvial("run", *words).code == 0
    code = (folder / "letters.py").read_text()
    (folder / "letters.py").write_text(code.replace("tumbling(timedelta(seconds=1))", "tumbling(timedelta(seconds=2))"))
    before = fluvial("consume", "words", "--values", "--system", "log:kept").out
    assert fluvial("run", *words).code == 3
    assert fluvial("consume", "words", "--values", "--system", "log:kept").out == before


@pytest.mark.spark
def test_nothing_is_loaded_before_spark_refuses(fluvial: Fluvial, folder: Path) -> None:
    (folder / "loop.py").write_text(
        "from fluvial.dsl import Pipeline\n"
        "pipeline = Pipeline('loop')\n"
        "words = pipeline.stream('words', value=object)\n"
        "words.partition_by(str, id='by', key_type=str, value=object).merge(words).send_to('out')\n"
    )
    ended = fluvial("run", "loop.py", "--engine", "spark", "--input", "words=words.jsonl", "--system", "log:kept")
    assert (ended.code, ended.err.partition(" brings messages")[0]) == (3, "pipeline 'loop'")
    assert fluvial("consume", "words", "--values", "--system", "log:kept").code != 0


def test_nothing_is_loaded_where_another_stream_is_missing(fluvial: Fluvial, folder: Path) -> None:
    (folder / "two.py").write_text(
        "from fluvial.dsl import Pipeline\n"
        "pipeline = Pipeline('two')\n"
        "pipeline.stream('words', value=object).merge(pipeline.stream('others', value=object)).send_to('out')\n"
    )
    ended = fluvial("run", "two.py", "--input", "words=words.jsonl", "--system", "log:kept")
    assert (ended.code, ended.err.partition(" does not exist")[0]) == (3, "the stream 'others'")
    assert fluvial("consume", "words", "--values", "--system", "log:kept").code != 0


def test_a_stream_with_records_is_not_added_to_by_chance(fluvial: Fluvial) -> None:
    fluvial("produce", "words", "words.jsonl")
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--system", "log:.fluvial")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "--input for 'words', which holds records in log:.fluvial\n  at the command line\n"
        "  expected: an empty stream or a new one\n"
        "  to do: write --append to add to them, or leave out --input to read what is there\n"
    )


def test_a_given_log_can_be_read_to_its_end(fluvial: Fluvial) -> None:
    fluvial("produce", "words", "words.jsonl")
    ended = fluvial("run", "letters.py", "--until", "end", "--output", "counts=-", "--guarantee", "exactly_once")
    assert documents(ended.out) == COUNTS


def test_dead_letters_can_be_written_out(fluvial: Fluvial, folder: Path) -> None:
    code = (
        (folder / "letters.py")
        .read_text()
        .replace('Pipeline("letters")', 'Pipeline("letters", on_error=dead_letter())')
    )
    (folder / "letters.py").write_text(code.replace("tumbling\n", "dead_letter, tumbling\n"))
    with (folder / "words.jsonl").open("a") as file:
        file.write("what is this?\n")
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--output", "letters-dead-letters=-")
    assert (ended.code, ended.out) == (0, '"what is this?"\n')


def test_a_message_that_fails(fluvial: Fluvial, folder: Path) -> None:
    with (folder / "words.jsonl").open("a") as file:
        file.write("what is this?\n")
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--output", "counts=counts.jsonl")
    assert (ended.code, ended.out) == (5, "")
    assert "words" in ended.err
    assert "letters.py:35" in ended.err
    assert "Traceback" not in ended.err
    assert not (folder / "counts.jsonl").exists()


def test_a_stream_that_the_pipeline_does_not_have(fluvial: Fluvial) -> None:
    ended = fluvial("run", "letters.py", "--input", "wrods=words.jsonl")
    assert (ended.code, ended.err) == (
        2,
        "--input wrods=words.jsonl\n  at the command line\n  expected: a stream that letters reads: words\n"
        "  to do: write --input words=words.jsonl\n",
    )
    ended = fluvial("run", "letters.py", "--output", "words=-")
    assert (ended.code, ended.err) == (
        2,
        "--output words=-\n  at the command line\n"
        "  expected: a stream that letters writes: letters-by-letter, counts\n  to do: name one of them\n",
    )


TWO = """
from fluvial.dsl import Pipeline
pipeline = Pipeline("two")
left = pipeline.stream("left", value=str)
left.merge(pipeline.stream("right", value=str)).send_to("out")
"""


def test_a_source_without_a_file(fluvial: Fluvial, folder: Path) -> None:
    (folder / "two.py").write_text(TWO)
    ended = fluvial("run", "two.py", "--input", "left=words.jsonl")
    assert (ended.code, ended.err) == (
        2,
        "no --input for right: without --system a run with --input has a new, temporary log\n  at the command line\n"
        "  expected: a file for each stream that is read\n"
        "  to do: write --input right=FILE, or name the system where the stream is\n",
    )


@pytest.mark.parametrize(
    ("words", "wrong", "expected"),
    [
        (("--input", "left=-", "--input", "right=-"), "--input left=-", "standard input for one stream alone"),
        (
            ("--input", "left=words.jsonl", "--input", "right=-", "--output", "out=./words.jsonl"),
            "--output out=./words.jsonl",
            "a file of its own; --input left=words.jsonl was given too",
        ),
    ],
)
def test_a_file_is_for_one_stream_alone(
    fluvial: Fluvial, folder: Path, words: tuple[str, ...], wrong: str, expected: str
) -> None:
    (folder / "two.py").write_text(TWO)
    ended = fluvial("run", "two.py", *words)
    assert ended.code == 2
    assert ended.err.startswith(wrong)
    assert f"  expected: {expected}\n" in ended.err


def test_an_output_without_a_folder_is_found_before_the_run(fluvial: Fluvial) -> None:
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--output", "counts=no/counts.jsonl")
    assert (ended.code, ended.err) == (
        2,
        "there is no folder 'no'\n  at --output no/counts.jsonl\n  expected: a path in a folder that exists\n"
        "  to do: make the folder first\n",
    )


def test_a_stream_that_is_nowhere(fluvial: Fluvial) -> None:
    ended = fluvial("run", "letters.py", "--until", "end")
    assert ended.code == 3
    assert ended.err.startswith("the stream 'words' does not exist in log:.fluvial; it has none\n  at ")


def test_two_things_on_standard_output(fluvial: Fluvial) -> None:
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--output", "counts=-", "--json")
    assert (ended.code, ended.err) == (
        2,
        "--json and an --output to standard output\n  at the command line\n  expected: one of them\n"
        "  to do: write the output to a file\n",
    )


@pytest.mark.parametrize(
    ("words", "wrong", "expected"),
    [
        (["--master", "local[2]"], "--master without --engine spark", "--engine spark"),
        (["--spark-batch-records", "10"], "--spark-batch-records without --engine spark", "--engine spark"),
        (["--spark-message-ids"], "--spark-message-ids without --engine spark", "--engine spark"),
        (["--spark-conf", "spark.ui.enabled=false"], "--spark-conf without Spark", "--engine spark, or --on URL"),
    ],
)
def test_options_of_spark_are_for_spark(fluvial: Fluvial, words: list[str], wrong: str, expected: str) -> None:
    ended = fluvial("run", "letters.py", *words)
    assert ended.code == 2
    assert ended.err.startswith(f"{wrong}\n  at the command line\n  expected: {expected}\n  to do: write ")


def test_settings_of_spark_go_where_its_launcher_looks(fluvial: Fluvial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    words = ["--engine", "spark", "--spark-conf", "spark.driver.memory=1g", "--spark-conf", "spark.app.name=a b"]
    ended = fluvial("run", "letters.py", *words)
    assert (ended.code, ended.err) == (
        2,
        "the engine 'spark' cannot start here: pyspark is not installed\n"
        "  at --engine spark\n  expected: the extra that brings it\n"
        "  to do: pip install 'fluvial[spark]'\n",
    )
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == (
        "--conf spark.driver.memory=1g --conf 'spark.app.name=a b' --verbose pyspark-shell"
    )


def test_results_that_cannot_be_written_out_stay(fluvial: Fluvial, temporary: Path) -> None:
    ended = fluvial("run", "letters.py", "--input", "words=words.jsonl", "--output", "counts=/dev/full", "--quiet")
    assert (ended.code, ended.out) == (4, "")
    problem, consume, remove = ended.err.rsplit("\n", 3)[:3]
    assert problem == (
        "/dev/full cannot be written to: No space left on device\n  at /dev/full\n"
        "  expected: room for all that is written\n"
        "  to do: free space on the disk that is full, or raise the quota"
    )
    (folder,) = temporary.iterdir()
    assert remove == f"Remove it afterwards: rm -r {folder}"
    words = consume.removeprefix("The run is done, and its log stays: fluvial ").replace("STREAM", "counts").split()
    assert documents(fluvial(*words).out) == COUNTS


def test_a_value_that_its_serde_does_not_decode_is_reported_with_its_place(fluvial: Fluvial, folder: Path) -> None:
    (folder / "odd.py").write_text(
        "from fluvial.dsl import Pipeline, Serde\n"
        "def refuse(data: bytes) -> str: raise LookupError(data)\n"
        "odd = Serde('odd', str, str.encode, refuse)\n"
        'pipeline = Pipeline("odd")\n'
        'pipeline.stream("in", value=str).send_to("out", value=odd)\n'
    )
    (folder / "in").write_text("a\nb\n")
    ended = fluvial("run", "odd.py", "--input", "in=in", "--output", "out=-", "--system", "log:kept")
    assert ended.code == 4
    assert ended.err == (
        "a value cannot be shown: LookupError: b'a'\n  at stream out, partition 0, offset 0\n"
        "  expected: values that their type or Serde decodes\n"
        "  to do: correct the value's Serde, or see the bytes: fluvial consume out --format base64\n"
    )


@pytest.mark.parametrize("given", ["'over'", "7", "0", ""])
@pytest.mark.parametrize("policy", ["fail", "skip"])
def test_a_function_that_exits_ends_the_run_and_does_not_look_done(
    fluvial: Fluvial, folder: Path, given: str, policy: str
) -> None:
    source = f"""
import sys
from fluvial.dsl import Pipeline, {policy}
pipeline = Pipeline("over", on_error={policy}())
pipeline.stream("words", value=str).map(lambda word: sys.exit({given})).send_to("out", value=str)
"""
    (folder / "over.py").write_text(source)
    ended = fluvial("run", "over.py", "--input", "words=words.jsonl", "--output", "out=-")
    assert (ended.code, ended.out) == (5, "")
    wrong = f"sys.exit({given}) was called during the run of 'over', which ends without a last commit"
    assert ended.err.startswith(f"{wrong}\n  at over.py:5\n")


@pytest.mark.parametrize("option", [("--metrics-host", "0.0.0.0"), ("--metrics-alias", "visits.svc")])
def test_what_says_where_metrics_are_served_wants_a_port(fluvial: Fluvial, option: tuple[str, str]) -> None:
    ended = fluvial("run", "letters.py", *option, "--input", "words=words.jsonl")
    assert ended.code == 2
    assert "without --metrics-port\n  at the command line\n  expected: --metrics-port\n" in ended.err


@pytest.mark.parametrize(
    ("option", "needed"),
    [
        (("--partitions", "3"), "--input"),
        (("--append",), "--input"),
        (("--skip-malformed",), "--input"),
        (("--delimiter", ";"), "--input"),
        (("--key-field", "text"), "--input"),
        (("--max-line", "1MB"), "--input"),
        (("--raw",), "--output"),
        (("--max-restarts", "3"), "--containers"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(fluvial: Fluvial, option: tuple[str, ...], needed: str) -> None:
    ended = fluvial("run", "letters.py", *option, "--until", "end")
    assert ended.code == 2
    assert ended.err == (
        f"{option[0]} without {needed}\n  at the command line\n  expected: {needed}\n"
        f"  to do: write {needed} too, or leave out {option[0]}\n"
    )


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("--input", "words="), "write --input STREAM=FILE"),
        (("--input", "words"), "write --input STREAM=FILE"),
        (("--input", "word=f"), "write --input words=f"),
        (("--output", "count=-"), "write --output counts=-"),
        (("--containers", "2", "--container-id", "2"), "write --container-id 1"),
        (("--master", "local[2]"), "write --engine spark too, or leave out --master"),
        (("--kafka-conf", "conf"), "leave out --kafka-conf"),
        (("--columns", "a,b", "--input", "words=f"), "name the format csv, or leave out --columns"),
    ],
)
def test_each_wrong_option_says_what_to_do(fluvial: Fluvial, words: tuple[str, ...], remedy: str) -> None:
    ended = fluvial("run", "letters.py", *words, "--until", "end")
    assert ended.code == 2
    assert remedy in ended.err.rpartition("\n  to do: ")[2]


@pytest.mark.parametrize("words", [(), ("--until", "caught-up"), ("--until", "stopped")])
def test_windows_are_forgotten_at_an_end_alone(fluvial: Fluvial, words: tuple[str, ...]) -> None:
    ended = fluvial("run", "letters.py", *words, "--forget-at-end")
    assert ended.code == 2
    assert "--forget-at-end" in ended.err
    assert "--until end" in ended.err


@pytest.mark.parametrize(("words", "second"), [((), 4), (("--forget-at-end",), 1)])
def test_a_later_run_goes_on_with_windows_unless_they_are_forgotten(
    fluvial: Fluvial, folder: Path, words: tuple[str, ...], second: int
) -> None:
    system = ("--system", "log:.fluvial")
    (folder / "one.jsonl").write_text('{"text":"almond","at":10}\n')
    for file in ("words.jsonl", "one.jsonl"):
        assert fluvial("produce", "words", file).code == 0
        assert fluvial("run", "letters.py", *system, "--until", "end", "--quiet", *words).code == 0
    shown = fluvial("consume", "counts", *system, "--values").out.splitlines()
    counts = [json.loads(line) for line in shown]
    assert [one["words"] for one in counts if one["letter"] == "a"] == [3, second]
