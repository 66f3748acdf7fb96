"""Records of any sizes: what a stream takes is written, and each other one is an error of its message."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.limited import LimitedMemory
from engines.sending import ProducingSystem
from engines.targets import append, contents
from fluvial.dsl import ErrorPolicy, MessageError, Pipeline, dead_letter, fail, skip
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import run
from fluvial.runtime.kernel.time.border_watermarks import TRAILER_BYTES
from fluvial.runtime.size_limit import record_bytes
from fluvial.runtime.systems import MemorySystem
from generators.how_many import examples

LIMIT, BETWEEN = 300, 350
"""The most bytes of an output, and of a record between the stages before it gets its trailer."""
LARGEST = {"out": LIMIT, "p-by": BETWEEN + TRAILER_BYTES, "p-dead-letters": 8_000}

keys = st.none() | st.integers(1, 20) | st.integers(1, 400)
texts = st.integers(3, 20) | st.integers(200, 400)
Size = tuple[int | None, int]


async def at_once(text: str) -> list[str]:
    return [text]


def pipeline(made: Sequence[Size], on_error: ErrorPolicy, *, calls: bool, border: bool) -> Pipeline:
    """Message n makes a key and a value of the sizes that `made` has for it."""

    def text(number: int) -> str:
        return f"{number:03}".ljust(made[number][1], "v")

    def key(text: str) -> str | None:
        size = made[int(text[:3])][0]
        return None if size is None else "k" * size

    built = Pipeline("p", on_error=on_error)
    messages = built.stream("in", value=int).map(text)
    if calls:
        messages = messages.async_flat_map(at_once, id="call", max_in_flight=3)
    if border:
        messages.partition_by(key, id="by", key_type=str, value=str).send_to("out")  # type: ignore[arg-type]
    else:
        messages.send_to("out", key=key)
    return built


def size_of(made: Size) -> int:
    return (made[0] or 0) + made[1]


@pytest.mark.parametrize("kind", ["memory", "at_least_once", "exactly_once"])
@settings(max_examples=examples(200))
@given(
    made=st.lists(st.tuples(keys, texts), max_size=12),
    on_error=st.sampled_from([fail(), skip(), dead_letter()]),
    calls=st.booleans(),
    border=st.booleans(),
)
def test_what_the_check_lets_through_the_stream_takes(
    kind: str, made: list[Size], on_error: ErrorPolicy, calls: bool, border: bool
) -> None:
    system: MemorySystem = LimitedMemory(LARGEST) if kind == "memory" else ProducingSystem(LARGEST)
    guarantee: Guarantee = "at_least_once" if kind == "at_least_once" else "exactly_once"
    system.admin().create("in", 1)
    append(system, "in", 0, [(None, b"%d" % number, number, ()) for number in range(len(made))])
    built = pipeline(made, on_error, calls=calls, border=border)
    limits = (LIMIT, BETWEEN) if border else (LIMIT,)
    taken = [one for one in made if size_of(one) <= min(limits)]
    if on_error.action == "fail" and len(taken) < len(made):
        with pytest.raises(MessageError, match="its record for the stream"):
            run(built, system=system, until="end", settings=Settings(guarantee=guarantee))
        return
    report = run(built, system=system, until="end", settings=Settings(guarantee=guarantee))
    written = [(key and len(key), len(value or b"")) for key, value, _, _ in contents(system, "out")]
    assert sorted(written, key=str) == sorted(taken, key=str)
    assert sum(report.failed.values()) == len(made) - len(taken)
    if on_error.action == "dead_letter":
        letters = contents(system, "p-dead-letters")
        assert len(letters) == len(made) - len(taken)
        assert all(record_bytes(key, value, headers) <= 8_000 for key, value, _, headers in letters)
