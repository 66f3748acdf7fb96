"""Records that an earlier version has kept can still be read, and adopt once what they do not tell."""

from pathlib import Path

import msgspec
import pytest

from fluvial.planner.state_schema import StateSchema, carried, differences
from generators.kept_pipelines import KINDS, records_of

VERSION_1 = msgspec.json.decode(
    (Path(__file__).parent / "records" / "types_of_version_1.json").read_bytes(),
    type=dict[str, dict[str, StateSchema]],
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_kept_before_is_gone_on_with(kind: str) -> None:
    kept, wanted = VERSION_1[kind], records_of(kind)
    assert kept.keys() == wanted.keys()
    for operator, now in wanted.items():
        assert differences(kept[operator], now) == []
        after = carried(kept, wanted)[operator]
        assert differences(after, now) == []
        assert after.facts == kept[operator].facts | now.facts


def test_what_was_not_reported_counts_from_then_on() -> None:
    kept, wanted = VERSION_1["join"], records_of("join")
    assert "right rows, serde" not in kept["it"].facts
    assert carried(kept, wanted)["it"].facts["right rows, serde"] == "price:cents"
