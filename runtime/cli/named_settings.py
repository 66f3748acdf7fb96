"""Settings that are given as texts, by their names: by `--set NAME=VALUE`, and by variables of the environment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, get_args

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from ...planner.settings import Settings, setting_types
from .option_values import elasticity_of, group_by_of, pairs, parsed_duration, size

PREFIX = "FLUVIAL_"
_FLAGS = {"true": True, "1": True, "false": False, "0": False}
_BY_STAGE: Mapping[str, Callable[[list[str], str], Any]] = {"elasticity": elasticity_of, "group_by": group_by_of}
_LIKE = 0.85
"""A variable whose name is so much like that of a setting is meant to be it. Others are of other programs."""


@dataclass(frozen=True, slots=True)
class _Location:
    """Where a setting is given: as `--set commit_interval`, at the command line."""

    name: str
    location: str

    def wrong(self, text: str, expected: str) -> UsageError:
        return _wrong(f"{self.name}={text}", expected, f"correct {self.name}, or leave it out", self.location)


def environment_settings(environment: Mapping[str, str]) -> dict[str, Any]:
    """The settings that variables give, by name: `FLUVIAL_` and the name in capitals. Several stages are separated by
    commas, as in `FLUVIAL_ELASTICITY=clicks=2,visits=8`; an empty variable is none.

    Raises UsageError for a wrong value, and for a variable whose name is nearly that of a setting.

    >>> environment_settings({"FLUVIAL_COMMIT_INTERVAL": "2s", "FLUVIAL_CACHED_BYTES": "64MB", "HOME": "/root"})
    {'commit_interval': datetime.timedelta(seconds=2), 'cached_bytes': 64000000}
    """
    names = {variable_of(name): name for name in setting_types()}
    settings: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable in names and text:
            settings[names[variable]] = _checked(_Location(variable, "the environment"), names[variable], text)
        elif variable not in names and variable.startswith(PREFIX):
            for meant in get_close_matches(variable.removeprefix(PREFIX).lower(), setting_types(), 1, _LIKE):
                remedy = f"did you mean {variable_of(meant)}?"
                raise _wrong(variable, "a variable that names a setting", remedy, "the environment")
    return settings


def assigned_settings(given: Sequence[str]) -> dict[str, Any]:
    """The settings that `--set NAME=VALUE` gives, which may be repeated. Raises UsageError for an unknown name, and for
    a wrong value.

    >>> assigned_settings(["stall_timeout=10min", "offset_default=latest"])
    {'stall_timeout': datetime.timedelta(seconds=600), 'offset_default': 'latest'}
    """
    texts = pairs("--set", given, "NAME=VALUE", str)
    for name in texts.keys() - setting_types().keys():
        raise _wrong(f"--set {name}={texts[name]}", "a setting of Settings", meant_setting(name), "the command line")
    return {name: _checked(_Location(f"--set {name}", "the command line"), name, text) for name, text in texts.items()}


def meant_setting(name: str) -> str:
    """What to do about a name that no setting has: the setting that it is most like, if there is one.

    >>> meant_setting("comit_interval")
    'did you mean commit_interval?'
    """
    meant = get_close_matches(name, setting_types(), 1)
    return f"did you mean {meant[0]}?" if meant else "correct the name, or leave it out"


def variable_of(setting: str) -> str:
    """The variable that gives a setting.

    >>> variable_of("commit_interval")
    'FLUVIAL_COMMIT_INTERVAL'
    """
    return f"{PREFIX}{setting.upper()}"


def _checked(location: _Location, name: str, text: str) -> Any:
    """The value of a setting. What refuses it names an option or an argument; here it is what was written."""
    try:
        value = _value(location.name, name, text)
        Settings(**{name: value})
    except UsageError as error:
        expected = str(error).partition("\n  expected: ")[2].partition("\n")[0]
        raise location.wrong(text, expected) from None
    return value


def _value(what: str, name: str, text: str) -> Any:
    """The value that a text stands for; the text itself if it is none of the setting."""
    type_ = setting_types()[name]
    parts = (type_, *get_args(type_))
    if timedelta in parts:
        return parsed_duration(what, text)
    if name.endswith("_bytes") and not text.isdecimal():
        return size(what, text)
    if name in _BY_STAGE:
        return _BY_STAGE[name](text.split(","), what)
    if type_ is bool:
        return _FLAGS.get(text.lower(), text)
    return int(text) if int in parts and text.removeprefix("-").isdecimal() else text


def _wrong(wrong: str, expected: str, remedy: str, location: str) -> UsageError:
    return UsageError(explain(wrong, expected, remedy, location))
