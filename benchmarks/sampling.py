"""What processes use of a Linux machine, as /proc tells: memory, processor time, threads, files."""

import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Use:
    """Of a process and all below it: resident memory in bytes, threads, open files; and seconds of processor time by
    process."""

    rss: int
    threads: int
    files: int
    cpu: dict[int, float]


def use_of(root: int) -> Use:
    """What a tree of processes uses now; nothing, once it has ended."""
    rss = threads = files = 0
    cpu: dict[int, float] = {}
    for process in _tree(root):
        try:
            fields = (
                Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            )
            files += len(os.listdir(f"/proc/{process}/fd"))
        except OSError:  # it has ended
            continue
        cpu[process] = (int(fields[11]) + int(fields[12])) / _TICKS
        threads += int(fields[17])
        rss += int(fields[21]) * _PAGE
    return Use(rss, threads, files, cpu)


def _tree(root: int) -> Iterator[int]:
    yield root
    try:
        tasks = os.listdir(f"/proc/{root}/task")
    except OSError:  # it has ended
        return
    for task in tasks:
        try:
            children = Path(f"/proc/{root}/task/{task}/children").read_text(encoding="utf-8").split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


@dataclass(slots=True)
class Sampler:
    """Watches a tree of processes in a thread: the peak of its memory, and its processor time since it was told."""

    root: int
    interval: float = 0.1
    peak: int = 0
    _cpu: dict[int, float] = field(default_factory=dict)
    _before: dict[int, float] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to watch."""
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Count processor time from here."""
        self._before = dict(self._cpu)

    def stop(self) -> None:
        """Look a last time."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        self._look()

    @property
    def cpu(self) -> float:
        """Seconds of processor time since `begin`, those of processes that have ended included."""
        return sum(seconds - self._before.get(process, 0.0) for process, seconds in self._cpu.items())

    @property
    def all_cpu(self) -> dict[int, float]:
        """Seconds of processor time by process, from the start."""
        return self._cpu

    def _watch(self) -> None:
        while not self._over.wait(self.interval):
            self._look()

    def _look(self) -> None:
        use = use_of(self.root)
        self.peak = max(self.peak, use.rss)
        self._cpu.update(use.cpu)


class Noise:
    """What the rest of the machine does while a sampler watches a process that this one has started."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._busy = _machine_seconds()
        self._ours = _own_seconds({})

    def share(self, watched: Sampler) -> float:
        """The share of the machine that neither this process, nor what it started, nor what is watched has used."""
        busy = _machine_seconds() - self._busy
        ours = _own_seconds(watched.all_cpu) - self._ours + sum(watched.all_cpu.values())
        return max(0.0, busy - ours) / (time.monotonic() - self._begun) / (os.cpu_count() or 1)


def _own_seconds(others: Mapping[int, float]) -> float:
    return sum(seconds for process, seconds in use_of(os.getpid()).cpu.items() if process not in others)


def _machine_seconds() -> float:
    words = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()
    user, nice, system, _, _, irq, softirq, steal = (int(word) for word in words[1:9])
    return (user + nice + system + irq + softirq + steal) / _TICKS
