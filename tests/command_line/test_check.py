"""`check`: what would keep a pipeline from running, before it runs."""

import json
import sys
from contextlib import closing
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest

from engines.command_line import Fluvial
from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import Settings, plan
from fluvial.runtime.cli.commands.check import _stored_state
from fluvial.runtime.kernel.time.border_watermarks import pack_trailer
from fluvial.runtime.preflight.requirements import missing
from fluvial.runtime.serdes.framing import head
from fluvial.runtime.systems import KafkaSystem, LogSystem
from generators.shop import record
from kafka.schema_registry import schema_registry

needs_pyspark = pytest.mark.skipif(
    find_spec("pyspark") is None, reason="pyspark is missing: pip install 'fluvial[spark]'"
)


def test_all_is_well(fluvial: Fluvial) -> None:
    fluvial("produce", "words", "words.jsonl")
    ended = fluvial("check", "letters.py", "--system", "log:.fluvial")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == [
        "✓ system: log:.fluvial is in reach, with 1 stream",
        "✓ plan: 2 stages, 3 streams",
        "✓ source: words has 1 partition",
        "✓ value: the first record of words is a Word",
        "✓ intermediate: letters-by-letter will be made with 1 partition",
        "✓ output: counts will be made with 1 partition",
        "✓ state: nothing is stored yet of count",
        "✓ type: stream words reads Word",
        "✓ type: partition_by by-letter writes Word",
        "✓ type: send_to counts writes Count",
        "✓ engine: local runs all of it",
    ]


def test_an_operator_whose_results_an_end_parts(fluvial: Fluvial, folder: Path) -> None:
    fluvial("produce", "words", "words.jsonl")
    discarding = (folder / "letters.py").read_text().replace('id="count")', 'id="count", accumulate=False)')
    (folder / "letters.py").write_text(discarding)
    ended = fluvial("check", "letters.py", "--system", "log:.fluvial")
    told, remedy = ended.out.splitlines()[-2:]
    assert ended.code == 0
    assert told.startswith("! end of input: with --until end results depend on how the input is cut into runs: window")
    assert remedy.startswith("  to do: use --until caught-up where later runs go on, for window count at ")


GLOBAL = """
from fluvial.dsl import Pipeline

class Session:
    async def __aenter__(self): return self
    async def __aexit__(self, *_): pass
    async def get(self, word): return [word]

session = Session()

async def ask(word: str) -> list[str]:
    return await session.get(word)

class Printer:
    def __init__(self): self.client = session
    def write(self, messages): pass
    def open(self): pass
    flush = close = open

pipeline = Pipeline("asked")
words = pipeline.stream("words", value=str)
words.async_flat_map(ask, id="ask").send_to("out")
words.sink(Printer(), id="printed")
"""


def test_a_client_that_is_made_with_the_pipeline(fluvial: Fluvial, folder: Path) -> None:
    (folder / "asked.py").write_text(GLOBAL)
    ended = fluvial("check", "asked.py")
    assert ended.code == 0
    told = ended.out.splitlines()
    asked = told.index(
        "! client: async_flat_map ask: ask uses session, an object of Session that is made with the pipeline"
    )
    assert told[asked + 1].startswith("  to do: at asked.py:22: make it by resource(factory), and pass resource=")
    assert told[asked + 2].startswith("! client: sink printed: write uses Printer.client, an object of Session")
    assert told[asked + 3] == "  to do: at asked.py:23: make it in open(), and close it in close()"


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, needs_pyspark])])
def test_kept_state_with_another_meaning(fluvial: Fluvial, folder: Path, engine: str) -> None:
    fluvial("produce", "words", "words.jsonl")
    assert fluvial("run", "letters.py", "--until", "end", "--engine", engine).code == 0
    words = ("check", "letters.py", "--system", "log:.fluvial", "--engine", engine)
    before = fluvial(*words)
    assert (before.code, "✓ state: a run can continue with the stored state of count\n" in before.out) == (0, True)
    changed = (folder / "letters.py").read_text().replace("tumbling(timedelta(seconds=1))", "tumbling(timedelta(1))")
    (folder / "letters.py").write_text(changed)
    ended = fluvial(*words)
    assert ended.code == 3
    told = "✗ state: the stored state of window count has another meaning: windows: was tumbling 1 s, is tumbling 1 d\n"
    assert told in ended.out


