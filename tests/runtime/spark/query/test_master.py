"""Whether a master of a standalone cluster answers, before Spark is started."""

import socket

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem
from fluvial.runtime.spark.query.master import check_reachable, not_taken


def test_a_master_that_listens_is_reached_also_as_one_of_several() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        check_reachable(f"spark://127.0.0.1:{port}")
        check_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "spark://127.0.0.1", "spark://127.0.0.1:99999"])
def test_a_master_that_does_not_answer_is_reported(master: str) -> None:
    error = error_of(lambda: check_reachable(master), SystemProblem)
    wrong = f"no master of Spark's answers at {master} ({master.removeprefix('spark://')}: "
    assert_explains(error, wrong, None, "spark://HOST:7077", "start the master")


STOPPED = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.\nThis stopped one was"


def test_what_listens_and_is_no_master_is_reported_in_a_line() -> None:
    error = not_taken("spark://there:8080", STOPPED)
    wrong = "what listens at spark://there:8080 has not taken this program: no master of Spark's"
    assert error is not None
    assert_explains(error, wrong, None, "of the same version as pyspark", "port 7077 by default")


@pytest.mark.parametrize(("master", "message"), [("yarn", STOPPED), (None, STOPPED), ("spark://there:7077", "no Java")])
def test_other_ends_of_spark_are_reported_as_they_are(master: str | None, message: str) -> None:
    assert not_taken(master, message) is None


@pytest.mark.parametrize("other", [None, "local[2]", "yarn", object()])
def test_what_names_no_standalone_master_is_left_to_spark(other: object) -> None:
    check_reachable(other)
