"""A disk of its own for a test, as small as is wanted: only root may make one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class SmallDisk:
    """A file system in memory. What is in it goes with it."""

    folder: Path

    def grow(self, mebibytes: int) -> None:
        """Give it another size."""
        _mount("-o", f"remount,size={mebibytes}m", str(self.folder))


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount a disk of this size; skips the test, and says why, where that is not allowed."""
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("a small disk cannot be mounted: that needs root")
    try:
        _mount("-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"a small disk cannot be mounted: {error.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True, text=True)
