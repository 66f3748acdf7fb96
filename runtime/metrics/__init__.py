"""The metrics of a run, in the format of Prometheus, over HTTP.

Comes in: `Progress` with its samples, which an engine reports about once a second. Goes out: an HTTP server with
metrics, health, the plan and rows of tables. Read `definitions` first, then `collector` and `http`."""
