"""A system as data, with which another process opens the same system."""

from datetime import timedelta

from msgspec import Struct

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from .contract import System
from .kafka import KafkaSystem
from .log import LogSystem


class Opening(Struct, frozen=True, kw_only=True):
    """The URL of a system, and the settings that the URL does not have. They may be secrets, so `repr` shows the URL
    alone. Times are in seconds."""

    url: str
    fsync: bool = True
    conf: dict[str, str | int | float | bool] = {}
    topics: dict[str, str] = {}
    reach_within: float = 0.0
    give_up_after: float = 0.0

    def __repr__(self) -> str:
        return f"Opening({self.url!r})"


def opening(system: System) -> Opening:
    """A system as data. Raises UsageError for a system that only this process can open.

    >>> opening(LogSystem(".fluvial", fsync=False))
    Opening('log:.fluvial')
    """
    if isinstance(system, LogSystem):
        return Opening(url=system.url, fsync=system.fsync)
    if isinstance(system, KafkaSystem):
        settings = system.settings
        conf = {name: value for name, value in settings.conf.items() if isinstance(value, str | int | float | bool)}
        if len(conf) == len(settings.conf):
            return Opening(
                url=system.url,
                conf=conf,
                topics=dict(settings.topics),
                reach_within=settings.reach_within,
                give_up_after=settings.give_up_after,
            )
    wrong = f"{system.url} cannot be opened by another process as it is here"
    raise UsageError(explain(wrong, "log:DIR, or kafka://HOST:PORT with settings that are no functions"))


def opened(data: Opening) -> System:
    """The system that `opening` described, in another process."""
    scheme, _, rest = data.url.partition(":")
    if scheme == "log":
        return LogSystem(rest, fsync=data.fsync)
    return KafkaSystem(
        data.url.removeprefix("kafka://"),
        conf=data.conf,
        topics=data.topics,
        reach_within=timedelta(seconds=data.reach_within),
        give_up_after=timedelta(seconds=data.give_up_after),
    )
