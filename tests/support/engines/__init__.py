"""Who runs a pipeline: the oracle, the driver, both engines, or one stage alone; and how two runs are compared."""
