"""The page on metrics says what there is."""

import re

import pytest

from fluvial.runtime.metrics.definitions import METRICS
from tests.docs.metrics_table import table
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "guide" / "metrics.md").read_text(encoding="utf-8")


def test_the_table_is_that_of_the_code() -> None:
    """After a wanted change, the table for the page: python tests/docs/metrics_table.py"""
    assert table() in PAGE


@pytest.mark.parametrize("name", sorted({*re.findall(r"\bfluvial_\w+", PAGE)}))
def test_every_metric_that_is_named_is_measured(name: str) -> None:
    parts = ("_bucket", "_sum", "_count")
    known = {measure.shown for measure in METRICS}
    assert name in known | {f"{measure.shown}{part}" for measure in METRICS if measure.bounds for part in parts}