@pytest.mark.spark
@needs_pyspark
def test_state_that_spark_alone_reaches_is_said_not_to_be_looked_at() -> None:
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    pipeline = Pipeline("p")
    words = pipeline.stream("words", key=str, value=str)
    words.window(tumbling(timedelta(seconds=1)), count(), id="count").send_to("counts")
    settings = Settings(state_dir="s3a://bucket/fluvial")
    # No broker is asked.
    (finding,) = _stored_state(plan(pipeline), "spark", KafkaSystem("127.0.0.1:1"), settings)
    assert finding.text.startswith("state: what is stored in s3a://bucket/fluvial is not looked at: Spark alone")
    assert finding.remedy == "a run compares it with the pipeline before it reads or writes any message"
    assert finding.code == 0


REMINDERS = """
from fluvial.dsl import ClockTimers, Context, KeyedProcessor, Message, Pipeline, ValueState


class Remind(KeyedProcessor[str, dict[str, str | int], str]):
    seen = ValueState(int)
    clock = ClockTimers()

    def on_message(self, message: Message[dict[str, str | int]], context: Context[str]) -> None: ...


pipeline = Pipeline("letters")
pipeline.stream("words", key=str, value=dict[str, str | int]).process(Remind(), id="remind").send_to("counts")
"""


# That a checkpoint of Spark's is looked into is shown by the other test of both engines.
@pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long, needs_pyspark])]
)
def test_what_a_processor_does_not_declare_any_more(fluvial: Fluvial, folder: Path, engine: str) -> None:
    (folder / "letters.py").write_text(REMINDERS)
    fluvial("produce", "words", "words.jsonl", "--format", "json", "--key-field", "text")
    assert fluvial("run", "letters.py", "--until", "end", "--engine", engine).code == 0
    words = ("check", "letters.py", "--system", "log:.fluvial", "--engine", engine)
    unused = "✓ state: process remind leaves unused what it has stored before: "
    assert unused not in fluvial(*words).out
    changed = REMINDERS.replace("    seen = ValueState(int)\n    clock = ClockTimers()\n", "")
    (folder / "letters.py").write_text(changed)
    ended = fluvial(*words)
    assert (ended.code, ended.err) == (0, "")
    assert unused + "state seen, timers in processing time\n" in ended.out


def test_messages_left_between_stages_with_another_meaning(fluvial: Fluvial, folder: Path) -> None:
    fluvial("produce", "words", "words.jsonl")
    assert fluvial("run", "letters.py", "--until", "end").code == 0
    changed = (folder / "letters.py").read_text().replace("key_type=str", "key_type=str, value=msgpack(Word)")
    (folder / "letters.py").write_text(changed.replace("Pipeline, count", "Pipeline, count, msgpack"))
    words = ("check", "letters.py", "--system", "log:.fluvial")
    assert fluvial(*words).code == 0
    with closing(LogSystem(folder / ".fluvial").producer()) as producer:
        writing = producer.begin()
        writing.append("letters-by-letter", 0, [(b"t", b'{"text":"tea","at":1}' + pack_trailer(0, 0), 1, ())])
        writing.commit()
    ended = fluvial(*words)
    assert ended.code == 3
    told = "✗ intermediate: messages that partition_by by-letter has left in the stream 'letters-by-letter', and that "
    told += "were not read yet, have another meaning: values: was json, is msgpack; "
    assert f"{told}partial aggregates: was count() for count, by 1 s, is none\n" in ended.out


