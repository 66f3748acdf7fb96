"""The master of a standalone cluster of Spark's, by its URL: whether it answers."""

import socket

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain

STANDALONE = "spark://"
ANSWER_SECONDS = 5.0


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
