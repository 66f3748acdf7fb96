"""A server of Spark Connect that does not answer, by a client that tries its calls as PySpark's does."""

import importlib
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem
from fluvial.runtime.data_frames.bindings import DataFrameInput, DataFrames
from fluvial.runtime.data_frames.connect_server import PATIENCE_SECONDS, bounded_calls

WAIT_MS = 25_000
TEST_SECONDS = 30.0


class Unavailable(Exception):
    """What a call raises that no server answers."""

    def details(self) -> str:
        return "Connection refused\nmore"


class Policy:
    """A policy that tries a call again for ever, or so many times."""

    def __init__(self, most: float = float("inf")) -> None:
        self.name, self.most = "theirs", most

    def to_state(self) -> Any:
        return SimpleNamespace(can_retry=lambda _: True, next_attempt=self.next_attempt)

    def next_attempt(self, _: BaseException) -> int | None:
        self.most -= 1
        return WAIT_MS if self.most >= 0 else None


class Client:
    """A client whose calls are not answered. Waiting takes no time."""

    def __init__(self, policy: Policy, **more: Any) -> None:
        self.host, self.now, self._policies = "spark.example", 0.0, [policy]
        self.closed = Event()
        self.__dict__.update(more)

    def get_retry_policies(self) -> list[Any]:
        return self._policies

    def set_retry_policies(self, policies: list[Any]) -> None:
        self._policies = policies

    def clock(self) -> float:
        return self.now

    def close(self) -> None:
        self.closed.set()

    def wait_for_ever(self, _: str = "") -> None:
        """A call that a server has taken which stands still."""
        assert self.closed.wait(TEST_SECONDS)
        raise Unavailable

    def call(self) -> None:
        state = self._policies[0].to_state()
        assert state.can_retry(Unavailable())
        while (wait := state.next_attempt(Unavailable())) is not None:
            self.now += wait / 1000
        raise Unavailable


def fail_after(event: Event) -> None:
    assert event.wait(TEST_SECONDS)
    raise Unavailable


def frames_of(client: Client, module: str = "pyspark.sql.connect.dataframe") -> DataFrames:
    session = SimpleNamespace(client=client, conf=SimpleNamespace(get=client.wait_for_ever))
    kind = type("DataFrame", (), {"__module__": module, "sparkSession": session})
    return DataFrames({"clicks": DataFrameInput(kind())}, {}, None)


def test_a_call_that_is_not_answered_ends_with_an_error_that_names_the_server_and_later_ones_at_once() -> None:
    client = Client(Policy(), _builder=SimpleNamespace(endpoint="spark.example:15002"))
    with bounded_calls(frames_of(client), client.clock):
        assert client.get_retry_policies()[0].name == "theirs"
        error = error_of(client.call, SystemProblem)
        assert client.now == pytest.approx(PATIENCE_SECONDS, abs=0.01)
        error_of(client.call, SystemProblem)
        assert client.now == pytest.approx(PATIENCE_SECONDS, abs=0.01)
    wrong = "the server of Spark Connect has not answered for 60 s: Connection refused"
    assert_explains(error, wrong, None, "a server that lives as long as the run", "start the server")
    assert "\n  at spark.example:15002\n" in str(error)
    error_of(client.call, SystemProblem)  # as this process ends
    assert client.now == pytest.approx(PATIENCE_SECONDS, abs=0.01)
    with bounded_calls(frames_of(client), client.clock):  # another run has its own patience
        error_of(client.call, SystemProblem)
    assert client.now == pytest.approx(2 * PATIENCE_SECONDS, abs=0.02)


def test_a_policy_that_gives_up_earlier_is_left_to_and_a_server_has_the_name_that_is_known() -> None:
    client = Client(Policy(most=2))
    with bounded_calls(frames_of(client), client.clock), pytest.raises(Unavailable):
        client.call()
    assert client.now == 2 * WAIT_MS / 1000
    client = Client(Policy())
    with bounded_calls(frames_of(client), client.clock):
        assert "at spark.example\n" in str(error_of(client.call, SystemProblem))


def test_runs_on_a_session_at_the_same_time_leave_its_own_policies() -> None:
    client = Client(policy := Policy())
    first, second = (bounded_calls(frames_of(client), client.clock) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert client.get_retry_policies() == [policy]


def test_a_call_that_waits_for_a_server_which_stands_still_ends_with_an_error_that_names_the_server() -> None:
    client = Client(Policy())
    with pytest.raises(SystemProblem) as caught, bounded_calls(frames_of(client), patience=0.05, pause=0.01):
        client.wait_for_ever()
    wrong = "the server of Spark Connect has not answered for 0.05 s: it takes calls, and stands still"
    assert_explains(caught.value, wrong, None, "a server that lives as long as the run", "start the server")


def test_a_server_that_answers_is_not_closed_and_the_errors_of_a_run_stay_theirs() -> None:
    client, answered = Client(Policy()), Event()
    frames = frames_of(client)
    frames.inputs["clicks"].frame.sparkSession.conf.get = lambda _: answered.set()
    with pytest.raises(Unavailable), bounded_calls(frames, patience=TEST_SECONDS, pause=0.01):
        fail_after(answered)
    assert not client.closed.is_set()


def test_a_server_whose_calls_are_refused_does_not_stand_still() -> None:
    client, refused = Client(Policy()), Event()
    frames = frames_of(client)

    def ask(name: str) -> None:
        state = client.get_retry_policies()[0].to_state()
        if state.next_attempt(Unavailable()) is not None:
            again.append(name)
            if len(again) > 2:
                refused.set()
            client.wait_for_ever()

    again: list[str] = []
    frames.inputs["clicks"].frame.sparkSession.conf.get = ask
    with pytest.raises(Unavailable), bounded_calls(frames, patience=0.02, pause=0.01):
        fail_after(refused)
    assert not client.closed.is_set()
    client.close()


def test_a_spark_of_this_process_is_left_alone() -> None:
    client = Client(policy := Policy())
    with bounded_calls(frames_of(client, "pyspark.sql.classic.dataframe")), bounded_calls(DataFrames()):
        assert client.get_retry_policies() == [policy]


def test_the_client_of_this_pyspark_obeys() -> None:
    pytest.importorskip("pyspark", reason="the client is PySpark's")
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    retries: Any = importlib.import_module("pyspark.sql.connect.client.retries")
    client = Client(retries.DefaultPolicy(), _builder=SimpleNamespace(endpoint="there:1"))
    facts = {"code": lambda _: retries.grpc.StatusCode.UNAVAILABLE, "trailing_metadata": lambda _: None}
    refused = type("Refused", (Unavailable, retries.grpc.RpcError), facts)

    def wait(seconds: float) -> None:
        client.now += seconds

    def call() -> None:
        for attempt in retries.Retrying(client.get_retry_policies(), wait):
            with attempt:
                raise refused

    with bounded_calls(frames_of(client), client.clock):
        error_of(call, SystemProblem)
    assert client.now == pytest.approx(PATIENCE_SECONDS, abs=0.1)
