"""What is checked before a run starts anything, and what `fluvial check` shows.

Comes in: a plan, an engine, a system, and what is kept of the pipeline. Goes out: reasons why the run cannot begin,
each with what to do. Read `unsupported` first."""
