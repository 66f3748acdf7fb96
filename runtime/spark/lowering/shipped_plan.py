"""A plan on its way to Spark's workers. A source carries it without the modules that unpack it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShippedPlan:
    """A pickled `PlanBundle` or `Pipeline`, as bytes or in a file. By `digest` a worker knows whether it has unpickled
    it before. `paths` are the folders, besides those of installed packages, in which the user's modules are. `run` is
    the same for all queries of a run, and another for a run of another plan."""

    digest: str
    data: bytes
    file: str = ""
    paths: tuple[str, ...] = ()
    run: str = ""
