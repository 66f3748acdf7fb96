"""Loads the pipeline that a target names: `file.py`, `file.py:attribute` or `module:attribute`."""

import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from ..dsl.errors import FluvialError, PipelineError, UsageError
from ..dsl.keyed_stream import KeyedStream
from ..dsl.origin import Origin
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain
from .process.user_modules import hides_modules, prefer_own_modules, refuse_taken, refuse_taken_in

_FORMS = "file.py, file.py:attribute or module:attribute"
_WRITE_ONE = 'write pipeline = Pipeline("name") at its top level'
_CALLED = "a Pipeline, or a function without arguments that returns one"
_OURS = tuple(str(Path(__file__).parents[1] / name) for name in ("dsl", "planner", "runtime"))
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})

_LATER = ("networkx", "prometheus_client")
"""What plans and metrics load where they need it, as it takes long."""

_loaded = set[str]()
"""The names of the user's modules that were loaded with targets. A file may be loaded anew under such a name."""


def load_pipeline(target: str) -> Pipeline:
    """The pipeline that a target names.

    Without an attribute it is the only Pipeline of the file or module. If that holds none, the only function that is
    annotated to return a Pipeline is called. Raises UsageError if the target names no pipeline, and PipelineError if
    the user's code fails.
    """
    code, _, attribute = target.rpartition(":") if _has_attribute(target) else (target, "", "")
    module = _load_file(code, target) if code.endswith(".py") else _load_module(code, target)
    if attribute:
        return _pipeline_of(_attribute(module, attribute, target), target)
    return _only_pipeline(module, target)


def _has_attribute(target: str) -> bool:
    return ":" in target and not target.endswith(".py")


def _load_file(file: str, target: str) -> ModuleType:
    path = Path(file).resolve()
    if not path.is_file():
        wrong = f"there is no file {file!r}"
        raise UsageError(
            explain(wrong, _FORMS, "correct the path; it is relative to the current folder", f"target {target}")
        )
    name = _free_name(path.stem)
    spec = spec_from_file_location(name, path)
    assert spec is not None, "its name ends in .py"
    assert spec.loader is not None
    module = module_from_spec(spec)
    _loaded.discard(name)
    with _user_code(file, path.parent):
        # Registered before it runs, as an import does: dataclasses and pickle look modules up there.
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    _loaded.add(name)
    return module


def _free_name(stem: str) -> str:
    """A name for the module of a file: its stem, unless another module has that name."""
    taken = stem in sys.stdlib_module_names or (stem in sys.modules and stem not in _loaded)
    return f"{stem}_file" if taken else stem


def _load_module(name: str, target: str) -> ModuleType:
    folder = Path.cwd()
    with _user_code(name, folder):
        if not _exists(name):
            wrong = f"there is no module {name!r}"
            remedy = "correct the name; a file's name ends in .py; modules are looked for in the current folder too"
            raise UsageError(explain(wrong, _FORMS, remedy, f"target {target}"))
        module = import_module(name)
    if _is_users(getattr(module, "__file__", None)):
        _loaded.add(name)
    return module


def _exists(name: str) -> bool:
    if not all(part.isidentifier() for part in name.split(".")):
        return False
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError as error:
        # A package on the way may exist, and fail because it imports something else that does not.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        return False


@contextmanager
def _user_code(code: str, folder: Path) -> Iterator[None]:
    """Run code of the user, which may import modules from `folder`. A traceback of an error shows the user's lines
    alone."""
    if hides_modules(str(folder)) or any(PathFinder.find_spec(name, [str(folder)]) for name in _LATER):
        for name in _LATER:  # modules in `folder` must not replace them, or what they import
            import_module(name)
    before = set(sys.modules)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        yield
    except FluvialError:
        raise
    except (Exception, SystemExit) as error:
        # The user's code was given Python's module, and does not find there what its own has.
        refuse_taken_in(dict.fromkeys(frame.filename for frame in _frames(error)), [str(folder)])
        wrong = f"{code} fails as it is loaded:\n{_users_traceback(error)}"
        raise PipelineError(
            explain(wrong, "a file that can be imported", _remedy(error), _failed_at(error, code))
        ) from error
    finally:
        if hides_modules(str(folder)):
            # The folder came first while the user's code was loaded, as for a script. What is imported later needs the
            # modules of Python.
            sys.path.remove(str(folder))
            sys.path.append(str(folder))
            prefer_own_modules([str(folder)])
    new: list[ModuleType] = []
    for name in sys.modules.keys() - before:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(folder) and _is_users(file):
            _loaded.add(name)
            new.append(sys.modules[name])
    refuse_taken(new, [str(folder)])


