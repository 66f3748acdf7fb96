"""The example of air traffic control, killed time and again: members are told each event once, and none is missing."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from air_traffic import TARGET, assert_each_was_told_once, running_services
from engines.targets import append
from examples.air_traffic_control.events import members, rows, traffic
from examples.air_traffic_control.messages import Preferences
from fluvial.dsl.message import Record
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.partitioner import partition_for
from programs import CLI, ROOT

KILLS = 100
EVENTS = 4_000


def run(folder: Path, services: dict[str, str], until: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-c", CLI, "run", TARGET, "--system", f"log:{folder}", "--until", until]
    command += ["--guarantee", "exactly_once", "--commit-interval", "100ms"]
    env = {**os.environ, "ATC_SERVICES": msgspec.json.encode(services).decode(), "ATC_GATHER_SECONDS": "0.5"}
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)


def records(messages: Iterable[dict[str, object]], keyed: bool) -> list[Record]:
    return [(f"{one['member']}".encode() if keyed else None, msgspec.json.encode(one), 0, ()) for one in messages]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_hundred_kills_tell_nobody_twice_and_forget_nobody(tmp_path: Path) -> None:
    made, delays, log = traffic(100, EVENTS), random.Random(5), LogSystem(tmp_path, fsync=False)
    # Else the last events of a member who was told often wait for the next day.
    made["preferences"] = rows({name: Preferences(per_day=EVENTS) for name in members(100)})
    for name, messages in made.items():
        log.admin().create(name, 2)
        if name in ("models", "preferences"):
            for record in records(messages, keyed=True):
                append(log, name, partition_for(record[0], 2), [record])
    with running_services(slowness=1) as services:
        for kill in range(KILLS):
            for name in ("events", "urgent"):
                part = made[name][kill::KILLS]
                append(log, name, kill % 2, records(part, keyed=False))
            with run(tmp_path, services, "stopped") as process:
                time.sleep(delays.uniform(0.8, 2.5))
                process.kill()
        with run(tmp_path, services, "end") as process:
            assert process.wait(timeout=300) == 0
        assert_each_was_told_once(services, made)
