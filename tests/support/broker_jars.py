"""The jars of the Kafka broker that tests and benchmarks start: Maven brings them, as tests/kafka/pom.xml asks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

ROOT = Path(__file__).parents[2]
POM = ROOT / "tests" / "kafka" / "pom.xml"
JARS = ROOT / ".kafka" / "jars"


class BrokerProblem(Exception):
    """The broker, or Maven, did not do what was asked."""


def lacking() -> str | None:
    """What a broker needs and this machine does not have, if anything."""
    if shutil.which(java()) is None:
        return "there is no Java: install Java 17 or later for the tests of Kafka"
    if not have_jars() and shutil.which("mvn") is None:
        return "there is no Maven: install it, it brings the broker for the tests of Kafka"
    return None


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def have_jars() -> bool:
    """Whether the jars are those of the pom: a copy of it is laid beside them."""
    copy = JARS / POM.name
    return copy.exists() and copy.read_bytes() == POM.read_bytes()


def fetch_jars() -> None:
    """Let Maven bring the broker, where that is not done."""
    if have_jars():
        return
    arriving = JARS.with_name(f"jars-{uuid4().hex}")  # a fetch that is cut off leaves nothing that looks whole
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={arriving}")
    done = subprocess.run(["mvn", "-B", "-q", "-f", str(POM), *goal], capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(arriving, ignore_errors=True)
        raise BrokerProblem(f"Maven could not bring the jars of {POM}:\n{done.stdout}{done.stderr}")
    shutil.copy(POM, arriving)
    shutil.rmtree(JARS, ignore_errors=True)
    arriving.rename(JARS)


def fetch() -> None:
    """What `make broker-jars` does: bring the jars, or say why no test of Kafka will run."""
    if reason := lacking():
        print(f"The tests of Kafka will be skipped: {reason}")
    else:
        fetch_jars()


if __name__ == "__main__":
    try:
        fetch()
    except BrokerProblem as problem:
        sys.exit(str(problem))
