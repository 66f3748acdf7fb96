"""Fluvial beside its peers, all on one Kafka broker: `python -m benchmarks`."""

import sys
from pathlib import Path

# The broker is the one of the tests.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))
