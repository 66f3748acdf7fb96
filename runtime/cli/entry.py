"""Where the program `fluvial` begins: it handles signals before it imports the rest, which takes a second or more."""

import gc
import signal
import sys

from ..process.early_stop import end_at_sigterm
from ..process.gc_tuning import keep_imports

# As shells number a program that a signal has ended.
INTERRUPTED = 128 + signal.SIGINT
UNFINISHED = 128 + signal.SIGTERM


def main() -> int:
    """Run the command line, and return the exit code."""
    try:
        words = sys.argv[1:]
        if next((word for word in words if not word.startswith("-")), "") != "run":
            return _app()
        stop = end_at_sigterm(UNFINISHED if _has_files(words) else 0)
        stop.code = _app()
        return stop.code
    except KeyboardInterrupt:  # as it imports
        return INTERRUPTED


def _has_files(words: list[str]) -> bool:
    """Whether the command loads or writes files, which it does outside of its run."""
    return any(word.partition("=")[0] in ("--input", "--output") for word in words)


def _app() -> int:
    gc.disable()  # until all is imported: modules leave no garbage
    from .app import main as run_app  # noqa: PLC0415 - the signals are handled by now

    keep_imports()
    return run_app()
