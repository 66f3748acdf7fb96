"""Where there can be no broker, the reason is told."""

from pathlib import Path

import pytest

from kafka import broker_jars


def test_without_java_there_is_no_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "no Java" in (broker_jars.lacking() or "")


@pytest.mark.parametrize("jars", broker_jars.JARS.values(), ids=broker_jars.JARS)
@pytest.mark.parametrize(("alike", "reason"), [(True, None), (False, "no Maven")])
def test_maven_is_needed_where_the_jars_are_not_those_of_the_pom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, jars: broker_jars.Jars, alike: bool, reason: str | None
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "pom.xml").write_bytes(jars.pom.read_bytes() if alike else b"<project/>")

    lacking = broker_jars.lacking(broker_jars.Jars(jars.pom, tmp_path))

    assert (reason is None) == (lacking is None)
    assert (reason or "") in (lacking or "")
