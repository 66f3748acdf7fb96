"""A cluster, and what tests of it read and write with."""

from kafka.topic_fixtures import drain as drain
from kafka.topic_fixtures import kafka as kafka
from kafka.topic_fixtures import name as name
