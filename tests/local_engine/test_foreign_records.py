"""What other programs have written into the streams that a pipeline keeps for itself: an error that says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.local.checkpoints import checkpoint
from fluvial.runtime.local.coordination.assignments import read_record

KEYS = (b"assignment", b"container-", b"inquiry", b"ready-", b"gone-", b"sizing", b"drain")
FOREIGN = st.binary(max_size=30).filter(lambda data: not data.lstrip().startswith(b"{"))


@given(FOREIGN)
def test_what_is_no_checkpoint_is_refused_with_what_to_do(data: bytes) -> None:
    with pytest.raises(SystemProblem, match=r"(?s)checkpoint of task in/0 cannot be read.*fluvial reset --all"):
        checkpoint.decode(data, "in/0")


@given(st.sampled_from([b"container-0", *KEYS]), FOREIGN)
def test_what_no_container_wrote_is_refused_with_what_to_do(key: bytes, data: bytes) -> None:
    with pytest.raises(SystemProblem, match=r"(?s)cannot be read.*coordinator stream.*fluvial reset --all"):
        read_record(key, data)


@given(st.none() | st.binary(max_size=8).filter(lambda key: not key.startswith(KEYS)), st.none() | FOREIGN)
def test_other_keys_say_nothing_to_containers(key: bytes | None, data: bytes | None) -> None:
    assert read_record(key, data) is None
