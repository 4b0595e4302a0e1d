"""Write a graph as files for other processes: its JSON, and the values of its constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..building.builder import GraphBuilder
from ..building.constant_arrays import aligned_copy
from ..errors import InvalidArgumentsError
from ..ops.terms import shape_text
from ..reference.rounding import NUMPY_DTYPES
from ..serialization import GraphDocument, save

if TYPE_CHECKING:
    from .math_mode import MathMode

__all__ = ["GraphFiles", "bind_constants", "constant_values", "save_constants"]

_PACKED = ("s4", "u4")

Array = npt.NDArray[Any]


def constant_values(builder: GraphBuilder, document: GraphDocument) -> dict[int, Array]:
    """Return the constants that ops read, by their ids in a document of the builder.

    Parameters
    ----------
    builder : GraphBuilder
    document : GraphDocument
        A document that `from_builder` made, possibly rewritten.

    Raises
    ------
    InvalidArgumentsError
        The rewritten document gives a constant another shape or data type.
    """
    read = {v.id for n in builder.nodes for v in n.inputs}
    constants = [v for v in builder.constants if v.id in read]
    if not constants:
        return {}
    ids = (document.input_ports or ())[len(builder.inputs) :]
    tensors = document.tensors()
    made = {}
    for id, value in zip(ids, constants, strict=True):
        told = tensors[id]
        if (told.dims, told.dtype) != (value.shape, value.dtype):
            raise InvalidArgumentsError(
                f"constant {value.name!r} (tensor {id}) has values of {value.dtype} "
                f"{shape_text(value.shape)}, which can't become {told.dtype} "
                f"{shape_text(told.dims)}"
            )
        made[id] = np.asarray(value.data)
    return made


def save_constants(values: Mapping[int, Array], path: Path) -> None:
    """Write constants as bytes, since NumPy's files don't support all their types."""
    raw: dict[str, Any] = {
        str(id): np.ascontiguousarray(a).reshape(-1).view(np.uint8) for id, a in values.items()
    }
    np.savez(path, **raw)


def bind_constants(builder: GraphBuilder, path: str) -> None:
    """Turn inputs into constants if a file has values for them.

    Parameters
    ----------
    builder : GraphBuilder
        A graph that `to_builder` made.
    path : str
        A file that `save_constants` wrote.
    """
    contents = builder.contents
    with np.load(path, allow_pickle=False) as file:
        for value in builder.inputs:
            name = value.name.removeprefix("t")
            if name not in file:
                continue
            stored: Array = file[name]
            if value.dtype not in _PACKED:
                stored = stored.view(NUMPY_DTYPES[value.dtype]).reshape(value.shape or ())
            value.data, value.strides = aligned_copy(stored), None
            contents.constants.append(value)
    contents.inputs = [v for v in contents.inputs if v.data is None]


class GraphFiles:
    """The files of a graph in a folder, one for each math mode.

    Parameters
    ----------
    folder : Path
    document : GraphDocument
    values : mapping of int to numpy.ndarray
        Values of constants, by tensor id.
    modes : sequence of MathMode or None
        None for the graph's own.
    """

    def __init__(
        self,
        folder: Path,
        document: GraphDocument,
        values: Mapping[int, Array],
        modes: Sequence[MathMode | None],
    ) -> None:
        self.folder = folder
        self.outputs = len(document.outputs())
        self.constants: str | None = None
        if values:
            self.constants = str(folder / "constants.npz")
            save_constants(values, Path(self.constants))
        self._graphs: dict[MathMode | None, Path] = {}
        for number, mode in enumerate(modes):
            changed = document
            if mode is not None:
                changed = replace(changed, fpmath_mode=mode.mode)
            if mode is not None and mode.apply_to_int is not None:
                changed = replace(changed, fpmath_mode_apply_to_int=mode.apply_to_int)
            self._graphs[mode] = folder / f"graph-{number}.json"
            save(changed, self._graphs[mode])

    def graph(self, mode: MathMode | None) -> Path:
        """Return the file of a math mode."""
        return self._graphs[mode]
