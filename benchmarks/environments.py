"""The environments of peers, each made from its file of requirements beside its program."""

import subprocess
import sys
from collections.abc import Callable

from benchmarks.contenders import CONTENDERS, ENVIRONMENTS, PEERS, python_of


def make(tell: Callable[[str], None]) -> None:
    """Make the environments that are not there, or not of these requirements; one that cannot be made is told of."""
    for contender in CONTENDERS.values():
        if contender.group == "peer" and not _is_made(contender.name):
            tell(f"making the environment of {contender.title}")
            if problem := _make(contender.name):
                tell(f"{contender.title} is left out, it cannot be installed: {problem}")


def _is_made(peer: str) -> bool:
    copy = ENVIRONMENTS / peer / "requirements.txt"
    return copy.exists() and copy.read_bytes() == (PEERS / f"{peer}.txt").read_bytes()


def _make(peer: str) -> str:
    wanted = PEERS / f"{peer}.txt"
    venv = [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENTS / peer)]
    pip = [str(python_of(peer)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)]
    for command in (venv, pip):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            python_of(peer).unlink(missing_ok=True)  # so that nobody takes it for whole
            return done.stderr.strip()
    (ENVIRONMENTS / peer / "requirements.txt").write_bytes(wanted.read_bytes())
    return ""


if __name__ == "__main__":
    make(print)
