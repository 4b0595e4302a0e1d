"""The devices that oneDNN can run on here, and the reasons why others are missing.

>>> import onednn_graph_py as og
>>> og.devices()["cpu"][0].engine
True
"""

from .device import Device, Devices, Missing
from .find import devices, require

__all__ = ["Device", "Devices", "Missing", "devices", "require"]
