"""`state`: the rows of a pipeline's tables, as its stores have them."""

import json
import math
import os
import time
from contextlib import closing
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from engines.command_line import Fluvial
from fluvial.dsl import msgpack
from fluvial.planner import Settings, plan
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint, encode
from fluvial.runtime.local.stores.store_keys import CHECKPOINT, META
from fluvial.runtime.local.stores.survey import latest_folders
from fluvial.runtime.local.stores.task_stores import store_folders
from fluvial.runtime.pipeline_loader import load_pipeline
from fluvial.runtime.state import RocksStore
from fluvial.runtime.systems import KafkaSystem, LogSystem

ORDERS = """
from dataclasses import dataclass
from datetime import timedelta

from fluvial.dsl import Pipeline, count, tumbling


@dataclass(frozen=True)
class Customer:
    name: str
    town: str


pipeline = Pipeline("orders")
customers = pipeline.table("customers", key=str, value=Customer)
orders = pipeline.stream("orders", key=str, value=int)
orders.join(customers, lambda order, customer: f"{order} {customer.name}", id="named").send_to("named")
orders.send_to(pipeline.table("latest", key=str, value=int))
orders.window(tumbling(timedelta(days=1)), count(), id="daily").send_to("daily")
numbers = pipeline.table("numbers", key=int, value=str)
pairs = pipeline.table("pairs", key=tuple[str, int], value=str)
numbers.changes().merge(pairs.changes()).send_to("changes")
"""
MAYBE = """
from fluvial.dsl import Pipeline

pipeline = Pipeline("maybe-orders")
pipeline.table("maybe", key=str, value=int | None).changes().send_to("changes-of-maybe")
"""
LEVELS = """
from fluvial.dsl import Pipeline, msgpack

pipeline = Pipeline("levels-kept")
pipeline.table("levels", key=str, value=msgpack(dict[str, float | None])).changes().send_to("changes-of-levels")
"""
FAR = """
from fluvial.dsl import Pipeline, Serde, SystemProblem


def out_of_reach(_: object) -> bytes:
    raise SystemProblem("the registry is out of reach")


pipeline = Pipeline("far")
pipeline.table("towns", key=Serde("far", str, out_of_reach, bytes.decode), value=str).changes().send_to("changed")
"""
CUSTOMERS = [{"id": "c1", "name": "Ada", "town": "London"}, {"id": "c2", "name": "Bob", "town": "Rome"}]


