"""The oneDNN that this package is linked against."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import _core


class version_t(dict[str, Any]):
    """The linked oneDNN: the fields of ``dnnl_version_t``, as attributes and as a mapping."""

    __slots__ = ()

    @property
    def major(self) -> int:
        """The first number of the release."""
        return int(self["major"])

    @property
    def minor(self) -> int:
        """The second number of the release."""
        return int(self["minor"])

    @property
    def patch(self) -> int:
        """The third number of the release."""
        return int(self["patch"])

    @property
    def hash(self) -> str:
        """The commit that oneDNN was built from, or ``N/A``."""
        return str(self["hash"])

    @property
    def cpu_runtime(self) -> str:
        """The runtime of its CPU engine: ``OpenMP``, ``SYCL``, ..."""
        return str(self["cpu_runtime"])

    @property
    def gpu_runtime(self) -> str:
        """The runtime of its GPU engine, or ``none``."""
        return str(self["gpu_runtime"])

    @property
    def headers(self) -> str:
        """The release of the headers that this package was built with."""
        return str(self["headers"])

    @property
    def release(self) -> str:
        """The three numbers of the release, as in ``3.13.1``."""
        return f"{self.major}.{self.minor}.{self.patch}"


def version() -> version_t:
    """Return the version of the linked oneDNN.

    Returns
    -------
    version_t
        ``major``, ``minor``, ``patch`` and ``hash`` of the library, its ``cpu_runtime`` and
        ``gpu_runtime``, and the release of the ``headers`` that this package was built with.

    Examples
    --------
    >>> import onednn_graph_py as og
    >>> og.version().major == og.version()["major"]
    True
    """
    return version_t(_core.version())


@cache
def linked_version() -> tuple[int, int]:
    """Return the first two numbers of the release, for comparisons."""
    linked = version()
    return linked.major, linked.minor
