"""The old name of `onednn_graph_py.frontends`, for one version."""

import warnings
from typing import Any

from . import frontends


def __getattr__(name: str) -> Any:
    if name not in frontends.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    message = f"{__name__}.{name} is onednn_graph_py.frontends.{name} now"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return getattr(frontends, name)
