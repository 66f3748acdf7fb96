"""Each system under one fixture, and what tests of systems and of topics read and write with."""

from engines.system_fixtures import log as log
from engines.system_fixtures import numbered as numbered
from engines.system_fixtures import publishing as publishing
from engines.system_fixtures import read as read
from engines.system_fixtures import system as system
from kafka.topic_fixtures import drain as drain
from kafka.topic_fixtures import kafka as kafka
from kafka.topic_fixtures import name as name
