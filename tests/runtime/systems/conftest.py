"""Each system under one fixture, and what tests of systems read with."""

from engines.system_fixtures import log as log
from engines.system_fixtures import numbered as numbered
from engines.system_fixtures import publishing as publishing
from engines.system_fixtures import read as read
from engines.system_fixtures import system as system
