"""How large a record of a topic may be, by the settings of the topic and of the client; and what compression gains."""

import random
import sys

import pytest

from fluvial.runtime.systems.kafka.clients import LONGEST_BATCH
from fluvial.runtime.systems.kafka.record_limits import Compressed, batch_of, limit_of

MIB = 1 << 20
CODECS = ("gzip", "lz4", "snappy", "zstd")
LONG = b"a text that can be made shorter, " * 60_000  # 2 MB
NOISE = random.Random(7).randbytes(2_000_000)


def topic(limit: int, **others: str) -> dict[str, str | None]:
    return {"max.message.bytes": str(limit), "compression.type": "producer", **others}


def test_the_topic_says_how_large_a_record_may_be() -> None:
    limit = limit_of("out", topic(MIB), {})
    assert (limit.largest, limit.fits) == (MIB - 512, None)
    assert "raise max.message.bytes of the topic (kafka-configs.sh --alter --topic out --add-config" in limit.remedy


@pytest.mark.parametrize("told", [{}, topic(64 * MIB)])
def test_the_client_does_where_the_topic_takes_more(told: dict[str, str | None]) -> None:
    assert limit_of("out", told, {}).largest == 32 * MIB - 512
    limit = limit_of("out", told, {"message.max.bytes": 2 * MIB, "compression.type": "lz4"})
    assert (limit.largest, limit.fits) == (2 * MIB - 512, None)
    assert limit.remedy == "raise message.max.bytes among the settings of the client"


@pytest.mark.parametrize("setting", ["compression.type", "compression.codec"])
def test_a_client_that_compresses_may_send_more(setting: str) -> None:
    limit = limit_of("out", topic(MIB), {setting: "lz4"})
    assert limit.fits == Compressed("lz4", MIB - 512, 32 * MIB - 512)


def test_not_where_the_broker_compresses_anew() -> None:
    assert limit_of("out", topic(MIB, **{"compression.type": "uncompressed"}), {"compression.type": "lz4"}).fits is None
    assert limit_of("out", topic(MIB, **{"compression.type": "lz4"}), {"compression.type": "lz4"}).fits is not None


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_what_can_be_made_shorter_fits(monkeypatch: pytest.MonkeyPatch, codec: str, arrow: bool) -> None:
    if not arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    fits = Compressed(codec, MIB, 32 * MIB)
    assert fits(b"k", LONG, (("h", b"x"),))
    assert not fits(b"k", NOISE, ())
    assert not fits(None, None, (("h", NOISE),))


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize(
    ("codec", "value", "sent"),
    [
        ("lz4", NOISE[:40_000] * 25, 621_000),  # each block of 64 KB repeats the noise in part
        ("snappy", NOISE[:40_000] * 25, 635_000),
        ("lz4", b"x" * 20_000_000, 82_000),
        ("snappy", b"x" * 20_000_000, 938_000),
    ],
)
def test_what_the_client_makes_longer_than_another_library_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, codec: str, value: bytes, sent: int, arrow: bool
) -> None:
    if not arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert not Compressed(codec, sent, 32 * MIB)(None, value, ())
    assert Compressed(codec, 4 * sent, 32 * MIB)(None, value, ())


def test_snappy_of_the_client_makes_more_of_numbers_than_that_of_arrow() -> None:
    pytest.importorskip("pyarrow")
    random_numbers = random.Random(5)
    rows = [",".join(f"{random_numbers.gauss(100, 10):.3f}" for _ in range(8)) for _ in range(6_250)]
    data = "\n".join(rows).encode()
    assert not Compressed("snappy", int(arrow_bytes(data) * 1.0235), 32 * MIB)(None, data, ())


def arrow_bytes(data: bytes) -> int:
    return len(pytest.importorskip("pyarrow").compress(data, codec="snappy", asbytes=True))


def test_a_topic_that_compresses_makes_noise_longer() -> None:
    for kept, less in (("producer", 0), ("uncompressed", 0), ("gzip", 8 * 1024 - 1)):
        limit = limit_of("out", topic(8 * MIB, **{"compression.type": kept}), {})
        assert limit.largest == 8 * MIB - 512 - less


def test_the_level_of_the_client_counts() -> None:
    digits = NOISE[: MIB * 31 // 32].hex().encode()  # of which level 3 makes more than level 1
    conf = {"compression.type": "zstd"}
    usual, fast = (limit_of("out", topic(MIB), {**conf, **level}).fits for level in ({}, {"compression.level": 1}))
    assert usual is not None
    assert fast is not None
    assert not usual(None, digits, ())
    assert fast(None, digits, ())


def test_not_even_compressed_may_it_be_more_than_the_client_takes() -> None:
    assert not Compressed("zstd", MIB, len(LONG) - 1)(None, LONG, ())


def test_a_batch_is_as_small_as_the_smallest_topic_wants() -> None:
    assert batch_of([]) == batch_of([topic(MIB), {}]) == LONGEST_BATCH
    assert batch_of([topic(MIB), topic(100_000)]) == 100_000 - 512
    assert batch_of([topic(1)]) == 1
