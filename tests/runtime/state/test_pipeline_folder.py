"""Whether `state_dir` is a folder of this machine or the URL of another file system."""

import pytest

from fluvial.planner import Settings
from fluvial.runtime.state.pipeline_folder import remote_folder


@pytest.mark.parametrize("url", ["hdfs://host:8020/x", "dbfs:///x", "dbfs:/x", "hdfs:/x", "s3a://bucket/x", "file:/x"])
def test_a_url_is_one_with_one_slash_too(url: str) -> None:
    assert remote_folder(Settings(state_dir=url)) == url


@pytest.mark.parametrize("folder", [None, "state", "/var/state", "./a:b/c", "C:/state", "10:30/state"])
def test_anything_else_is_a_folder(folder: str | None) -> None:
    assert remote_folder(Settings(state_dir=folder)) is None
