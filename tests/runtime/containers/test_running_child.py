"""start_child: what a process is given, what is heard of it, and its end. The processes are shells."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from fluvial.planner.settings import Settings
from fluvial.runtime import Report
from fluvial.runtime.containers.child_process import ChildConfig, ChildReport
from fluvial.runtime.containers.running_child import LONGEST_LINE, start_child
from fluvial.runtime.systems.open import Opening

CONFIG = ChildConfig(
    target="p.py", system=Opening(url="log:there"), settings=Settings(), until="end", container=0, containers=1,
    run="run",
)  # fmt: skip


class Heard:
    """What a shell has said, and its exit code. In the script $0 is the pipe of reports, and $1 the title."""

    def __init__(self, script: str, *, kill: signal.Signals | None = None, patience: float = 2.0) -> None:
        self.reports: list[ChildReport] = []
        self.lines: list[str] = []
        self.alive: list[bool] = []
        self.code = asyncio.run(self._run(("sh", "-c", script), kill, patience))

    async def _run(self, program: tuple[str, ...], kill: signal.Signals | None, patience: float) -> int:
        child = await start_child(
            CONFIG, "p: container 0 of 1", self.reports.append, self.lines.append, program=program, patience=patience
        )
        if kill is not None:
            child.send_signal(kill)
        self.alive.append(child.alive)
        assert not child.waits  # a process of this machine has begun
        code = await child.exited()
        await child.close()
        self.alive.append(child.alive)
        return code


def test_a_child_gets_its_config_on_standard_input_and_not_among_its_arguments(tmp_path: Path) -> None:
    heard = Heard(f'read -r config; echo "$config" > {tmp_path}/config; echo "$*" >&2')
    assert json.loads((tmp_path / "config").read_text())["target"] == "p.py"
    assert (heard.lines, heard.code) == (["p: container 0 of 1"], 0)


def test_standard_input_stays_open_until_the_child_has_ended() -> None:
    """A child stops when it ends: its supervisor has died then."""
    heard = Heard("read -r config; timeout 0.1 cat; exit $?")
    assert heard.code == 124  # there was no end to read


def test_reports_come_whole_whatever_their_size(tmp_path: Path) -> None:
    read = {f"stream {number}": number for number in range(20_000)}  # several times what one read takes
    report = json.dumps({"report": {"pipeline": "p", "engine": "local", "seconds": 1.0, "read": read}})
    written = tmp_path / "reports"
    written.write_text(f'{report}\n{{"taken_over":true}}\n')
    big, small = Heard(f"cat {written} >/dev/fd/$0").reports
    assert big == ChildReport(report=Report(pipeline="p", engine="local", seconds=1.0, read=read))
    assert small == ChildReport(taken_over=True)


@pytest.mark.parametrize(
    ("script", "lines"),
    [
        ("printf 'one\\n\\ntwo\\n' >&2", ["one", "", "two"]),
        ("printf 'no newline' >&2", ["no newline"]),
        ("printf '\\033[2Jgone\\377\\n' >&2", ["\\x1b[2Jgone\ufffd"]),
        (":", []),
    ],
)
def test_lines_of_stderr_are_said_as_they_can_be_shown(script: str, lines: list[str]) -> None:
    assert Heard(script).lines == lines


def test_a_line_without_end_is_said_in_pieces() -> None:
    lines = Heard(f"head -c {5 * LONGEST_LINE} /dev/zero | tr '\\0' x >&2").lines
    assert "".join(lines) == "x" * 5 * LONGEST_LINE
    assert 1 < len(lines) <= 5


def test_a_child_that_is_abandoned_reads_the_end_of_its_standard_input() -> None:
    async def abandoned() -> int:
        program = ("sh", "-c", "read -r config; cat; exit 3")
        child = await start_child(CONFIG, "p", lambda _: None, lambda _: None, program=program, env={"PATH": "/bin"})
        assert (child.alive, child.waits) == (True, False)
        child.abandon()
        code = await child.exited()
        await child.close()
        return code

    assert asyncio.run(abandoned()) == 3


def test_a_child_has_the_environment_that_it_is_given() -> None:
    lines: list[str] = []

    async def run() -> None:
        program, env = ("/bin/sh", "-c", 'echo "$HERE $HOME" >&2'), {"HERE": "there"}
        child = await start_child(CONFIG, "p", lambda _: None, lines.append, program=program, env=env)
        await child.exited()
        await child.close()

    asyncio.run(run())
    assert lines == ["there "]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_child_that_a_signal_killed_says_which(number: signal.Signals) -> None:
    heard = Heard("exec sleep 60", kill=number)
    assert (heard.code, heard.alive) == (-number, [True, False])


def test_what_a_dead_child_has_started_keeps_neither_its_end_from_us_nor_a_file_open() -> None:
    """It has all pipes open for longer than its parent lives."""
    before = open_files()
    heard = Heard("sleep 1 & echo bye >&2; exit 3", patience=0.01)
    assert (heard.code, heard.lines) == (3, ["bye"])
    assert open_files() == before


def test_a_program_that_does_not_exist_leaves_no_file_open() -> None:
    async def start() -> None:
        await start_child(CONFIG, "p", lambda _: None, lambda _: None, program=("/nowhere",))

    before = open_files()
    with pytest.raises(FileNotFoundError):
        asyncio.run(start())
    assert open_files() == before


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
