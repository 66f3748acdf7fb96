"""The settings of a command: those of its options, then those of the environment, then those of `fluvial.toml` in the
current folder."""

import os
import tomllib
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from ...planner.settings import Settings, setting_types
from .named_settings import assigned_settings, environment_settings, meant_setting
from .option_values import parsed_duration, size, wrong_option

FILE = "fluvial.toml"
TABLE = "settings"


def settings_with(assigned: Sequence[str] | None = None, **given: Any) -> Settings:
    """The settings that are given as options, where None stands for an option that is not, with those of the
    environment and of the file. `assigned` are those of `--set`. Both beat the environment, and that beats the file.

    Raises UsageError for a file that cannot be read, an unknown setting, a wrong value, and for a setting that `--set`
    gives as well as its option.
    """
    options = {name: value for name, value in given.items() if value is not None}
    by_name = assigned_settings(assigned or ())
    for name in options.keys() & by_name.keys():
        option = f"--{name.replace('_', '-')}"
        raise wrong_option("--set", f"{name} together with {option}", "one of the two", "leave out one of them")
    return Settings(**(file_settings(Path(FILE)) | environment_settings(os.environ) | by_name | options))


def file_settings(path: Path) -> dict[str, Any]:
    """The settings in a file, by name: a table `[settings]`, with durations and sizes as texts such as `"2s"` and
    `"64MB"`. There are none if there is no file."""
    try:
        tables = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _wrong(
            path, f"it cannot be read: {error}", "a file in the format TOML", "correct it, or remove it"
        ) from None
    for name in tables:
        if name != TABLE:
            raise _wrong(path, f"[{name}]", f"the table [{TABLE}]", f"write settings under [{TABLE}]")
    types = setting_types()
    settings: dict[str, Any] = {}
    for name, value in tables.get(TABLE, {}).items():
        if name not in types:
            raise _wrong(path, name, "a setting of Settings", meant_setting(name))
        settings[name] = _value(path, name, types[name], value)
    try:
        Settings(**settings)
    except UsageError as error:
        first, _, *rest = str(error).splitlines()  # the second says where
        lines = [f"{path}: {first.removeprefix('Settings: ')}", f"  at {path.absolute()}", *rest]
        raise UsageError("\n".join(lines)) from None
    return settings


def _value(path: Path, name: str, type_: Any, value: Any) -> Any:
    where = f"{path}: {name}"
    if isinstance(value, str) and timedelta in (type_, *get_args(type_)):
        return parsed_duration(where, value)
    if isinstance(value, str) and name.endswith("_bytes"):
        return size(where, value)
    return value


def _wrong(path: Path, wrong: str, expected: str, remedy: str) -> UsageError:
    return UsageError(explain(f"{path}: {wrong}", expected, remedy, str(path.absolute())))
