"""The benchmark of serdes measures what it says."""

from benchmarks.serdes import RECORDS, measure


def test_each_kind_of_record_has_its_cost() -> None:
    costs = measure(turns=1, calls=1)
    assert [cost.record for cost in costs] == list(RECORDS)
    assert all(cost.avro > 0 and cost.json > 0 for cost in costs)
