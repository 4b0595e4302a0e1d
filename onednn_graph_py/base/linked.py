"""The oneDNN that this package is linked against."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import _core


class version_t(dict[str, Any]):
    """The linked oneDNN: the fields of ``dnnl_version_t``, as attributes and as a mapping.

    Attributes
    ----------
    major, minor, patch : int
        The numbers of the release.
    hash : str
        The commit that oneDNN was built from, or ``N/A``.
    cpu_runtime, gpu_runtime : str
        The runtimes of its engines: ``OpenMP``, ``SYCL``, ...; or ``none``.
    headers : str
        The release of the headers that this package was built with.
    """

    __slots__ = ()

    major: int
    minor: int
    patch: int
    hash: str
    cpu_runtime: str
    gpu_runtime: str
    headers: str

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"version_t has no attribute {name!r}")
        return self[name]

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
