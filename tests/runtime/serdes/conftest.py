"""A schema registry for each test."""

from kafka.registry_fixtures import registry as registry
from kafka.registry_fixtures import server as server
