"""In properties a value is large from 64 bytes on, so that random pipelines keep some of their state in chunks."""

from collections.abc import Iterator

import pytest

from fluvial.runtime.kernel import chunked_values, state_cache


@pytest.fixture(scope="module", autouse=True)
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (chunked_values, state_cache):
            patch.setattr(module, "CHUNK", 64)
        patch.setattr(chunked_values, "LAST_CHUNK", 16)
        patch.setattr(chunked_values, "HEAD", 8)
        yield
