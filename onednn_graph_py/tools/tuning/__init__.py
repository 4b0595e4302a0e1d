"""The timing cache: what this machine measured of the ways to run groups of ops.

``compile(tune=)`` fills it. Entries hold for a build of oneDNN, an instruction set, a CPU and a
number of threads; others are not seen. ``ONEDNN_GRAPH_PY_CACHE`` names the folder of all caches.
"""

from .measurements import Measurement, clear, export, load, measurements, show

__all__ = ["Measurement", "clear", "export", "load", "measurements", "show"]
