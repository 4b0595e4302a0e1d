"""torch.compile with oneDNN: ``torch.compile(model, backend="onednn_graph")``."""

from .backend import backend
from .exported import export, trace
from .fallback import FallbackWarning
from .report import GraphReport, Left, RegionReport, Report, report

__all__ = [
    "FallbackWarning",
    "GraphReport",
    "Left",
    "RegionReport",
    "Report",
    "backend",
    "export",
    "report",
    "trace",
]
