"""Folders of another user."""

import os
from pathlib import Path

import pytest

NOBODY = 65534


def make_foreign(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give a folder to another user; who may not do that becomes one."""
    if os.geteuid() == 0:
        os.chown(path, NOBODY, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
