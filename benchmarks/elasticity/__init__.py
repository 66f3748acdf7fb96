"""What elasticity, standbys and the autosizer give, measured: `python -m benchmarks.elasticity`."""
