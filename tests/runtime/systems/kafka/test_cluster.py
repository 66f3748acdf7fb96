"""What a cluster leaves behind. What it requests is tested with a broker: tests/systems/test_broker_outages.py."""

import gc
from weakref import ref

from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.kafka.cluster import Cluster


def test_a_cluster_goes_with_its_last_reference_and_takes_its_clients_along() -> None:
    """Else each run would leave the threads of its clients to the garbage collector, which is seldom called."""
    cluster = Cluster(KafkaSystem("127.0.0.1:1").settings)
    cluster.offsets.ends([])
    gone = ref(cluster)
    gc.disable()
    try:
        del cluster
        assert gone() is None
    finally:
        gc.enable()
