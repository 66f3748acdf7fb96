"""A store in a RocksDB folder: what is read and written, what a restart finds, and who may open it."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fluvial.dsl import SystemProblem
from fluvial.runtime.kernel.state_backend import PREFIX_SIZE
from fluvial.runtime.state import RocksStore, StoreLocked
from fluvial.runtime.state.read_only import StoreView


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "task"


@pytest.fixture
def store(folder: Path) -> Iterator[RocksStore]:
    """A store with two entries under `a` and one under `b`."""
    with closing(RocksStore(folder)) as store:
        store.write([(b"a", b"2", b"two"), (b"a", b"1", b"one"), (b"b", b"1", b"other")])
        yield store


def test_an_entry_is_found_under_its_prefix_alone(store: RocksStore) -> None:
    assert (store.get(b"a", b"1"), store.get(b"b", b"1")) == (b"one", b"other")
    assert store.get(b"b", b"2") is None


def test_the_entries_under_a_prefix_come_in_the_order_of_their_keys(store: RocksStore) -> None:
    assert list(store.scan(b"a")) == [(b"1", b"one"), (b"2", b"two")]
    assert list(store.scan(b"none")) == []


def test_whether_a_prefix_has_entries_is_known(store: RocksStore) -> None:
    assert [store.holds(prefix) for prefix in (b"a", b"b", b"0", b"aa", b"c")] == [True, True, False, False, False]


def test_the_last_change_of_a_key_counts(store: RocksStore) -> None:
    store.write([(b"a", b"1", b"new"), (b"a", b"1", None), (b"a", b"2", None), (b"a", b"2", b"new")])
    assert list(store.scan(b"a")) == [(b"2", b"new")]


def test_a_prefix_is_forgotten_with_what_was_written_before_and_not_with_what_comes_after(store: RocksStore) -> None:
    store.write([(b"a", b"3", b"three"), (b"a", None, None), (b"a", b"4", b"four")])
    assert list(store.scan(b"a")) == [(b"4", b"four")]
    assert store.get(b"b", b"1") == b"other"


def test_each_prefix_with_entries_is_found_once(store: RocksStore) -> None:
    first, second = (b"w" + bytes([number]) * PREFIX_SIZE for number in (1, 2))
    store.write([(prefix, key, b"") for prefix in (second, first) for key in (b"1", b"2")])
    assert list(store.prefixes(b"w")) == [first, second]


def test_what_is_written_outlives_a_restart(folder: Path) -> None:
    with closing(RocksStore(folder)) as store:
        store.write([(b"a", b"1", b"one")])
        store.sync()
    with closing(RocksStore(folder)) as store:
        assert store.get(b"a", b"1") == b"one"


def test_what_is_written_outlives_a_crash_without_a_close(store: RocksStore, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "crashed")
    with closing(RocksStore(tmp_path / "crashed")) as found:
        assert list(found.scan(b"a")) == list(store.scan(b"a"))


def test_a_cleared_store_is_empty_and_still_open(store: RocksStore, folder: Path) -> None:
    store.clear()
    assert store.get(b"a", b"1") is None
    with pytest.raises(StoreLocked):
        RocksStore(folder)
    store.clear()
    store.write([(b"a", b"1", b"new")])
    assert store.get(b"a", b"1") == b"new"


def test_a_folder_is_open_once_until_it_is_closed(store: RocksStore, folder: Path) -> None:
    with pytest.raises(StoreLocked, match="no other process has open"):
        RocksStore(folder, spare=True)
    assert store.get(b"a", b"1") == b"one"
    store.close()
    with closing(RocksStore(folder)) as found:
        assert found.get(b"a", b"1") == b"one"


def test_a_removed_store_leaves_nothing(folder: Path) -> None:
    store = RocksStore(folder)
    store.write([(b"a", b"1", b"one")])
    store.remove()
    assert list(folder.parent.iterdir()) == []


@pytest.mark.parametrize("spare", [True, False])
def test_a_damaged_folder_is_given_up_only_where_there_is_a_copy(folder: Path, spare: bool) -> None:
    with closing(RocksStore(folder)) as store:
        store.write([(b"a", b"1", b"one")])
    (folder / "CURRENT").write_text("nothing that RocksDB writes")
    if not spare:
        with pytest.raises(SystemProblem, match=f"the store in {folder} cannot be opened"):
            RocksStore(folder)
        return
    with closing(RocksStore(folder, spare=True)) as store:
        assert store.get(b"a", b"1") is None


def test_a_second_close_raises_nothing_and_hides_no_earlier_error(folder: Path) -> None:
    store = RocksStore(folder)
    store.close()

    def work() -> None:
        with closing(store):
            store.write([(b"a", b"1", b"one")])

    with pytest.raises(SystemProblem, match="cannot be written to"):
        work()


def test_a_prefix_with_very_many_entries_is_forgotten_too(store: RocksStore) -> None:
    store.write([(b"a", b"%d" % number, b"") for number in range(20_000)])
    store.write([(b"a", None, None), (b"a", b"4", b"four")])
    assert list(store.scan(b"a")) == [(b"4", b"four")]
    assert store.get(b"b", b"1") == b"other"


@pytest.mark.parametrize("spare", [True, False])
def test_a_folder_in_which_damage_was_found_is_given_up_where_there_is_a_copy(folder: Path, spare: bool) -> None:
    with closing(RocksStore(folder)) as store:
        store.write([(b"a", b"1", b"one")])
    folder.with_name(f"{folder.name}.damaged").write_text("Corruption: block checksum mismatch")
    with closing(RocksStore(folder, spare=spare)) as store:
        assert store.get(b"a", b"1") == (None if spare else b"one")


def test_a_view_sees_the_entries_under_a_prefix_alone(store: RocksStore, folder: Path) -> None:
    store.sync()
    with StoreView(folder) as view:
        assert list(view.scan(b"a")) == [(b"1", b"one"), (b"2", b"two")]
        assert (view.get(b"b", b"1"), view.get(b"b", b"2")) == (b"other", None)