def test_without_a_system_nothing_is_asked_there(fluvial: Fluvial, folder: Path) -> None:
    ended = fluvial("check", "letters.py")
    assert ended.code == 0
    assert ended.out.startswith("✓ plan: 2 stages, 3 streams\n✓ type: ")
    assert not (folder / ".fluvial").exists()


def test_a_source_that_is_missing(fluvial: Fluvial) -> None:
    ended = fluvial("check", "letters.py", "--system", "log:.fluvial")
    assert ended.code == 3
    assert (
        "✗ source: there is no stream 'words' in log:.fluvial\n"
        "  to do: fluvial produce words FILE --system log:.fluvial\n"
    ) in ended.out


def test_records_of_another_type(fluvial: Fluvial, folder: Path) -> None:
    (folder / "words.jsonl").write_text('{"text":1,"at":2}\n')
    fluvial("produce", "words", "words.jsonl")
    ended = fluvial("check", "letters.py", "--system", "log:.fluvial")
    assert ended.code == 3
    assert (
        "✗ value: the first record of words is no Word: Expected `str`, got `int` - at `$.text`\n"
        "  to do: correct value= at letters.py:35, or see what is there: fluvial consume words --limit 1\n"
    ) in ended.out


def test_keys_of_another_type(fluvial: Fluvial, folder: Path) -> None:
    program = (
        "from fluvial.dsl import Pipeline\n\np = Pipeline('p')\np.stream('in', key=int, value=str).send_to('out')\n"
    )
    (folder / "keyed.py").write_text(program)
    (folder / "in.jsonl").write_text('{"id":"customer"}\n')
    fluvial("produce", "in", "in.jsonl", "--format", "json", "--key-field", "id")
    ended = fluvial("check", "keyed.py", "--system", "log:.fluvial")
    assert ended.code == 3
    assert (
        "✗ key: the first of in is no int: the key is text of length 8, not an int in eight bytes: declare key=str for "
        "text, or key=INT64 for numbers above 2.3e18\n"
        "  to do: correct key= at keyed.py:4, or see what is there: fluvial consume in --limit 1\n"
    ) in ended.out
    program = program.replace("key=int", "key=str")
    (folder / "keyed.py").write_text(program)
    assert "✓ key: the first of in is a str\n" in fluvial("check", "keyed.py", "--system", "log:.fluvial").out


def test_a_serde_that_does_not_go_both_ways(fluvial: Fluvial, folder: Path) -> None:
    (folder / "odd.py").write_text(
        "from fluvial.dsl import Pipeline, Serde\n"
        'odd = Serde("odd", int, lambda number: b"%d" % (number + 1), int)\n'
        'pipeline = Pipeline("odd")\n'
        'pipeline.stream("numbers", value=odd).send_to("out")\n'
    )
    (folder / "numbers").write_text("1\n")
    fluvial("produce", "numbers", "numbers")
    ended = fluvial("check", "odd.py", "--system", "log:.fluvial")
    assert ended.code == 3
    assert (
        "✗ value: the first record of numbers changes when it is encoded and decoded\n"
        "  to do: correct the Serde at odd.py:4\n"
    ) in ended.out


CLASSY = """
from fluvial.dsl import Pipeline, Serde

class Point:
    def __init__(self, x: int) -> None:
        self.x = x

point = Serde("point", Point, lambda point: b"%d" % point.x, lambda data: Point(int(data)))

def same(point: Point) -> Point:
    return point

pipeline = Pipeline("points")
points = pipeline.stream("points", value=point)
points.map(lambda point: point.x).send_to("numbers")
points.map(same).send_to("points-out")
"""