@pytest.fixture
def orders(fluvial: Fluvial, folder: Path) -> Fluvial:
    (folder / "orders.py").write_text(ORDERS)
    (folder / "customers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in CUSTOMERS))
    (folder / "none.jsonl").write_text("")
    for stream in ("customers", "orders", "numbers", "pairs"):
        file = "customers.jsonl" if stream == "customers" else "none.jsonl"
        made = fluvial("produce", stream, file, "--format", "json", "--key-field", "id", "--partitions", "3")
        assert made.code == 0, made.err
    ended = fluvial("run", "orders.py", "--until", "end")
    assert ended.code == 0, ended.err
    return fluvial


def test_a_row_is_found_by_its_key(orders: Fluvial) -> None:
    ended = orders("state", "get", "orders.py", "customers", "c1")
    assert (ended.code, json.loads(ended.out)) == (0, {"name": "Ada", "town": "London"})
    told = orders("state", "get", "orders.py", "customers", "c1", "--json")
    assert json.loads(told.out) == {"key": "c1", "value": {"name": "Ada", "town": "London"}}


@pytest.mark.parametrize(("table", "key"), [("customers", "c9"), ("numbers", "7"), ("pairs", '["a", 1]')])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_where_there_is_no_row_it_says_so(orders: Fluvial, table: str, key: str, options: tuple[str, ...]) -> None:
    ended = orders("state", "get", "orders.py", table, key, *options)
    assert (ended.code, ended.out) == (1, "")
    assert f"table {table!r} has no row of key {key!r} in its stores here" in ended.err


def test_a_row_that_is_null_is_one(orders: Fluvial, folder: Path) -> None:
    system = LogSystem(folder / ".fluvial")
    system.admin().create("maybe", 1)
    writing = system.producer().begin()
    writing.append("maybe", 0, [(b"gone", b"1", 0, ()), (b"null", b"null", 0, ()), (b"gone", None, 0, ())])
    writing.commit()
    (folder / "maybe.py").write_text(MAYBE)
    assert orders("run", "maybe.py", "--until", "end").code == 0
    ended = orders("state", "get", "maybe.py", "maybe", "null")
    assert (ended.code, ended.out) == (0, "null\n")
    assert json.loads(orders("state", "get", "maybe.py", "maybe", "null", "--json").out) == {
        "key": "null",
        "value": None,
    }
    assert orders("state", "get", "maybe.py", "maybe", "gone").code == 1


@pytest.mark.parametrize("types", ["key=bytes, value=dict", "key=str, value=int"])
def test_rows_are_not_read_with_another_meaning_than_they_were_stored_with(
    orders: Fluvial, folder: Path, types: str
) -> None:
    table = f"pipeline.table('customers', {types})"
    changed = f"from fluvial.dsl import Pipeline\npipeline = Pipeline('orders')\n{table}.changes().send_to('changed')\n"
    (folder / "orders.py").write_text(changed)
    for words in (("get", "orders.py", "customers", "c1"), ("scan", "orders.py", "customers")):
        ended = orders("state", *words)
        assert (ended.code, ended.out) == (3, "")
        assert "the stored state of table customers has another meaning" in ended.err


def test_numbers_that_json_does_not_have_are_not_shown_as_null(fluvial: Fluvial, folder: Path) -> None:
    (folder / "levels.py").write_text(LEVELS)
    system = LogSystem(folder / ".fluvial")
    system.admin().create("levels", 1)
    writing = system.producer().begin()
    row = msgpack(dict[str, float | None]).encode({"high": math.nan, "low": -math.inf, "none": None})
    writing.append("levels", 0, [(b"k", row, 0, ())])
    writing.commit()
    assert fluvial("run", "levels.py", "--until", "end").code == 0
    ended = fluvial("state", "get", "levels.py", "levels", "k")
    assert json.loads(ended.out) == {"high": "NaN", "low": "-Infinity", "none": None}


def test_all_rows_come_in_the_order_of_their_keys(orders: Fluvial) -> None:
    ended = orders("state", "scan", "orders.py", "customers")
    assert [line.split("\t")[0] for line in ended.out.splitlines()] == ["c1", "c2"]
    told = json.loads(orders("state", "scan", "orders.py", "customers", "--json", "--limit", "1").out)
    assert told == [{"key": "c1", "value": {"name": "Ada", "town": "London"}}]


def test_it_reads_while_the_store_is_open_elsewhere(orders: Fluvial, folder: Path) -> None:
    made = load_pipeline("orders.py")
    stores = store_folders(plan(made), LogSystem(folder / ".fluvial"), Settings(), "customers")
    assert len(stores) == 3
    held = Rdict(str(stores[0]), Options(raw_mode=True))
    try:
        assert orders("state", "scan", "orders.py", "customers").code == 0
    finally:
        held.close()


@pytest.mark.parametrize(
    ("words", "code", "wrong"),
    [
        (("get", "orders.py", "daily", "c1"), 2, "window 'daily' keeps int, in a form that is no table's"),
        (("get", "orders.py", "named", "c1"), 2, "'named' is no table of pipeline 'orders'"),
        (("get", "orders.py", "numbers", "seven"), 2, "KEY 'seven' is no int"),
        (("get", "orders.py", "numbers", "9" * 20), 2, "is no int: key 99999999999999999999 does not fit 64 bits"),
        (("get", "orders.py", "pairs", "[" * 5000), 2, "is no tuple[str, int]: "),
        (("get", "orders.py", "customers", "\udcff"), 2, "KEY '\\udcff' is no str"),
        (("scan", "orders.py", "customers", "--system", "log:nowhere"), 4, "there is no state"),
        (("scan", "orders.py", "customers", "--system", "memory:"), 4, "there is no state"),
        (("scan", "nowhere.py", "customers"), 2, "nowhere.py"),
    ],
)
def test_what_cannot_be_read_says_why(orders: Fluvial, words: tuple[str, ...], code: int, wrong: str) -> None:
    ended = orders("state", *words)
    assert (ended.code, ended.out) == (code, "")
    assert wrong in ended.err


def test_a_key_whose_serde_is_out_of_reach_is_not_reported_as_a_wrong_one(fluvial: Fluvial, folder: Path) -> None:
    (folder / "far.py").write_text(FAR)
    ended = fluvial("state", "get", "far.py", "towns", "rome")
    assert (ended.code, ended.out) == (4, "")
    assert ended.err.startswith("the registry is out of reach")


def test_of_several_containers_the_latest_store_of_a_task_counts(
    folder: Path,
) -> None:
    (folder / "orders.py").write_text(ORDERS)
    made = plan(load_pipeline("orders.py"))
    for container, age in (("0", 100), ("1", 50)):
        for task in ("customers-0", f"customers-{container}"):
            store = folder / ".fluvial" / "state" / "orders" / f"container-{container}" / task
            store.mkdir(parents=True, exist_ok=True)
            (store / "CURRENT").write_text("")
            _touch(store / "CURRENT", age)
    found = store_folders(made, KafkaSystem("localhost:1"), Settings(), "customers")
    assert [f"{one.parent.name}/{one.name}" for one in found] == ["container-1/customers-0", "container-1/customers-1"]


MOVED = """
from fluvial.dsl import Pipeline


def found(message: str, row: str) -> str:
    return message + row


pipeline = Pipeline("moved")
others = pipeline.stream("a", key=str, value=str)
table = pipeline.table("t", key=str, value=str)
pipeline.stream("b", key=str, value=str).join(table, found, id="j").send_to("out")
{more}
"""
ALONE, TOGETHER = "others.send_to('others')", "others.join(table, found, id='k').send_to('others')"


def test_a_table_is_found_where_its_state_is_whichever_version_of_the_pipeline_looks(
    fluvial: Fluvial, folder: Path
) -> None:
    """The table goes from the stage t to the stage a."""
    for name, more in (("before.py", ALONE), ("after.py", TOGETHER)):
        (folder / name).write_text(MOVED.format(more=more))
    (folder / "row.jsonl").write_text('{"id": "k", "value": 1}\n')
    (folder / "none.jsonl").write_text("")
    for stream, file in (("a", "none.jsonl"), ("b", "none.jsonl"), ("t", "row.jsonl")):
        assert fluvial("produce", stream, file, "--format", "json", "--key-field", "id").code == 0
    for name in ("before.py", "after.py"):
        assert fluvial("run", name, "--until", "end", "--quiet").code == 0
        for looking in ("before.py", "after.py"):
            ended = fluvial("state", "get", looking, "t", "k")
            assert (ended.code, json.loads(ended.out)) == (0, {"id": "k", "value": 1}), ended.err


def _touch(file: Path, age: int) -> None:
    then = time.time() - age
    os.utime(file, (then, then))


def test_of_stores_with_changelogs_the_one_that_kept_the_table_last_counts(folder: Path) -> None:
    (folder / "after.py").write_text(MOVED.format(more=TOGETHER))
    made, system = plan(load_pipeline("after.py")), KafkaSystem("localhost:1")
    home = Path(".fluvial", "state", "moved")
    states = {store.operator: store.schema for store in made.stores}
    for name, kept, age in (
        ("container-0/t-0", states, 90),
        ("container-1/a-0~2", states, 50),
        ("container-0/b-0", {}, 9),
    ):
        with closing(RocksStore(home / name)) as store:
            store.write([(META, CHECKPOINT, encode(Checkpoint(states=kept)))])
        for file in (home / name).iterdir():
            _touch(file, age)
    assert latest_folders(made, system, Settings(), "t") == [home / "container-1" / "a-0~2"]
