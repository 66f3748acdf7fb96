"""One progress and one report of several containers."""

from collections.abc import Iterable, Mapping, Sequence

from ..metrics.samples import lags_by_stream
from ..report import Progress, Report, hottest_first, sums


def merged_progress(parts: Sequence[Progress], phase: str, seconds: float) -> Progress:
    """The progress of all containers together.

    >>> parts = [Progress(phase="running", seconds=1.0, read=2, written=number) for number in (1, 2)]
    >>> merged = merged_progress(parts, "2 of 2 containers", 2.0)
    >>> merged.read, merged.written
    (4, 3)
    """
    unknown = any(part.lag is None for part in parts)
    return Progress(
        phase=phase,
        seconds=seconds,
        read=sum(part.read for part in parts),
        written=sum(part.written for part in parts),
        lag=None if unknown else sum(lags_by_stream(parts).values()),
        watermark=min((part.watermark for part in parts if part.watermark is not None), default=None),
        in_flight=sum(part.in_flight for part in parts),
        keyless=sums(part.keyless for part in parts),
        warnings=merged_warnings(part.warnings for part in parts),
    )


def merged_report(pipeline: str, parts: Sequence[Report], seconds: float, restarts: int = 0) -> Report:
    """The report of all containers together, which were restarted so often."""
    return Report(
        pipeline=pipeline,
        engine="local",
        seconds=seconds,
        read=sums(part.read for part in parts),
        written=sums(part.written for part in parts),
        late=sums(part.late for part in parts),
        failed=sums(part.failed for part in parts),
        keyless=sums(part.keyless for part in parts),
        checkpoints=sum(part.checkpoints for part in parts),
        restored=sum(part.restored for part in parts),
        restore_seconds=max((part.restore_seconds for part in parts), default=0.0),
        resumed=any(part.resumed for part in parts),
        restarts=restarts,
        drained=any(part.drained for part in parts),
        shut_down=any(part.shut_down for part in parts),
        warnings=merged_warnings(part.warnings for part in parts),
        hot_keys=hottest_first(key for part in parts for key in part.hot_keys),
    )


def merged_warnings(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Each warning once: of each subject the first one."""
    warnings: dict[str, str] = {}
    for part in parts:
        warnings = {**part, **warnings}
    return warnings
