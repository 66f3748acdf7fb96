"""Checks before a run starts anything; `fluvial check` shows their results.

Comes in: a plan, an engine, a system, and the stored state of the pipeline. Goes out: reasons why the run cannot
start, each with what to do. Read `unsupported` first."""
