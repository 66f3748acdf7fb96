"""Members, what they care for, and what happens to them, made up from a seed.

    python -m examples.air_traffic_control.events --members 100 --events 2000 --folder traffic

writes a file of JSON lines for each input of the pipeline: preferences, models, events, urgent.
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, get_args

import msgspec

from .messages import Event, Kind, Model, Preferences

BEGIN = 1_700_000_000_000
URGENT_SHARE = 0.05


def members(number: int) -> list[str]:
    """The names of members."""
    return [f"m{one}" for one in range(number)]


def preferences(number: int, random: Random) -> dict[str, Preferences]:
    """Most members have told what they want."""
    told = (name for name in members(number) if random.random() < 0.8)
    return {name: Preferences(utc_offset=random.randrange(-8, 9), push=random.random() < 0.9) for name in told}


def models(number: int, random: Random) -> dict[str, Model]:
    """Half of the members are known well enough for a model."""
    known = (name for name in members(number) if random.random() < 0.5)
    return {name: Model({kind: random.random() for kind in get_args(Kind)}) for name in known}


def events(number: int, count: int, random: Random) -> list[Event]:
    """What happens; one event of fifty comes twice."""
    names = members(number)
    kinds: tuple[Kind, ...] = get_args(Kind)
    made: list[Event] = []
    for one in range(count):
        urgent = random.random() < URGENT_SHARE
        kind: Kind = "message" if urgent else random.choice(kinds)
        item = f"i{random.randrange(count)}"
        made.append(Event(f"e{one}", random.choice(names), kind, item, BEGIN + 10 * one, urgent))
        if random.random() < 0.02:
            made.append(random.choice(made[-50:]))
    return made


def traffic(number: int, count: int, seed: int = 7) -> dict[str, list[dict[str, Any]]]:
    """The messages of each input of the pipeline."""
    random = Random(seed)
    made = {"preferences": rows(preferences(number, random)), "models": rows(models(number, random))}
    happened = events(number, count, random)
    made["urgent"] = msgspec.to_builtins([event for event in happened if event.urgent])
    made["events"] = msgspec.to_builtins([event for event in happened if not event.urgent])
    return made


def rows(values: Mapping[str, object]) -> list[dict[str, Any]]:
    """The rows of a table, each with its member."""
    return [{"member": member, **msgspec.to_builtins(value)} for member, value in values.items()]


def write(folder: Path, made: Mapping[str, Iterable[object]]) -> None:
    """Write a file of JSON lines for each input."""
    folder.mkdir(parents=True, exist_ok=True)
    for stream, messages in made.items():
        (folder / f"{stream}.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in messages))


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="What happens to members.")
    options.add_argument("--members", type=int, default=100)
    options.add_argument("--events", type=int, default=2_000)
    options.add_argument("--folder", type=Path, default=Path("traffic"))
    options.add_argument("--seed", type=int, default=7)
    given = options.parse_args()
    write(given.folder, traffic(given.members, given.events, given.seed))
