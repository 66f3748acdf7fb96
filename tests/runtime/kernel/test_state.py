"""Values in memory over bytes below."""

from fluvial.runtime.kernel.state import KeyedState
from fluvial.runtime.state import MemoryStore


def test_a_deletion_that_is_taken_back_leaves_the_value_below() -> None:
    store = MemoryStore()
    store.write([(b"w\0k", b"key", b"\x07")])
    state = KeyedState("w", store, int, int, complete=False)
    take_back = state.layer.undo(b"key")
    state.delete(b"key")
    take_back()
    assert state.layer.fresh[b"key"] == 7
    assert list(state.changes()) == []
