"""A query that fails ends the run, though those of the other parts could go on for ever."""

from datetime import timedelta
from errno import ENOSPC
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from pyspark.errors import StreamingQueryException

from explained import assert_explains
from fluvial.dsl import FluvialError, MessageError, Pipeline, PipelineError, SystemProblem
from fluvial.planner import Plan, Settings, plan
from fluvial.runtime.spark import engine
from fluvial.runtime.spark.query.checkpoint_record import FILE
from fluvial.runtime.spark.query.supervision import run_queries
from fluvial.runtime.systems import LogSystem


class Query:
    """Stands for a query of Spark's."""

    def __init__(self, error: Exception | None) -> None:
        self.isActive = error is None
        self.lastProgress = None
        self._error = error

    def exception(self) -> Exception | None:
        return self._error

    def awaitTermination(self, _: float) -> None:  # noqa: N802 - the name of Spark
        """It goes on."""

    def stop(self) -> None:
        self.isActive = False


class Connection:
    """Stands for a system that lets queries stop at any time."""

    def may_stop(self, _: object) -> bool:
        return True


STOPPABLE = Connection()


def begun(part: Any) -> Query:
    """The query of a part: here a part is what makes it."""
    made: Query = part()
    return made


class Monitor:
    """Waits for five turns, then wishes to stop."""

    turns = 0

    def stop(self) -> bool:
        self.turns += 1
        return self.turns > 5

    def report_progress(self) -> None:
        """Nobody listens."""


def test_a_query_that_fails_ends_the_run() -> None:
    going_on, monitor = Query(None), Monitor()
    run_all: Any = run_queries
    with pytest.raises(SystemProblem, match="lost its way"):
        run_all(
            [lambda: going_on, lambda: Query(StreamingQueryException("lost its way"))],
            begun,
            STOPPABLE,
            monitor,
            PATIENCE,
        )
    assert (monitor.turns, going_on.isActive) == (1, False)


def test_a_query_that_does_not_start_ends_those_that_have() -> None:
    going_on = Query(None)

    def refuse() -> Query:
        raise OSError("no room for its checkpoint")

    run_all: Any = run_queries
    with pytest.raises(OSError, match="no room"):
        run_all([lambda: going_on, refuse], begun, STOPPABLE, Monitor(), PATIENCE)
    assert not going_on.isActive


class FailsSoon(Query):
    """A query that fails while one waits for the end of its batch."""

    looks = 6

    @property
    def isActive(self) -> bool:  # noqa: N802 - the name of Spark
        self.looks -= 1
        return self.looks > 0

    @isActive.setter
    def isActive(self, _: bool) -> None:  # noqa: N802
        """It ends by itself."""


def test_a_query_that_fails_before_it_is_started_again_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").touch()  # a batch that is planned, and not done
    started = [FailsSoon(StreamingQueryException("lost its way"))]
    query = SimpleNamespace(group="p@1", checkpoint=tmp_path)
    sizers = {"p@1": SimpleNamespace(due=True, target=60.0)}
    run_all: Any = run_queries
    with pytest.raises(SystemProblem, match="lost its way"):
        run_all([query], lambda _: started.pop(), STOPPABLE, Monitor(), PATIENCE, sizers)
    assert started == []


BEHIND = " SQLSTATE: 38000\n=== Streaming Query ===\nIdentifier: p"


def traceback_of(error: Exception, behind: str = BEHIND) -> str:
    """What a query says that fails of an error in a worker."""
    return (
        "[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        f"fluvial.dsl.errors.{type(error).__name__}: {error}\n{behind}"
    )


@pytest.mark.parametrize(
    "error",
    [
        MessageError("map 'm' failed: ValueError: first\n\nand last\n  at p.py:3\n  to do: mend it"),
        PipelineError("the state of window 'w' cannot be encoded\n  at p.py:3"),
        SystemProblem("x.seg is damaged at byte 0"),
    ],
)
@pytest.mark.parametrize("behind", [BEHIND, "\n=== Streaming Query ===\nIdentifier: p"])
def test_an_error_of_ours_comes_back_from_a_worker_as_it_was(error: FluvialError, behind: str) -> None:
    told = traceback_of(error, behind)
    run_all: Any = run_queries
    with pytest.raises(FluvialError) as raised:
        run_all([lambda: Query(StreamingQueryException(told))], begun, STOPPABLE, Monitor(), PATIENCE)
    assert (type(raised.value), str(raised.value)) == (type(error), str(error))


