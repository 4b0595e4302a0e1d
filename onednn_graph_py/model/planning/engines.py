"""The engines that models share."""

from __future__ import annotations

from ... import _core
from ...machine.hardware import require

__all__ = ["engine_of", "set_engine"]

_engines: dict[str, _core.engine] = {}


def engine_of(kind: _core.engine.kind) -> _core.engine:
    """Return the engine of a kind that all models share.

    Raises
    ------
    NoDeviceError
        There is no device of that kind.
    """
    if kind.name not in _engines:
        require(kind)
        _engines[kind.name] = _core.engine(kind, 0)
    return _engines[kind.name]


def set_engine(kind: str, engine: _core.engine) -> None:
    """Set the engine of a kind for models that are compiled from now on."""
    _engines[kind] = engine
