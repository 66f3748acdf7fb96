"""The jars that tests and benchmarks of Kafka need, the broker's and those of Spark's connector: Maven brings them."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

ROOT = Path(__file__).parents[3]


class BrokerProblem(Exception):
    """The broker, or Maven, did not do what was asked."""


@dataclass(frozen=True, slots=True)
class Jars:
    """What a pom asks for, and the folder where Maven puts it."""

    pom: Path
    folder: Path

    def are_there(self) -> bool:
        """Whether the jars are those of the pom: a copy of it is laid beside them."""
        copy = self.folder / self.pom.name
        return copy.exists() and copy.read_bytes() == self.pom.read_bytes()

    def fetch(self) -> None:
        """Let Maven bring them, where that is not done."""
        if self.are_there():
            return
        arriving = self.folder.with_name(
            f"jars-{uuid4().hex}"
        )  # a fetch that is cut off leaves nothing that looks whole
        goal = ("dependency:copy-dependencies", f"-DoutputDirectory={arriving}")
        command = ["mvn", "-B", "-q", "-f", str(self.pom), *goal]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            shutil.rmtree(arriving, ignore_errors=True)
            raise BrokerProblem(f"Maven could not bring the jars of {self.pom}:\n{done.stdout}{done.stderr}")
        shutil.copy(self.pom, arriving)
        shutil.rmtree(self.folder, ignore_errors=True)
        arriving.rename(self.folder)

    def paths(self) -> list[str]:
        """The jars themselves, sorted by name."""
        return sorted(str(jar) for jar in self.folder.glob("*.jar"))


POMS = ROOT / "tests" / "kafka"
BROKER = Jars(POMS / "pom.xml", ROOT / ".kafka" / "jars")
CONNECTOR = Jars(POMS / "spark" / "pom.xml", ROOT / ".kafka" / "spark-jars")
JARS = {"broker": BROKER, "spark": CONNECTOR}

CLASSES = BROKER.folder / "classes.jsa"
"""What `class_archive` makes. It lies among the jars that it is made of, and goes with them."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A test is over before what the best compiler makes of Java pays: without it Spark takes half of the time, and a
broker starts with two thirds of the work."""


def lacking(jars: Jars = BROKER) -> str | None:
    """What a broker, or Spark beside one, needs and this machine does not have, if anything."""
    if shutil.which(java()) is None:
        return "there is no Java: install Java 17 or later for the tests of Kafka"
    if not jars.are_there() and shutil.which("mvn") is None:
        return "there is no Maven: install it, it brings the jars for the tests of Kafka"
    return None


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def connector_jars() -> list[str]:
    """The jars of Spark's connector to Kafka; none where this machine cannot bring them, for most tests need none."""
    if lacking(CONNECTOR) is None:
        with suppress(BrokerProblem):
            CONNECTOR.fetch()
    return CONNECTOR.paths() if CONNECTOR.are_there() else []


def fetch(jars: Jars) -> None:
    """What `make broker-jars` and `make spark-jars` do: bring jars, or say why no test of Kafka will run."""
    if reason := lacking(jars):
        print(f"The tests of Kafka will be skipped: {reason}")
    else:
        jars.fetch()


if __name__ == "__main__":
    try:
        fetch(JARS[sys.argv[1]])
    except BrokerProblem as problem:
        sys.exit(str(problem))