def _is_users(file: str | None) -> bool:
    """Whether a file is the user's own: neither ours, nor Python's, nor installed."""
    if file is None or file.startswith("<"):
        return False
    return not any(file.startswith(folder + os.sep) for folder in (*_OURS, *_INSTALLED))


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    return [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]


def _users_traceback(error: BaseException) -> str:
    lines = [*traceback.format_list(_frames(error)), *traceback.format_exception_only(error)]
    return "".join(lines).rstrip()


def _remedy(error: BaseException) -> str:
    """What to do about an error of the user's code."""
    if isinstance(error, AttributeError) and error.obj is None and hasattr(KeyedStream, error.name or ""):
        return f"send_to and sink end a stream, and give nothing: call .{error.name} of the stream, kept in a variable"
    if isinstance(error, ValueError) and "to unpack" in str(error) and "split(" in (_frames(error)[-1].line or ""):
        return "split gives a stream for each function and one more, for the rest: name as many"
    return 'correct it; what is not to happen on import goes under if __name__ == "__main__":'


def _failed_at(error: BaseException, code: str) -> str:
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return str(Origin(error.filename, error.lineno))
    frames = _frames(error)
    return str(Origin(frames[-1].filename, frames[-1].lineno or 0)) if frames else code


def _attribute(module: ModuleType, name: str, target: str) -> Any:
    if not hasattr(module, name):
        names = list(_candidates(module))
        expected = f"one of its pipelines: {', '.join(names) or 'no pipeline at all'}"
        code = target.rpartition(":")[0]
        remedy = f"write {code}:{names[0]}" if names else _WRITE_ONE
        raise UsageError(explain(f"{module.__name__} has no {name!r}", expected, remedy, f"target {target}"))
    return getattr(module, name)


def _candidates(module: ModuleType) -> dict[str, Any]:
    """What a target could name in a module: its pipelines; if there are none, functions annotated to return one."""
    members = {name: value for name, value in vars(module).items() if not name.startswith("__")}
    pipelines = {name: value for name, value in members.items() if isinstance(value, Pipeline)}
    return pipelines or {name: value for name, value in members.items() if _returns_pipeline(value, module)}


def _returns_pipeline(value: Any, module: ModuleType) -> bool:
    if not inspect.isfunction(value) or value.__module__ != module.__name__:
        return False
    try:
        return get_type_hints(value).get("return") is Pipeline
    except (NameError, TypeError):
        return False


def _only_pipeline(module: ModuleType, target: str) -> Pipeline:
    candidates = {id(value): (name, value) for name, value in _candidates(module).items()}
    if len(candidates) == 1:
        return _pipeline_of(next(iter(candidates.values()))[1], target)
    names = [name for name, _ in candidates.values()]
    if not names:
        wrong, expected = f"{target} holds no Pipeline", "one Pipeline, or a function annotated to return one"
        raise UsageError(explain(wrong, expected, _WRITE_ONE, f"target {target}"))
    wrong = f"{target} holds {len(names)} pipelines: {', '.join(names)}"
    raise UsageError(explain(wrong, "the name of one", f"write {target}:{names[0]}", f"target {target}"))


def _pipeline_of(value: Any, target: str) -> Pipeline:
    if callable(value) and not isinstance(value, Pipeline):
        value = _result_of(value, target)
    if not isinstance(value, Pipeline):
        wrong = f"it is {type(value).__name__}, not a Pipeline"
        raise UsageError(explain(wrong, _CALLED, "name another, or return the Pipeline", f"target {target}"))
    return value


def _result_of(make: Callable[[], Any], target: str) -> Any:
    try:
        inspect.signature(make).bind()
    except (TypeError, ValueError) as error:
        wrong = f"{target} cannot be called without arguments: {error}"
        raise UsageError(explain(wrong, _CALLED, "give each parameter a default", target)) from None
    with _user_code(target, Path.cwd()):
        return make()
