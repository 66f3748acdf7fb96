"""States of a processor while it handles one key: what it reads, what is written behind it, and what is forgotten."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fluvial.dsl import ListState, MapState, UsageError, ValueState
from fluvial.runtime.kernel.operators.processor_state import HEAVY, MOST, BoundList, BoundMap, BoundValue
from fluvial.runtime.kernel.operators.state_entries import KeyScope, StateNamespace, value_codec
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.state import MemoryStore


class Calls:
    """Calls of a processor with one state, on a backend that is written after each."""

    def __init__(self, make: Callable[..., Any], state: Any) -> None:
        object.__setattr__(state, "name", "s")
        self.backend = MemoryStore()
        self._scope = KeyScope()
        namespace = StateNamespace("p", self.backend, False, lambda _: None, START, self._scope)
        self.state = make(state, value_codec(state.type, "p", "s"), namespace)

    @contextmanager
    def on(self, key: bytes, *, fails: bool = False) -> Iterator[Any]:
        self._scope.key = key
        yield self.state
        if not fails:
            self.state.flush()
        self.state.close()
        self._scope.key = None
        for entries in self.state.entries:
            self.backend.write(entries.changes())
            entries.mark_committed()

    def sizes(self) -> list[int]:
        """How many entries there are of each kind."""
        return [len(list(self.backend.scan(b"p\0" + mark))) for mark in (b"s", b"n", b"p")]


def of_value(default: int | None = None) -> Calls:
    return Calls(BoundValue, ValueState(int) if default is None else ValueState(int, default))


def of_list() -> Calls:
    return Calls(BoundList, ListState(int))


def of_map() -> Calls:
    return Calls(BoundMap, MapState(str, int))


def test_a_value_is_that_of_the_key_or_the_default() -> None:
    calls = of_value(7)
    with calls.on(b"a") as state:
        state.value = 1
    with calls.on(b"a") as state:
        assert state.value == 1
    with calls.on(b"b") as state:
        assert state.value == 7


def test_a_value_that_is_set_to_none_is_deleted() -> None:
    calls = of_value()
    with calls.on(b"a") as state:
        state.value = 1
    with calls.on(b"a") as state:
        state.value = None
        assert state.value is None
    assert calls.sizes() == [0, 0, 0]


@pytest.mark.parametrize("make", [of_value, of_list, of_map])
def test_a_call_that_fails_changes_nothing(make: Callable[[], Calls]) -> None:
    calls = make()
    with calls.on(b"a", fails=True) as state:
        if make is of_value:
            state.value = 1
        elif make is of_list:
            state.append(1)
        else:
            state["x"] = 1
    assert calls.sizes() == [0, 0, 0]


def test_a_state_is_used_within_a_call_alone() -> None:
    with pytest.raises(UsageError, match="state 's' is used outside"):
        _ = of_value().state.value


def test_a_list_is_stored_in_pieces_and_appending_rewrites_the_last_one() -> None:
    calls = of_list()
    with calls.on(b"a") as state:
        state.extend(range(MOST + 1))
    with calls.on(b"a") as state:
        state.append(-1)
        assert len(state) == MOST + 2
    assert calls.sizes() == [1, 0, 2]
    with calls.on(b"a") as state:
        assert list(state) == [*range(MOST + 1), -1]


def test_a_heavy_item_has_a_piece_of_its_own() -> None:
    calls = Calls(BoundList, ListState(str))
    with calls.on(b"a") as state:
        state.extend(["x" * HEAVY, "y" * HEAVY])
    assert calls.sizes() == [1, 0, 2]


def test_a_list_that_is_assigned_or_cleared_leaves_nothing_behind() -> None:
    calls = of_list()
    with calls.on(b"a") as state:
        state.extend(range(3 * MOST))
    with calls.on(b"a") as state:
        state.assign([1, 2])
        assert (len(state), list(state)) == (2, [1, 2])
    assert calls.sizes() == [1, 0, 1]
    with calls.on(b"a") as state:
        state.clear()
    assert calls.sizes() == [0, 0, 0]


def test_items_are_added_all_or_none() -> None:
    calls = of_list()
    with calls.on(b"a") as state:
        with pytest.raises(TypeError, match="holds int, not str"):
            state.extend([1, "2"])
        assert list(state) == []


def test_a_map_has_the_entries_of_its_key_in_order() -> None:
    calls = of_map()
    with calls.on(b"a") as state:
        state.update({"y": 2, "x": 1, "z": 3})
        del state["z"]
    with calls.on(b"a") as state:
        assert (list(state.items()), len(state), "z" in state) == ([("x", 1), ("y", 2)], 2, False)
    with calls.on(b"b") as state:
        assert dict(state) == {}


def test_names_of_a_map_are_indexed_in_more_pieces_as_they_grow_and_none_is_lost() -> None:
    calls = of_map()
    names = [f"{number:04}" for number in range(3 * MOST)]
    with calls.on(b"a") as state:
        state.update(dict.fromkeys(names, 1))
    assert calls.sizes() == [len(names), 1, 4]
    with calls.on(b"a") as state:
        assert list(state) == names
        state.clear()
        state["new"] = 1
    assert calls.sizes()[:2] == [1, 1]
    with calls.on(b"a") as state:
        assert dict(state) == {"new": 1}


def test_an_entry_that_expired_takes_its_name_along() -> None:
    calls = of_map()
    with calls.on(b"a") as state:
        state.update({"x": 1, "y": 2})
    with calls.on(b"") as state:
        state.drop(b"\0\0\0\1ax")
    with calls.on(b"a") as state:
        assert dict(state) == {"y": 2}


@pytest.mark.parametrize(("name", "value"), [(None, 1), ("x", None), ("x", "1")])
def test_what_is_no_entry_of_a_map_is_refused(name: Any, value: Any) -> None:
    with of_map().on(b"a") as state, pytest.raises(TypeError, match="state 's'"):
        state[name] = value


def test_an_entry_that_a_map_does_not_have_is_a_key_error() -> None:
    with of_map().on(b"a") as state:
        with pytest.raises(KeyError, match="x"):
            _ = state["x"]
        with pytest.raises(KeyError, match="x"):
            del state["x"]