def test_of_an_error_of_sparks_comes_back_what_it_says() -> None:
    """Not where in Spark it was raised."""
    told = "An error occurred while calling o1.start.\n: java.lang.Exception: no room\n\tat org.apache.X(X.scala:1)\n"
    run_all: Any = run_queries
    with pytest.raises(SystemProblem, match=r"\Athe query on Spark has failed: java\.lang\.Exception: no room\Z"):
        run_all([lambda: Query(StreamingQueryException(told))], begun, STOPPABLE, Monitor(), PATIENCE)


IN_A_BATCH = (
    "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
    '  File "py4j/clientserver.py", line 644, in _call_proxy\n'
    "py4j.protocol.Py4JJavaError: An error occurred while calling o97.collectToPython.\n"
    ": org.apache.spark.SparkException: Job aborted due to stage failure: {}\n\tat org.X(X.scala:1)\nCaused by: y"
)


def test_of_an_error_of_a_batch_comes_back_what_java_says() -> None:
    run_all: Any = run_queries
    told = IN_A_BATCH.format("no such block")
    with pytest.raises(SystemProblem, match=r"has failed: org\.apache\.spark\.SparkException: Job .*: no such block\Z"):
        run_all([lambda: Query(StreamingQueryException(told))], begun, STOPPABLE, Monitor(), PATIENCE)


def test_a_python_process_that_was_killed_is_reported_as_such() -> None:
    run_all: Any = run_queries
    told = IN_A_BATCH.format("SparkException: Python worker exited unexpectedly (crashed). Consider setting x")
    with pytest.raises(SystemProblem) as raised:
        run_all([lambda: Query(StreamingQueryException(told))], begun, STOPPABLE, Monitor(), PATIENCE)
    wrong, expected = "a Python process of Spark has ended in the middle of its work", "Python processes that live"
    assert_explains(raised.value, wrong, None, expected, "want of memory")


MISSING = (
    "[STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY] Cannot restart streaming query with stateful operators "
    "because the state directory is empty or missing.\nPlease use a new checkpoint location. SQLSTATE: 42K03"
)
CANNOT_LOAD = (
    "Job aborted due to stage failure: Lost task 0.0: org.apache.spark.SparkException: "
    "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030"
)
NO_METADATA = "[STDS_FAILED_TO_READ_OPERATOR_METADATA] Failed to read the operator metadata. SQLSTATE: 42K03"


NO_ID = "[STREAMING_CHECKPOINT_MISSING_METADATA_FILE] Checkpoint location x is inconsistent. SQLSTATE: 42K03"
EMPTY_ID = "com.fasterxml.jackson.databind.exc.MismatchedInputException: No content to map due to end-of-input\n at [x]"
EMPTY_COMMIT = "Failed to read log file file:/x/commits/1. Incomplete log file in the offset commit log"


@pytest.mark.parametrize("told", [MISSING, IN_A_BATCH.format(CANNOT_LOAD), NO_METADATA, NO_ID, EMPTY_ID, EMPTY_COMMIT])
def test_what_is_gone_from_a_checkpoint_is_reported_with_the_way_out(told: str) -> None:
    run_all: Any = run_queries
    with pytest.raises(SystemProblem) as raised:
        run_all([lambda: Query(StreamingQueryException(told))], begun, STOPPABLE, Monitor(), PATIENCE)
    wrong, expected = "Spark cannot read its checkpoint", "as the last run left them"
    assert_explains(raised.value, wrong, None, expected, "fluvial reset --all")


def failed(told: str) -> SystemProblem:
    """The error of a run of which Spark says this."""
    run_all: Any = run_queries
    with pytest.raises(SystemProblem) as raised:
        run_all([lambda: Query(StreamingQueryException(told))], begun, STOPPABLE, Monitor(), PATIENCE)
    return raised.value


