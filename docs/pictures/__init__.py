"""The pictures of the operators' pages: each a small run, drawn by `fluvial.runtime.testing.draw_run`."""