def test_types_of_ones_own(fluvial: Fluvial, folder: Path) -> None:
    (folder / "points.py").write_text(CLASSY)
    (folder / "points").write_text("1\n")
    fluvial("produce", "points", "points")
    ended = fluvial("check", "points.py", "--system", "log:.fluvial")
    assert ended.code == 3
    assert "✓ value: the first record of points is a point\n" in ended.out
    assert "✓ type: send_to numbers writes values of unknown type, as JSON\n" in ended.out
    assert (
        "✗ type: send_to points-out writes Point; JSON cannot hold Point\n"
        "  to do: at points.py:16: pass a Serde as value=, or use a dataclass, Struct or TypedDict\n"
    ) in ended.out


def test_what_a_serde_refuses(fluvial: Fluvial, folder: Path) -> None:
    (folder / "points.py").write_text(CLASSY)
    (folder / "points").write_text("x\n")
    fluvial("produce", "points", "points")
    ended = fluvial("check", "points.py", "--system", "log:.fluvial")
    assert "✗ value: the first record of points is no point: invalid literal for int()" in ended.out


def test_an_empty_source_has_no_first_record(fluvial: Fluvial, folder: Path) -> None:
    (folder / "words.jsonl").write_text("")
    fluvial("produce", "words", "words.jsonl")
    ended = fluvial("check", "letters.py", "--system", "log:.fluvial")
    assert ended.code == 0
    assert "value:" not in ended.out


