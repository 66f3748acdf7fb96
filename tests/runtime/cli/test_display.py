"""What people see of a run."""

import io

import msgspec
import pytest

from fluvial.runtime.cli.display import Rate, moment, one_line, showing, summary
from fluvial.runtime.report import Progress, Report, Sample


def progress(seconds: float, read: int) -> Progress:
    return Progress(phase="running", seconds=seconds, read=read, written=1)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_all_that_is_known_is_on_the_line() -> None:
    full = Progress(
        phase="running", seconds=12.4, read=1_234_567, written=1200, lag=34_000, watermark=1431857103000, in_flight=12
    )
    assert one_line(full, 102_000.4) == (
        "running  12 s  read 1,234,567 (102,000/s)  written 1,200  lag 34,000  "
        "watermark 2015-05-17 10:05:03Z  in flight 12"
    )


def test_a_batch_says_how_far_it_is_while_it_runs() -> None:
    batch = Progress(phase="running", seconds=60.0, read=0, written=0, batch_tasks_done=3, batch_tasks=1024)
    assert one_line(batch, 0.0) == "running  60 s  read 0 (0/s)  written 0  tasks 3 of 1,024"
    assert one_line(msgspec.structs.replace(batch, batch_tasks_done=0, batch_tasks=0), 0.0).endswith("written 0")


def test_restoring_has_a_line_of_its_own() -> None:
    facts = (
        Sample("restored_records", 3_000_000),
        Sample("restore_remaining_records", 2_000_000),
        Sample("restore_seconds", 10.0),
    )
    at_work = Progress(phase="restoring", seconds=12.4, read=0, written=0, facts=facts)
    assert one_line(at_work, 0.0) == "restoring  12 s  state: 3,000,000 records (300,000/s)  2,000,000 to go"
    report = Report(pipeline="p", engine="local", seconds=20.0, restored=5_000_000, restore_seconds=16.0)
    assert summary(report).splitlines()[1] == "  restored 5,000,000 records of state in 16.0 s (312,500/s)"


def test_the_rate_is_that_since_the_last_look() -> None:
    rate = Rate()
    assert [rate.of(progress(*at)) for at in ((1, 100), (3, 500), (3, 500))] == [100, 200, 0]


@pytest.mark.parametrize("watermark", [2**63 - 1, 2**62])
def test_the_end_of_time_has_no_date(watermark: int) -> None:
    assert moment(watermark) == "end"


def test_without_a_terminal_a_line_appears_now_and_then() -> None:
    out = io.StringIO()
    with showing(quiet=False, stream=out) as show:
        assert show is not None
        for second in range(1, 13):
            show(progress(second, 1000 * second))
    assert out.getvalue() == (
        "running  5 s  read 5,000 (1,000/s)  written 1\nrunning  10 s  read 10,000 (1,000/s)  written 1\n"
    )


def test_on_a_terminal_a_line_lives_and_goes() -> None:
    out = Terminal()
    with showing(quiet=False, stream=out) as show:
        assert show is not None
        show(progress(1, 1000))
    assert "read 1,000 (1,000/s)" in out.getvalue()
    assert out.getvalue().endswith("\x1b[?25h\r\x1b[1A\x1b[2K")


def test_quiet_shows_nothing() -> None:
    out = Terminal()
    with showing(quiet=True, stream=out) as show:
        assert show is None
    assert out.getvalue() == ""


def test_the_summary_says_what_its_counts_leave_out() -> None:
    again = Report(pipeline="p", engine="local", seconds=1.0, resumed=True, restarts=2)
    assert summary(again).splitlines()[1:] == [
        "  counts lack what containers did before they were started again (2 times)"
    ]
    later = Report(pipeline="p", engine="local", seconds=1.0, resumed=True)
    assert summary(later).splitlines()[1:] == ["  continued from checkpoints: counts are of this process alone"]


def test_the_summary_counts_by_stream_and_operator() -> None:
    report = Report(
        pipeline="visits",
        engine="local",
        seconds=12.345,
        read={"clicks": 1_000_000},
        written={"visits": 10, "visits-by-user": 999_990},
        late={"window-4": 3},
        failed={"map-2": 1},
        checkpoints=1,
    )
    assert summary(report).splitlines() == [
        "visits on local: 12.3 s, 1 checkpoint",
        "  read     clicks          1,000,000",
        "  written  visits                 10",
        "  written  visits-by-user    999,990",
        "  late     window-4                3",
        "  failed   map-2                   1",
    ]


def test_a_stream_that_is_named_as_an_operator_is_not_called_by_the_operators_label() -> None:
    report = Report(
        pipeline="p", engine="local", seconds=1.0, read={"clicks": 4}, written={"visits": 3}, late={"visits": 2}
    )
    assert summary(report, {"visits": "window visits"}).splitlines()[1:] == [
        "  read     clicks         4",
        "  written  visits         3",
        "  late     window visits  2",
    ]
