"""torch.compile with oneDNN: ``torch.compile(model, backend="onednn_graph")``."""

from ..base.text.names import needs

try:
    from .backend import backend
except ModuleNotFoundError as e:
    if e.name != "torch":
        raise
    raise needs(__name__, "torch", "torch") from None
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