UNREAD = f"{IN_A_BATCH.format(CANNOT_LOAD)}\n\tat org.X(X.scala:1)\nCaused by: {{}}\n\tat org.Y(Y.java:2)"
SAFE_MODE = "org.apache.hadoop.ipc.RemoteException(org.apache.hadoop.hdfs.server.namenode.SafeModeException): No file."


@pytest.mark.parametrize(
    ("told", "remedy"),
    [
        (UNREAD.format(SAFE_MODE), "has left safe mode"),
        ("Cannot complete file /x/commits/0. Name node is in safe mode.\nIt was turned on manually.", "safe mode"),
        ("Permission denied: user=ada, access=WRITE, inode=/x", "let the user"),
        ("The DiskSpace quota of /x is exceeded: quota = 1 B", "raise the quota"),
    ],
)
def test_a_file_system_that_refuses_to_write_is_no_lost_checkpoint(told: str, remedy: str) -> None:
    error = failed(told)
    assert_explains(error, "a file system refuses what Spark asks", None, "take what is written", remedy)
    assert "reset" not in str(error)


def test_a_file_system_that_refuses_a_read_of_an_input_is_not_taken_for_that_of_the_checkpoint() -> None:
    said = "java.nio.file.AccessDeniedException: s3a://landing/clicks: getFileStatus: 403 Forbidden"
    error = failed(f"[STREAM_FAILED] Query [id = 1] terminated with exception: {said}")
    assert_explains(error, said, None, "inputs that may be read", "read and write there; for state")
    assert "checkpoint" not in str(error)


def test_state_that_cannot_be_read_is_reported_with_its_reason_and_a_try_before_a_reset() -> None:
    error = failed(UNREAD.format("java.net.ConnectException: Connection refused"))
    assert_explains(error, "state.  SQLSTATE: 58030: java.net.ConnectException", None, "the files", "start again, if")


def test_a_second_run_of_a_pipeline_is_reported() -> None:
    run_all: Any = run_queries
    told = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 3."
    with pytest.raises(SystemProblem) as raised:
        run_all([lambda: Query(StreamingQueryException(told))], begun, STOPPABLE, Monitor(), PATIENCE)
    assert_explains(raised.value, "another run of the pipeline", None, "one run of a pipeline at a time", "stop one")


def test_a_python_that_cannot_be_started_is_reported_with_its_setting() -> None:
    run_all: Any = run_queries
    told = 'java.io.IOException: Cannot run program "/opt/none/python": error=2, No such file or directory'
    with pytest.raises(SystemProblem) as raised:
        run_all([lambda: Query(StreamingQueryException(told))], begun, STOPPABLE, Monitor(), PATIENCE)
    wrong = 'Spark cannot start Python: Cannot run program "/opt/none/python": error=2, No such file or directory'
    assert_explains(raised.value, wrong, None, "a Python that every worker can start", "PYSPARK_PYTHON")


def test_the_error_that_was_raised_last_comes_back() -> None:
    first = "fluvial.dsl.errors.SystemProblem: no disk\n\nThe above exception was the direct cause of the following "
    text = f"{first}exception:\n\n{traceback_of(MessageError('map failed'))}"
    run_all: Any = run_queries
    with pytest.raises(MessageError, match=r"\Amap failed\Z"):
        run_all([lambda: Query(StreamingQueryException(text))], begun, STOPPABLE, Monitor(), PATIENCE)


def test_a_full_disk_is_reported_in_a_line() -> None:
    """Wherever in what Spark says of it."""
    said = (
        "An exception was raised by the Python Proxy: x\n\tat org.X\nCaused by: java.io.IOException: No space left on "
    )
    run_all: Any = run_queries
    with pytest.raises(SystemProblem) as raised:
        run_all(
            [lambda: Query(StreamingQueryException(f"{said}device\n\tat x"))],
            begun,
            STOPPABLE,
            Monitor(),
            PATIENCE,
        )
    assert str(raised.value).splitlines()[0] == (
        "the machine has run out of something that Spark needs: Caused by: java.io.IOException: No space left on device"
    )


def test_a_full_disk_below_a_task_is_reported_in_words_of_spark_alone() -> None:
    """Java writes a colon before the error of a call."""
    first = str(failed(IN_A_BATCH.format("java.io.IOException: No space left on device"))).splitlines()[0]
    assert "Spark needs: org.apache.spark.SparkException: Job aborted" in first


