"""The names of the streams that a plan adds to those of the pipeline."""


def intermediate(pipeline: str, border: str) -> str:
    """The stream that a `partition_by` writes, by its id.

    >>> intermediate("visits", "by-user")
    'visits-by-user'
    """
    return f"{pipeline}-{border}"


def growth_name(stream: str, growth: int) -> str:
    """The name of an input of a stage. A source that has grown is several inputs: growth 0 are the partitions that it
    began with, growth 1 the next as many, and so on. No stream has such a name.

    >>> growth_name("clicks", 0), growth_name("clicks", 1)
    ('clicks', 'clicks+1')
    """
    return f"{stream}+{growth}" if growth else stream


def growth_of(name: str) -> tuple[str, int]:
    """The stream and the growth of an input: see `growth_name`.

    >>> growth_of("clicks"), growth_of("clicks+1")
    (('clicks', 0), ('clicks', 1))
    """
    stream, _, growth = name.partition("+")
    return stream, int(growth or 0)


def changelog(pipeline: str, operator: str) -> str:
    """The stream that the state of an operator can be rebuilt from."""
    return f"{pipeline}-{operator}-changelog"


def journal(pipeline: str, operator: str) -> str:
    """The stream that keeps the results of an operator's calls until they are committed."""
    return f"{pipeline}-{operator}-journal"


def dead_letters(pipeline: str) -> str:
    """The stream of messages that failed."""
    return f"{pipeline}-dead-letters"


def handled_letters(pipeline: str) -> str:
    """The stream that marks dead letters which were replayed or dropped."""
    return f"{pipeline}-dead-letters-handled"


def checkpoints(pipeline: str) -> str:
    """The stream of a pipeline's checkpoints, in systems that keep them in one."""
    return f"{pipeline}-checkpoints"


def heartbeats(pipeline: str) -> str:
    """The stream in which containers with standbys say that they are alive."""
    return f"{pipeline}-heartbeats"


def limits(pipeline: str) -> str:
    """The stream by which containers share the limits of calls."""
    return f"{pipeline}-limits"


def coordinator(pipeline: str) -> str:
    """The stream that says which container runs which task."""
    return f"{pipeline}-coordinator"
