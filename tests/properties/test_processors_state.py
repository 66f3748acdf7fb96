"""The states of a processor against a value, a list and a dictionary by key: failures, commits, restarts, room."""

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engines.eviction import mark_committed
from fluvial.dsl import ListState, MapState, ValueState
from fluvial.runtime.kernel.operators import processor_state as kept
from fluvial.runtime.kernel.operators.processor_state import bound_state
from fluvial.runtime.kernel.operators.state_entries import KeyScope, StateNamespace
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.state import MemoryStore
from generators.how_many import examples

KEYS = st.sampled_from([b"", b"a", b"\0\0\0\1a", b"b"])
NAMES = st.sampled_from([b"", b"a", b"aa", b"\0"]) | st.binary(max_size=1)
NUMBERS = st.lists(st.integers(0, 9), max_size=5)


def declared(state: Any, name: str) -> Any:
    state.__set_name__(object, name)
    return state


class StateMachine(RuleBasedStateMachine):
    """Pieces hold few items, so that there are many of them."""

    def __init__(self) -> None:
        super().__init__()
        self._most, kept.MOST = kept.MOST, 2
        self.store = MemoryStore()
        self.models: dict[bytes, tuple[list[int], list[list[int]], dict[bytes, list[int]]]] = {}
        self.committed: Any = {}
        self.load(empty=True)

    def teardown(self) -> None:
        kept.MOST = self._most

    def load(self, empty: bool = False) -> None:
        self.scope = KeyScope()
        namespace = StateNamespace("op", self.store, empty, lambda _: None, START, self.scope)
        self.value: Any = bound_state(declared(ValueState(list[int], []), "value"), namespace)
        self.list: Any = bound_state(declared(ListState(list[int]), "list"), namespace)
        self.map: Any = bound_state(declared(MapState(bytes, list[int]), "map"), namespace)
        self.states = [self.value, self.list, self.map]

    def call(self, key: bytes, act: Any, *, fails: bool = False) -> None:
        """Do something to the states of a key, and to their models, unless it fails."""
        model = copy.deepcopy(self.models.get(key, ([], [], {})))
        self.scope.key = key
        model = act(*model) or model
        if not fails:
            for state in self.scope.touched:
                state.flush()
            self.models[key] = model
        for state in self.scope.touched:
            state.close()
        self.scope.touched.clear()
        self.scope.key = None

    @rule(key=KEYS, numbers=NUMBERS, fails=st.booleans())
    def set_value(self, key: bytes, numbers: list[int], fails: bool) -> None:
        def act(_: Any, items: Any, names: Any) -> Any:
            self.value.value = numbers
            return list(numbers), items, names

        self.call(key, act, fails=fails)

    @rule(key=KEYS, numbers=NUMBERS, fails=st.booleans(), first=st.sampled_from(["", "clear", "keep"]))
    def extend(self, key: bytes, numbers: list[int], fails: bool, first: str) -> None:
        def act(value: Any, items: Any, names: Any) -> Any:
            if first == "clear":
                self.list.clear()
                items = []
            elif first == "keep":
                self.list.assign(item for item in self.list if sum(item) % 2)
                items = [item for item in items if sum(item) % 2]
            self.list.extend([number] for number in numbers)
            return value, [*items, *([number] for number in numbers)], names

        self.call(key, act, fails=fails)

    @rule(key=KEYS, names=st.dictionaries(NAMES, NUMBERS, max_size=4), gone=st.sets(NAMES), fails=st.booleans())
    def put(self, key: bytes, names: dict[bytes, list[int]], gone: set[bytes], fails: bool) -> None:
        def act(value: Any, items: Any, before: Any) -> Any:
            for name in gone:
                assert self.map.pop(name, None) == before.pop(name, None)
            self.map.update(names)
            return value, items, {**before, **names}

        self.call(key, act, fails=fails)

    @rule(key=KEYS, name=NAMES)
    def clear_and_put(self, key: bytes, name: bytes) -> None:
        def act(value: Any, items: Any, _: Any) -> Any:
            self.map.clear()
            self.map[name] = [1]
            return value, items, {name: [1]}

        self.call(key, act)

    @rule(key=KEYS, name=NAMES, numbers=NUMBERS)
    def take_back(self, key: bytes, name: bytes, numbers: list[int]) -> None:
        before = copy.deepcopy(self.models)
        undo_log: list[Any] = []
        self.scope.undo_log = undo_log
        self.set_value(key, numbers, fails=False)
        self.extend(key, numbers, fails=False, first="keep")
        self.put(key, {name: numbers}, {b"a"}, fails=False)
        self.scope.undo_log = None
        for restore in reversed(undo_log):
            restore()
        self.models = before

    @rule(room=st.integers(0, 6))
    def commit(self, room: int) -> None:
        found = [entries for state in self.states for entries in state.entries]
        self.store.write([change for entries in found for change in entries.changes()])
        for entries in found:
            mark_committed(entries, room)
        self.committed = copy.deepcopy(self.models)

    @rule()
    def restart(self) -> None:
        self.models = copy.deepcopy(self.committed)
        self.load()

    @invariant()
    def hold_what_the_models_hold(self) -> None:
        for key in (b"", b"a", b"\0\0\0\1a", b"b"):
            self.call(key, self._same)

    def _same(self, value: Any, items: Any, names: Any) -> None:
        assert self.value.value == value
        assert (list(self.list), len(self.list)) == (items, len(items))
        assert list(self.map.items()) == sorted(names.items())
        assert len(self.map) == len(names)


TestStates = StateMachine.TestCase
TestStates.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
