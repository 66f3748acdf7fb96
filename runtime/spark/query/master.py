"""The master of a standalone cluster of Spark's, by its URL: whether it answers."""

import socket

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain

STANDALONE = "spark://"
# For a TCP connection alone, which takes well below a second even to another continent.
ANSWER_SECONDS = 5.0


_STOPPED = "Cannot call methods on a stopped SparkContext"
"""What Spark says in the end, with where its context began and ended, if no master has taken the program."""


def not_taken(master: str | None, message: str) -> SystemProblem | None:
    """The error if Spark has ended with a message because something listens at the URL of a standalone master, and
    takes no program; None for another end."""
    if master is None or not master.startswith(STANDALONE) or _STOPPED not in message:
        return None
    wrong = f"what listens at {master} has not taken this program: no master of Spark's, or one of another version"
    remedy = "use the address that the master names itself, with port 7077 by default, not that of its web page"
    return SystemProblem(explain(wrong, "the URL of a master of the same version as pyspark", remedy))


def check_reachable(master: object) -> None:
    """Raise SystemProblem if no master answers at the URL of a standalone cluster. Spark itself would try for a minute,
    and then say that a context was stopped. Other URLs, and sessions, are left to Spark."""
    if not isinstance(master, str) or not master.startswith(STANDALONE):
        return
    problems = []
    for address in master.removeprefix(STANDALONE).split(","):  # the masters of one cluster
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS).close()
        except (OSError, ValueError, OverflowError) as error:
            problems.append(f"{address}: {error}")
        else:
            return
    wrong = f"no master of Spark's answers at {master} ({'; '.join(problems)})"
    remedy = "correct the URL, or start the master"
    raise SystemProblem(explain(wrong, "the URL of a master that runs, spark://HOST:7077", remedy))
