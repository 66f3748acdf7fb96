"""The table of metrics as the page of the guide has it; run it to print the table after a wanted change."""

from fluvial.runtime.metrics.definitions import METRICS, MetricDefinition

HEAD = "| metric | kind | labels | engine | meaning |\n|---|---|---|---|---|\n"


def table() -> str:
    """All rows, in the order of the code."""
    return HEAD + "".join(map(_row, METRICS))


def _row(measure: MetricDefinition) -> str:
    labels = ", ".join(f"`{label}`" for label in measure.labels) or "none"
    engine = "both" if len(measure.engines) == 2 else measure.engines[0]
    return f"| `{measure.shown}` | {measure.kind} | {labels} | {engine} | {measure.meaning} |\n"


if __name__ == "__main__":
    print(table(), end="")
