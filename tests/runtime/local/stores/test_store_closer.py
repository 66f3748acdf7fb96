"""Stores of tasks that have left are closed beside those that go on."""

from threading import Event, Thread

from fluvial.runtime.local.stores.store_closer import StoreCloser
from waiting import wait_until


def block(written: Event) -> None:
    written.wait()


def test_whoever_opens_a_store_again_waits_until_it_is_closed() -> None:
    closer, written, opened = StoreCloser(), Event(), list[str]()
    closer.close("counts/0", lambda: block(written))
    closer.wait("counts/1")

    def open_again() -> None:
        closer.wait("counts/0")
        opened.append("counts/0")

    opening = Thread(target=open_again)
    opening.start()
    opening.join(0.05)
    assert not opened
    written.set()
    wait_until(lambda: opened, "the store is opened again", 5)
    opening.join()


def test_a_store_that_is_closed_twice_is_closed_one_after_the_other() -> None:
    closer, closed = StoreCloser(), list[int]()
    closer.close("counts/0", lambda: closed.append(1))
    closer.close("counts/0", lambda: closed.append(2))
    closer.wait_for_all()
    assert closed == [1, 2]


def test_stores_that_are_kept_are_not_waited_for() -> None:
    closer, written, closed = StoreCloser(), Event(), list[str]()
    closer.close("counts/0", lambda: block(written))
    closer.close("counts/1", lambda: closed.append("counts/1"))
    closer.wait_for_all(but=["counts/0"])
    assert closed == ["counts/1"]
    written.set()
