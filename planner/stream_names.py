"""The names of the streams that a plan adds to those of the pipeline."""


def intermediate(pipeline: str, border: str) -> str:
    """The stream that a `partition_by` writes, by its id.

    >>> intermediate("visits", "by-user")
    'visits-by-user'
    """
    return f"{pipeline}-{border}"


def changelog(pipeline: str, operator: str) -> str:
    """The stream that the state of an operator can be rebuilt from."""
    return f"{pipeline}-{operator}-changelog"


def dead_letters(pipeline: str) -> str:
    """The stream of messages that failed."""
    return f"{pipeline}-dead-letters"


def checkpoints(pipeline: str) -> str:
    """The stream of a pipeline's checkpoints, in systems that keep them in one."""
    return f"{pipeline}-checkpoints"


def heartbeats(pipeline: str) -> str:
    """The stream in which containers with standbys say that they are alive."""
    return f"{pipeline}-heartbeats"


def coordinator(pipeline: str) -> str:
    """The stream that says which container runs which task."""
    return f"{pipeline}-coordinator"
