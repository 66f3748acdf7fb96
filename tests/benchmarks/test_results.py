"""What was measured becomes medians, tables and a picture; the documentation shows the figures that are kept."""

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.cell import Ending, Measured
from benchmarks.latency import told
from benchmarks.oracle import Verdict
from benchmarks.page import PAGE, PICTURE, README, figures, published, summary
from benchmarks.picture import picture
from benchmarks.results import LATEST, Latency, Results, Share, load, save
from benchmarks.rounds import summed_up
from benchmarks.soak import Sample, growth, judged

WHOLE, NOTHING = Verdict(10, 0, 0, 0), Verdict(0, 10, 0, 0)


def run(seconds: float, ending: Ending = "done", verdict: Verdict = WHOLE, messages: int = 1_000) -> Measured:
    return Measured(ending=ending, messages=messages, seconds=seconds, verdict=verdict, cpu_seconds=seconds)


def found(**rounds: list[Measured]) -> Results:
    runs = summed_up("W1", [dict(zip(rounds, row, strict=True)) for row in zip(*rounds.values(), strict=True)])
    machine = {"processor": "a processor", "cores": "2", "memory": "1 GB"}
    latency = told("raw", 1_000, [3, 1, 2])
    assert isinstance(latency, Latency)
    versions = {"python": "3", "kafka": "4", "fluvial": "0"}
    parts = [Share(engine=engine, workload="W1", part="all together", nanoseconds=1_234) for engine in rounds]
    return Results(
        commit="c",
        date="2026-11-23",
        versions=versions,
        machine=machine,
        messages=1_000,
        runs=runs,
        latencies=[latency],
        shares=parts,
    )


def test_ratios_are_of_the_same_round_and_medians_of_all() -> None:
    loop, local = found(raw=[run(1), run(4), run(2)], local=[run(2), run(8), run(2)]).runs
    assert (loop.messages_per_second, loop.ratio_to_raw) == (500, 1.0)
    assert (local.messages_per_second, local.ratio_to_raw, local.rounds) == (500, 0.5, [500, 125, 500])


def test_spark_is_compared_with_spark() -> None:
    runs = found(raw=[run(1)], pyspark=[run(4)], spark=[run(5)]).runs
    assert [run.ratio_to_pyspark for run in runs] == [None, None, 0.8]


@pytest.mark.parametrize(
    ("measured", "speed", "correct", "partial"),
    [
        (run(2), 500, True, False),
        (run(2, verdict=NOTHING), 500, False, False),
        (run(2, "limit", NOTHING, 100), 50, False, True),
        (run(0, "failed", NOTHING), 0, False, False),
    ],
)
def test_what_went_wrong_is_no_success(measured: Measured, speed: int, correct: bool, partial: bool) -> None:
    _, local = found(raw=[run(1)], local=[measured]).runs
    assert (local.messages_per_second, local.output_correct, local.partial) == (speed, correct, partial)


def test_figures_come_back_from_their_file(tmp_path: Path) -> None:
    kept = found(raw=[run(1)], quix=[run(9)])
    save(kept, tmp_path / "new" / "results.json")
    assert load(tmp_path / "new" / "results.json") == kept
    assert "ratio_to_raw" in (tmp_path / "new" / "results.json").read_text()


def test_tables_and_picture_name_each_contender_and_mark_what_failed() -> None:
    kept = found(raw=[run(1)], quix=[run(9, "limit", NOTHING)], faust=[run(1, "failed", NOTHING)])
    page, drawn = figures(kept), picture(kept)
    assert "| Quix Streams | 111\\* (0.11) |" in page
    assert "| Faust | failed |" in page
    assert "| Quix Streams: all together | 1,234 |" in page
    texts = [element.text or "" for element in ElementTree.fromstring(drawn).iter()]
    assert {"a loop by hand", "Quix Streams", "Faust", "failed"} <= set(texts)


def test_a_target_stands_behind_what_fluvial_has_reached() -> None:
    runs = summed_up("W6", [{"raw": run(1), "local": run(4), "quix": run(9)}])
    page = figures(msgspec.structs.replace(found(raw=[run(1)]), runs=runs))
    assert "| Fluvial | 250 (0.25, target 0.30) |" in page
    assert page.count("target") == 1


def test_figures_of_a_busy_machine_say_so() -> None:
    busy = msgspec.structs.replace(run(1), noise=0.4)
    assert "not quiet.** Others used up to 40%" in figures(found(raw=[busy]))
    assert "not quiet" not in figures(found(raw=[run(1)]))


def test_the_documentation_shows_the_figures_that_are_kept() -> None:
    kept = load(LATEST)
    assert published(PAGE) == figures(kept), "run `python -m benchmarks --publish`"
    assert published(README) == summary(kept), "run `python -m benchmarks --publish`"
    assert PICTURE.read_text(encoding="utf-8") == picture(kept)


def test_one_in_a_hundred_may_be_later_than_the_99th_percentile() -> None:
    latency = told("raw", 1_000, [1] * 989 + [7] * 10 + [99])
    assert isinstance(latency, Latency)
    assert (latency.p50_ms, latency.p99_ms, latency.worst_ms, latency.samples) == (1, 7, 99, 1_000)
    assert told("raw", 1_000, []) == "there was no output in time"


@given(st.integers(-50, 50), st.integers(0, 1_000), st.integers(3, 50))
def test_the_growth_of_a_line_is_its_slope(slope: int, level: int, count: int) -> None:
    times = [float(at) for at in range(count)]
    line = growth(times, [level + slope * at for at in times])
    assert line.per_hour == pytest.approx(slope * 3600)
    assert line.is_flat == (slope <= 0)


def test_samples_that_scatter_are_flat_and_those_that_rise_are_not() -> None:
    def samples(rss: list[float]) -> list[Sample]:
        return [Sample(float(at), mb, 4, 20, at) for at, mb in enumerate(rss)]

    saw = [100.0 + at % 7 for at in range(60)]
    assert judged(samples(saw), 1, 60, 5.0).flat
    assert not judged(samples([mb + at / 2 for at, mb in enumerate(saw)]), 1, 60, 5.0).flat
    assert not judged(samples(saw), 1, 60, 5.0, "it ended").flat
    assert not judged(samples(saw), 1, 60, None).kept_up
    filling = [float(at) for at in range(30)] + saw[30:]
    assert judged(samples(filling), 1, 60, 5.0, warm=30).flat
    assert not judged(samples(filling), 1, 60, 5.0).flat
    assert msgspec.json.encode(judged([], 1, 60, None))
