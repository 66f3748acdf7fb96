"""The folder that Java is started from: Python finds PySpark unpacked in it; a Spark of the user's is left alone."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from fluvial.runtime.spark.query.java_process import _Starting
from fluvial.runtime.spark.query.spark_home import _remove_abandoned, home_for, unpacked_home

MADE = "from fluvial.runtime.spark.query.spark_home import unpacked_home; print(unpacked_home(), flush=True)"


def made() -> Path:
    home = unpacked_home()
    assert home is not None
    return home


def test_a_process_with_the_paths_of_java_reads_the_bytecode_of_pyspark() -> None:
    paths = os.pathsep.join(str(path) for path in (made() / "python" / "lib").glob("*.zip"))
    asked = "import pyspark.version as one, py4j.version as two; print(one.__cached__, two.__cached__)"
    found = subprocess.check_output([sys.executable, "-c", asked], env={**os.environ, "PYTHONPATH": paths}, text=True)
    for cached in found.split():
        assert cached.startswith(str(made()))
        assert Path(cached).is_file()


def test_all_else_is_as_pip_has_installed_it() -> None:
    assert (made() / "bin" / "spark-submit").is_file()
    assert list((made() / "jars").glob("spark-core_*.jar"))
    assert {path.name.split("-")[0] for path in (made() / "python" / "lib").iterdir()} == {"pyspark.zip", "py4j"}


def test_it_is_made_once_for_a_process() -> None:
    assert [home_for(master, {}) for master in (None, "local", "local[3]")] == [made()] * 3


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn", "k8s://https://host"])
def test_a_cluster_may_take_the_zip_and_gets_it(master: str) -> None:
    assert home_for(master, {}) is None


@pytest.mark.parametrize("name", ["PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "MASTER"])
def test_where_the_environment_may_name_a_cluster_nothing_is_made(name: str) -> None:
    assert home_for(None, {name: "x"}) is None
    assert home_for("local[2]", {name: "x"}) == made()


def test_a_spark_of_the_users_is_used() -> None:
    assert home_for("local[2]", {"SPARK_HOME": "/opt/spark"}) is None


def test_it_goes_with_its_process_and_not_with_one_that_was_forked() -> None:
    forked = f"{MADE}; import os, sys; child = os.fork(); child or sys.exit(); os.waitpid(child, 0)"
    asked = f"{forked}; print(unpacked_home().exists())"
    home, existed = subprocess.check_output([sys.executable, "-c", asked], text=True).split()
    assert existed == "True"
    assert not Path(home).exists()


@pytest.mark.parametrize("full", [False, True])
def test_spark_starts_without_it_where_nothing_can_be_written(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def link(path: Path, _: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path if full else tmp_path / "none"))
    if full:
        monkeypatch.setattr(Path, "symlink_to", link)
    assert unpacked_home.__wrapped__() is None
    (said,) = caplog.messages
    assert ("No space left on device" if full else "No such file or directory") in said
    assert "set TMPDIR to another folder" in said
    assert list(tmp_path.iterdir()) == []


def test_the_next_start_removes_that_of_a_process_that_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def start(then: str) -> "subprocess.Popen[str]":
        words = [sys.executable, "-c", f"{MADE}; {then}"]
        return subprocess.Popen(words, env=environment, stdin=-1, stdout=-1, text=True)

    with start("input()") as killed, start("input()") as lives:
        assert killed.stdout is not None
        assert lives.stdout is not None
        left, used = Path(killed.stdout.readline().strip()), Path(lives.stdout.readline().strip())
        killed.kill()
        killed.wait()
        with monkeypatch.context() as patched:
            patched.setattr("os.geteuid", lambda: -1)
            _remove_abandoned(tmp_path)  # another user, to whom it does not belong
        assert left.is_dir()
        with start("pass") as other:
            other.communicate()
        assert not left.exists()
        assert (used / "bin").is_dir()
        lives.communicate("\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("home", [None, Path("/opt/of-links")])
def test_java_is_told_where_it_is(home: Path | None) -> None:
    told = {"SPARK_HOME": "/opt/spark"}
    process = _Starting(home).popen(["printenv", "SPARK_HOME"], env=told | dict(os.environ, **told), stdout=-1)
    assert process.communicate()[0].decode().strip() == str(home or "/opt/spark")
