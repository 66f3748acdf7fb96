"""Modules of the user's that are named like modules of Python's."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fluvial.dsl import PipelineError
from fluvial.runtime.process.user_modules import is_hidden, refuse_taken

PIPELINE = """
from fluvial.dsl import Pipeline


def soft(word: str) -> str:
    import {name}

    return {name}.soft(word)


pipeline = Pipeline("soft")
pipeline.stream("in", value=str).map(soft).send_to("out", value=str)
"""
RUN = """
import sys
from fluvial.runtime.pipeline_loader import load_pipeline

mapped = load_pipeline("soft.py").operators[1]
print(mapped.fn("TEA"))
import shelve
print(hasattr(shelve, "Shelf"))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("sched", "queue", "shelve"):
        (tmp_path / f"{name}.py").write_text("def soft(word: str) -> str:\n    return word.lower()\n")
    return tmp_path


def test_a_function_that_is_loaded_imports_the_user_s_module_and_others_python_s(folder: Path) -> None:
    (folder / "soft.py").write_text(PIPELINE.format(name="sched"))
    ended = subprocess.run([sys.executable, "-P", "-c", RUN], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["tea", "True"], ended.stderr


def test_a_name_that_is_in_use_is_refused_as_the_pipeline_is_loaded(folder: Path) -> None:
    (folder / "soft.py").write_text(PIPELINE.format(name="queue"))
    ended = subprocess.run([sys.executable, "-P", "-c", RUN], cwd=folder, capture_output=True, text=True, check=False)
    assert f"PipelineError: the module 'queue' in {folder / 'queue.py'} cannot be imported" in ended.stderr
    assert "\n  at soft.py:6\n" in ended.stderr
    assert ended.stderr.rstrip().endswith("to do: rename queue.py, and what imports it")


@pytest.mark.parametrize(
    "use", ["import queue\n\nloud = queue.soft", "from queue import soft", "import deeper\n\nloud = deeper.soft"]
)
def test_so_it_is_where_the_pipeline_fails_because_of_it(folder: Path, use: str) -> None:
    """Python's module of the name lacks what the user's has, so loading fails before it is looked at as a whole."""
    (folder / "deeper.py").write_text("import queue\n\nsoft = queue.soft\n")
    (folder / "soft.py").write_text(use)
    ended = subprocess.run([sys.executable, "-P", "-c", RUN], cwd=folder, capture_output=True, text=True, check=False)
    assert f"PipelineError: the module 'queue' in {folder / 'queue.py'} cannot be imported" in ended.stderr
    assert ended.stderr.rstrip().endswith("to do: rename queue.py, and what imports it")


def test_a_package_is_named_in_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue" / "__init__.py").write_text("")
    module = ModuleType("soft")
    module.__file__ = str(tmp_path / "soft.py")
    (tmp_path / "soft.py").write_text("from queue import Queue\nfrom . import other\nimport json.decoder\n")
    with pytest.raises(PipelineError, match="to do: rename queue, and what imports it"):
        refuse_taken([module], [str(tmp_path)])


@pytest.mark.parametrize("source", ["import queue", "import sched", "import pytest", "def", None])
def test_what_hides_nothing_passes(folder: Path, source: str | None) -> None:
    """A module that imports what has its own name means Python's; what cannot be read imports nothing."""
    module = ModuleType("queue")
    module.__file__ = str(folder / "queue.py")
    if source is None:
        (folder / "queue.py").unlink()
    else:
        (folder / "queue.py").write_text(source)
    sys.modules.pop("sched", None)
    refuse_taken([module], [str(folder)])


@pytest.mark.parametrize(
    ("name", "file", "hidden"),
    [
        ("queue", "queue.py", True),
        ("queue.jobs", "queue/jobs.py", True),
        ("visits_file", "visits.py", True),
        ("visits", "visits.py", False),
        ("__main__", "queue.py", False),
        ("queue", None, False),
    ],
)
def test_a_module_is_hidden_by_one_of_python_s_or_by_another_name(
    tmp_path: Path, name: str, file: str | None, hidden: bool
) -> None:
    module = ModuleType(name)
    if file is not None:
        module.__file__ = str(tmp_path / file)
    assert is_hidden(name, module) == hidden


def test_python_s_own_module_is_not_hidden() -> None:
    assert not is_hidden("json", json)
