"""Key buckets on Spark: their labels, and into which tasks Spark puts them."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="labels are hashed as Spark does it")

from fluvial.runtime.spark.key_buckets import MOST, ON_FEW_CORES, ON_MANY_CORES, KeyBuckets, default_count, partition_of


def test_numbers_are_hashed_as_spark_does() -> None:
    # As measured: SELECT pmod(hash(b), 8) for b = 0 to 7.
    assert [partition_of(number, 8) for number in range(8)] == [7, 3, 6, 3, 6, 2, 1, 3]


@pytest.mark.parametrize("count", [1, 2, 8, 12, 97, ON_MANY_CORES, MOST])
def test_each_bucket_comes_to_the_partition_of_its_number(count: int) -> None:
    buckets = KeyBuckets(count)
    assert [partition_of(label, count) for label in buckets.labels] == list(range(count))
    assert all(buckets.of_label[label] == bucket for bucket, label in enumerate(buckets.labels))


@given(st.integers(1, 600), st.data())
def test_each_partition_of_a_divisor_has_as_many_buckets(count: int, data: st.DataObject) -> None:
    partitions = data.draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0]))
    found = Counter(partition_of(label, partitions) for label in KeyBuckets(count).labels)
    assert found == dict.fromkeys(range(partitions), count // partitions)


@given(st.integers(1, 600), st.integers(1, 2000))
def test_all_cores_have_work_if_there_are_as_many_buckets(count: int, cores: int) -> None:
    partitions = KeyBuckets(count).partitions(cores)
    assert count % partitions == 0
    assert partitions >= min(cores, count)
    assert not any(count % fewer == 0 for fewer in range(min(cores, count), partitions))


def test_earlier_checkpoints_have_the_numbers_of_buckets_as_labels() -> None:
    assert KeyBuckets(8, balanced=False).labels == tuple(range(8))


@pytest.mark.spark
def test_spark_gives_each_task_as_many_buckets(spark: object) -> None:
    from pyspark.sql import SparkSession  # noqa: PLC0415
    from pyspark.sql import functions as sql  # noqa: PLC0415

    assert isinstance(spark, SparkSession)
    for partitions in (8, 64):
        labels = spark.createDataFrame([(label,) for label in KeyBuckets(512).labels], "bucket int")
        placed = labels.repartition(partitions, "bucket").withColumn("task", sql.spark_partition_id())
        sizes = placed.groupBy("task").count().collect()
        assert {row["count"] for row in sizes} == {512 // partitions}
        assert len(sizes) == partitions


@pytest.mark.parametrize(("cores", "buckets"), [(1, ON_FEW_CORES), (8, ON_FEW_CORES), (9, ON_MANY_CORES), (800, 512)])
def test_a_cluster_gets_more_buckets_than_a_small_machine(cores: int, buckets: int) -> None:
    assert default_count(cores) == buckets
