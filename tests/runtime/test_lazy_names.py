"""Names of a package that are imported when they are used."""

import sys
from types import ModuleType

import pytest

from fluvial.runtime.lazy_names import lazy_names


def test_a_name_is_imported_once_and_another_is_none_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package, home = ModuleType("lazily"), ModuleType("lazily.home")
    home.value = [1]  # type: ignore[attr-defined]
    package.__path__ = []
    monkeypatch.setitem(sys.modules, "lazily", package)
    monkeypatch.setitem(sys.modules, "lazily.home", home)
    named = lazy_names("lazily", {"value": ".home"})
    assert "value" not in vars(package)
    assert named("value") is vars(package)["value"] is vars(home)["value"]
    with pytest.raises(AttributeError, match="module 'lazily' has no attribute 'other'"):
        named("other")
