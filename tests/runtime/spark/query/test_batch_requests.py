"""How the driver asks for batches."""

from contextlib import closing
from pathlib import Path

import pytest

from fluvial.runtime.spark.query.batch_requests import NEVER, BatchRequests, RequestReader


def test_a_request_is_served_once() -> None:
    with closing(BatchRequests(lambda: None)) as requests:
        reader = RequestReader(requests.file, at_once=True)
        assert not reader.is_new()
        requests.request(0)
        assert [reader.is_new(), reader.is_new()] == [True, False]
        requests.request(0)
        assert reader.is_new()


def test_a_later_request_stands_in_place_of_an_earlier_one() -> None:
    with closing(BatchRequests(lambda: None)) as requests:
        requests.request(0)
        requests.request(NEVER)
        assert not RequestReader(requests.file, at_once=False).is_new()


@pytest.mark.parametrize(("at_once", "served"), [(False, [False, True]), (True, [False, False])])
def test_a_request_of_a_time_waits_for_it(at_once: bool, served: list[bool]) -> None:
    times = iter([999, 1000])
    with closing(BatchRequests(lambda: None)) as requests:
        reader = RequestReader(requests.file, at_once=at_once, wall=lambda: next(times))
        requests.request(1000)
        assert [reader.is_new(), reader.is_new()] == served


def test_nothing_is_left_of_requests() -> None:
    requests = BatchRequests(lambda: None)
    requests.request(0)
    requests.close()
    assert not Path(requests.file).parent.exists()
    assert not RequestReader(requests.file, at_once=True).is_new()


def test_each_request_tells_what_is_left_of_the_input() -> None:
    left: list[int | None] = [7, 0]
    with closing(BatchRequests(lambda: left.pop(0))) as requests:
        reader = RequestReader(requests.file, at_once=True)
        found = [reader.left()]
        for since in (NEVER, 0):
            requests.request(since)
            found += [reader.left(), reader.left()]
    assert found == [None, 7, 7, 0, 0]