def test_a_time_that_the_connector_to_kafka_cannot_read_is_reported_with_its_message() -> None:
    said = (
        "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic clicks partition 3 offset 7 has "
        "timestamp value 4611686018427387904 that overflows when converting to Spark's microsecond-precision "
        "TimestampType.\nKafka record timestamps must be in milliseconds"
    )
    run_all: Any = run_queries
    with pytest.raises(SystemProblem) as raised:
        run_all([lambda: Query(StreamingQueryException(said))], begun, STOPPABLE, Monitor(), PATIENCE)
    at = "clicks [3] offset 7: its timestamp is 4611686018427387904"
    assert_explains(raised.value, at, None, "ms since epoch", "message.timestamp.after.max.ms")


def copying() -> Plan:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    return plan(pipeline, partitions={"in": 1})


NO_SPARK = "spark://localhost:1"
"""Whoever needs Spark before an error is raised has an error of another kind."""


class FullDisk(LogSystem):
    """A log on a disk without room for the file of a claim."""

    def claim(self, pipeline: str, container: str = "0") -> NoReturn:
        raise OSError(ENOSPC, f"No space left on device: {container} of {pipeline}")


def test_a_disk_that_is_full_before_a_query_starts(tmp_path: Path) -> None:
    with pytest.raises(SystemProblem, match="the machine has run out of"):
        engine.run(copying(), FullDisk(tmp_path), Settings(), "end", None, spark=NO_SPARK)


def test_a_checkpoint_folder_that_cannot_be_read_is_reported_as_such(tmp_path: Path) -> None:
    """Root may read what is another user's: here a folder stands where a file should."""
    (tmp_path / "state" / "p" / "in" / "1" / FILE).mkdir(parents=True)
    made, settings = copying(), Settings(state_dir=str(tmp_path / "state"))
    for call in (
        lambda: engine.run(made, LogSystem(tmp_path), settings, "end", None, spark=NO_SPARK),
        lambda: engine.refuse_impossible(made, LogSystem(tmp_path), settings),
    ):
        with pytest.raises(SystemProblem, match=r"cannot be used: Is a directory: .*state/p/in[\s\S]*state_dir"):
            call()


PATIENCE = timedelta(seconds=40)
SLOW = "[STREAM_FAILED] Query [id = 1] terminated with exception: Python worker failed to connect back. SQLSTATE: XXKST"


@pytest.mark.parametrize("failures", range(4))
def test_a_query_whose_python_came_up_too_slowly_is_begun_again(
    failures: int, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[Query] = []

    def slowly_at_first() -> Query:
        made.append(Query(StreamingQueryException(SLOW) if len(made) < failures else None))
        return made[-1]

    run_all: Any = run_queries
    run_all([lambda: Query(None), slowly_at_first], begun, STOPPABLE, Monitor(), PATIENCE)
    assert len(made) == failures + 1
    assert len(caplog.records) == failures
    assert not any(query.isActive for query in made)


def test_what_never_comes_up_in_time_ends_the_run() -> None:
    made: list[Query] = []

    def too_slowly() -> Query:
        made.append(Query(StreamingQueryException(SLOW)))
        return made[-1]

    run_all: Any = run_queries
    with pytest.raises(SystemProblem, match=r"begun 4 times[\s\S]*spark_patience"):
        run_all([lambda: Query(None), too_slowly], begun, STOPPABLE, Monitor(), PATIENCE)
    assert len(made) == 4


@pytest.mark.parametrize(("seconds", "starts"), [(0, 1), (10, 1), (11, 2), (50, 5)])
def test_patience_is_a_setting(seconds: int, starts: int) -> None:
    made: list[Query] = []

    def too_slowly() -> Query:
        made.append(Query(StreamingQueryException(SLOW)))
        return made[-1]

    run_all: Any = run_queries
    with pytest.raises(SystemProblem, match="was begun once" if starts == 1 else f"was begun {starts} times"):
        run_all([too_slowly], begun, STOPPABLE, Monitor(), timedelta(seconds=seconds))
    assert len(made) == starts
