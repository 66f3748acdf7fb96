"""Air traffic control: what members are told, when, and by which channel. README.md says how to run it."""

from .pipeline import air_traffic_control, pipeline

__all__ = ["air_traffic_control", "pipeline"]
