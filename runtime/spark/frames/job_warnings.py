"""The warnings about the messages of a batch job, which are those of a run."""

from collections.abc import Collection

from ....planner.plan import Plan
from ...data_warnings.keyless import KeylessWarning
from ...data_warnings.suspicious_times import SuspiciousTimes
from ..counts import Counts
from ..query.progress import latest_times


def job_warnings(plan: Plan, counts: Counts, stamped: Collection[str]) -> dict[str, str]:
    """Log the warnings about what a batch job has counted. Returns those of its report, by subject. The streams in
    `stamped` have a column with times of their own."""
    times, of = SuspiciousTimes(plan, stamped=stamped), counts.by_kind
    times.finish(latest_times(plan, counts.watermarks), of.get("given", {}), of.get("late", {}))
    KeylessWarning(plan.pipeline).check([{table: number for table, number in of.get("keyless", {}).items() if number}])
    return times.warnings