def test_spark_without_pyspark(fluvial: Fluvial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    ended = fluvial("check", "letters.py", "--engine", "spark")
    assert ended.code == 3
    assert ended.out.endswith(
        "✗ engine: spark cannot start here: pyspark is not installed\n  to do: pip install 'fluvial[spark]'\n"
    )


def test_a_wrong_plan_is_a_finding(fluvial: Fluvial, folder: Path) -> None:
    (folder / "open.py").write_text(
        'from fluvial.dsl import Pipeline\nopen = Pipeline("open")\nopen.stream("a", value=str)\n'
    )
    ended = fluvial("check", "open.py")
    assert ended.code == 3
    assert ended.out == (
        "✗ plan: nothing reads what stream a emits\n    at open.py:3\n    expected: a terminal operator\n"
        "    to do: end it with .send_to(...) or .sink(...)\n"
    )


def test_a_system_out_of_reach(fluvial: Fluvial, folder: Path) -> None:
    (folder / "taken").write_text("a file")
    ended = fluvial("check", "letters.py", "--system", "log:taken")
    assert ended.code == 4
    assert ended.out.startswith("✗ system: ")
    assert "✓ plan: 2 stages, 3 streams\n" in ended.out


def test_findings_as_json(fluvial: Fluvial) -> None:
    found = json.loads(fluvial("check", "letters.py", "--json").out)
    assert found[0] == {"text": "plan: 2 stages, 3 streams", "code": 0, "remedy": ""}


@needs_pyspark
def test_functions_for_spark(fluvial: Fluvial) -> None:
    ended = fluvial("check", "letters.py", "--engine", "spark")
    assert ended.code == 0
    assert ended.out.endswith("✓ engine: spark runs all of it\n✓ functions: all can be sent to Spark's workers\n")


@needs_pyspark
def test_functions_that_cannot_be_sent(fluvial: Fluvial, folder: Path) -> None:
    (folder / "locked.py").write_text(
        "import threading\nfrom fluvial.dsl import Pipeline\nlock = threading.Lock()\n"
        "def slowly(word: str) -> str:\n    with lock:\n        return word\n"
        'pipeline = Pipeline("locked")\n'
        'pipeline.stream("words", value=str).map(slowly).send_to("out")\n'
    )
    ended = fluvial("check", "locked.py", "--engine", "spark")
    assert ended.code == 3
    assert ended.out.endswith(
        "✗ functions: map(slowly) cannot be sent to Spark's workers: cannot pickle '_thread.lock' object\n"
        "  to do: at locked.py:8: make what cannot be pickled by resource(factory), or in an open()\n"
    )


def test_spark_and_the_memory(fluvial: Fluvial) -> None:
    ended = fluvial("check", "letters.py", "--engine", "spark", "--system", "memory:")
    assert ended.code == 3
    assert (
        "✗ engine: spark cannot run the system memory:; Spark's workers are other processes and cannot see it\n"
        "  to do: choose another engine or system\n"
    ) in ended.out


REGISTERED = """
from datetime import timedelta
from fluvial.dsl import Pipeline
from fluvial.runtime.serdes import Registry, avro

CLICK = {{"type": "record", "name": "Click", "fields": [{{"name": "user", "type": "string"}}]}}
registry = Registry("{url}", give_up_after=timedelta(milliseconds=200))
clicks = avro(CLICK, registry=registry, subject="clicks-value")
pipeline = Pipeline("copy")
pipeline.stream("clicks", value=clicks).send_to("copies", value=avro(CLICK, registry=registry, subject="copies-value"))
"""


def test_a_registry_is_asked_and_nothing_is_registered(fluvial: Fluvial, folder: Path) -> None:
    with schema_registry() as server:
        (folder / "copy.py").write_text(REGISTERED.format(url=server.url))
        ended = fluvial("check", "copy.py")
        assert (ended.code, server.subjects) == (0, {})
    assert ended.out.splitlines()[-3:-1] == [
        f"✓ serde: avro:Click: subject 'clicks-value' of {server.url} has no schema yet",
        f"✓ serde: avro:Click: subject 'copies-value' of {server.url} will be given its first schema",
    ]


def test_a_schema_that_a_registry_would_not_take(fluvial: Fluvial, folder: Path) -> None:
    with schema_registry() as server:
        server.add("copies-value", record("Click", agent="string"))
        (folder / "copy.py").write_text(REGISTERED.format(url=server.url))
        ended = fluvial("check", "copy.py")
    assert ended.code == 3
    assert f"✗ serde: avro:Click: subject 'copies-value' of {server.url} does not take the schema" in ended.out
    assert "at copy.py:10" in ended.out


def test_a_registry_out_of_reach(fluvial: Fluvial, folder: Path) -> None:
    with schema_registry() as server:
        server.unwell = 1000
        (folder / "copy.py").write_text(REGISTERED.format(url=server.url))
        ended = fluvial("check", "copy.py")
    assert ended.code == 4
    assert f"✗ serde: avro:Click: the schema registry at {server.url} is out of reach" in ended.out


def write(folder: Path, stream: str, value: bytes) -> None:
    system = LogSystem(folder / ".fluvial")
    system.admin().create(stream, 1)
    writing = system.producer().begin()
    writing.append(stream, 0, [(None, value, 0, ())])
    writing.commit()


@pytest.mark.slow
def test_a_first_record_is_decoded_with_its_schema_and_not_encoded(fluvial: Fluvial, folder: Path) -> None:
    with schema_registry() as server:
        (folder / "copy.py").write_text(REGISTERED.format(url=server.url))
        id = server.add("clicks-value", record("Click", user="string"))
        write(folder, "clicks", head(id) + b"\x06ada")
        ended = fluvial("check", "copy.py", "--system", "log:.fluvial")
        assert "✓ value: the first record of clicks is a avro:Click\n" in ended.out
        assert (ended.code, server.subjects) == (0, {"clicks-value": [1]})
        server.unwell = 1000
        ended = fluvial("check", "copy.py", "--system", "log:.fluvial")
    assert ended.code == 4
    assert f"✗ value: the schema registry at {server.url} is out of reach" in ended.out


def test_a_run_without_its_registry_ends_as_check_has_said(fluvial: Fluvial, folder: Path) -> None:
    write(folder, "clicks", head(1) + b"\x06ada")
    with schema_registry() as server:
        server.unwell = 1000
        (folder / "copy.py").write_text(REGISTERED.format(url=server.url))
        ended = fluvial("run", "copy.py", "--system", "log:.fluvial", "--until", "end")
    assert ended.code == 4
    assert f"the schema registry at {server.url} is out of reach: it has not answered for 0.2 s" in ended.err
