"""A task commits before it is due where what it has changed would fill the memory."""

from collections.abc import Iterable
from datetime import timedelta

from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, ValueState
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.local.slices import SLICE, StateSlice
from fluvial.runtime.systems import MemorySystem

KEYS, SIZE = 3000, 10_000


class Remember(KeyedProcessor[str, int, int]):
    """Keeps much for each key."""

    seen = ValueState(bytes, b"")

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[int]:  # noqa: ARG002
        self.seen.value = bytes(SIZE)
        return ()


def test_a_task_commits_early_once_it_has_changed_many_bytes() -> None:
    system = MemorySystem()
    system.admin().create("in", 1)
    transaction = system.producer().begin()
    transaction.append("in", 0, [(b"k%d" % key, b"1", 1000, ()) for key in range(KEYS)])
    transaction.commit()
    pipeline = Pipeline("large")
    pipeline.stream("in", value=int, key=str).process(Remember(), id="remember").send_to("out")
    bound = 1 << 20
    report = run(
        pipeline,
        system=system,
        until="end",
        settings=Settings(commit_interval=timedelta(hours=1), cached_bytes=bound),
    )
    # Less than two of the bound between two commits: an eighth more is processed before the size is looked at.
    assert report.checkpoints >= KEYS * SIZE / (2 * bound)
    assert report.read == {"in": KEYS}


def test_a_portion_follows_what_the_state_grows_by() -> None:
    state_slice = StateSlice(8_000_000)
    first = state_slice.messages
    state_slice.took(first, 100_000 * first)
    assert state_slice.messages == 10
    state_slice.took(10, 50_000_000)
    assert state_slice.messages == 1
    for _ in range(20):
        state_slice.took(state_slice.messages, 0)
    assert state_slice.messages == SLICE
