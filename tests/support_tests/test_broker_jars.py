"""Where there can be no broker, the reason is told."""

from pathlib import Path

import pytest

import broker_jars


def test_without_java_there_is_no_broker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "no Java" in (broker_jars.lacking() or "")


@pytest.mark.parametrize(("pom", "reason"), [(broker_jars.POM.read_bytes(), None), (b"<project/>", "no Maven")])
def test_maven_is_needed_where_the_jars_are_not_those_of_the_pom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pom: bytes, reason: str | None
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(broker_jars, "JARS", tmp_path)
    (tmp_path / "pom.xml").write_bytes(pom)

    lacking = broker_jars.lacking()

    assert (reason is None) == (lacking is None)
    assert (reason or "") in (lacking or "")
