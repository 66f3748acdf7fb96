"""Tests wait for conditions, with `wait_until`. Where a pause is itself what is tested, its file is listed here."""

import ast
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parent
PAUSES = {
    "support/waiting.py": "between two looks at a condition",
    "kafka/test_autosizing.py": "how many messages come in a second",
    "faults/test_outages_of_the_broker.py": "how long the broker is away, and when it is killed",
    "faults/test_calls_while_the_broker_pauses.py": "how long the broker stands still",
    "faults/test_air_traffic_control.py": "when a run is killed",
    "faults/test_containers.py": "when a container is killed",
    "faults/test_call_journals.py": "when a run is killed",
    "faults/test_deaths.py": "when a run is killed",
    "faults/test_deaths_on_spark.py": "when a run is killed",
    "faults/test_growing_topics.py": "when a producer hears of partitions, and when a container is killed",
    "faults/test_scales.py": "when a container is killed",
    "faults/test_upgrades_amid_scales.py": "when a container is stopped",
    "faults/test_streaming_on_a_cluster.py": "when a part of a cluster is killed",
    "runtime/executor/test_keyed_executor.py": "a user's function that takes its time",
    "runtime/process/test_event_loops.py": "a user's function that takes its time",
    "runtime/local/test_slices.py": "a user's function that takes its time",
    "runtime/spark/query/test_batch_sizing.py": "a user's function that takes its time",
    "spark_engine/test_data_frames.py": "a user's function that takes its time",
    "spark_engine/test_state_on_other_file_systems.py": "when a run is killed",
    "runtime/process/test_signals.py": "until the signal comes that is tested",
    "support/faults/stoppable.py": "a user's function that hangs",
    "support/generators/slow_pipelines.py": "a user's function that takes its time",
}
"""What each pause stands for, by file."""


def sleeps(code: str) -> bool:
    """Whether code names `time.sleep`, by whatever import."""
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Attribute(value=ast.Name(id="time"), attr="sleep"):
                return True
            case ast.ImportFrom(module="time", names=names) if any(name.name == "sleep" for name in names):
                return True
            case _:
                pass
    return False


def sleeping(root: Path) -> Iterable[str]:
    """The files of tests that sleep, as paths from the root."""
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        if "sleep" in text and sleeps(text):
            yield path.relative_to(root).as_posix()


def test_only_a_pause_that_is_tested_sleeps() -> None:
    """A new file waits for its condition: `wait_until` of `tests/support/waiting.py`."""
    assert set(sleeping(ROOT)) - {*PAUSES} == set()


def test_no_file_is_listed_that_does_not_sleep() -> None:
    assert {*PAUSES} - set(sleeping(ROOT)) == set()


def test_each_way_to_sleep_is_seen(tmp_path: Path) -> None:
    for name, code in {
        "plain": "import time\ntime.sleep(1)",
        "handed": "import time\nrun(time.sleep, 1)",
        "renamed": "from time import monotonic, sleep as nap\nnap(1)",
        "asynchronous": "import asyncio\nasync def wait():\n    await asyncio.sleep(0)",
        "quoted": "text = 'time.sleep(1)'",
    }.items():
        (tmp_path / f"test_{name}.py").write_text(code)
    assert list(sleeping(tmp_path)) == ["test_handed.py", "test_plain.py", "test_renamed.py"]
