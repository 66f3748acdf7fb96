"""What a pipeline does: run it, on the local engine or on Spark."""

from ..planner.settings import Settings
from .report import Progress, Report
from .run import run
from .systems import open_system

__all__ = ["Progress", "Report", "Settings", "open_system", "run"]
