"""Write a graph as files for other processes: its JSON, and the values of its constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import InvalidArgumentsError
from ...model.building.builder import GraphBuilder
from ...model.building.constant_arrays import aligned_copy
from ...model.building.value import bytes_of
from ...reference.rounding import NUMPY_DTYPES
from ...serialization import GraphDocument, save

_PACKED = ("s4", "u4")

Array = npt.NDArray[Any]


def constant_values(builder: GraphBuilder, document: GraphDocument) -> dict[int, Array]:
    """Return the constants that ops read, by their ids in the builder's document."""
    read = {v.id for n in builder.nodes for v in n.inputs}
    constants = [v for v in builder.constants if v.id in read]
    ids = (document.input_ports or ())[len(builder.inputs) :]
    return {i: np.asarray(v.data) for i, v in zip(ids, constants, strict=True)}


def _file_of(folder: Path, name: str) -> Path:
    return folder / f"constant-{name}.bin"


def save_constants(values: Mapping[int, Array], folder: Path) -> None:
    """Write the bytes of constants, a file each, since NumPy's files don't support all types."""
    for id, array in values.items():
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).tofile(_file_of(folder, str(id)))


def bind_constants(builder: GraphBuilder, folder: Path) -> None:
    """Turn inputs of a graph that `to_builder` made into constants, if there are files for them.

    `save_constants` writes them; others raise InvalidArgumentsError.
    """
    contents = builder.contents
    for value in builder.inputs:
        file = _file_of(folder, value.name.removeprefix("t"))
        size = None if value.shape is None else bytes_of(value.dtype, value.shape)
        if size is None or not file.is_file():
            continue
        if file.stat().st_size != size:
            raise InvalidArgumentsError(f"{file}: expected {size} bytes")
        stored = np.fromfile(file, np.uint8)
        if value.dtype not in _PACKED:
            stored = stored.view(NUMPY_DTYPES[value.dtype]).reshape(value.shape or ())
        value.data, value.strides = aligned_copy(stored), None
        contents.constants[value.id] = value
    contents.inputs = [v for v in contents.inputs if v.data is None]


class GraphFiles:
    """The files of a graph in a folder, one for each math mode, or None for the graph's own mode.

    `values` has those of constants, by tensor id.
    """

    def __init__(
        self,
        folder: Path,
        document: GraphDocument,
        values: Mapping[int, Array],
        modes: Sequence[str | None],
    ) -> None:
        self.folder = folder
        self.outputs = len(document.outputs())
        self.constants: str | None = None
        if values:
            self.constants = str(folder)
            save_constants(values, folder)
        self._graphs: dict[str | None, Path] = {}
        for number, text in enumerate(modes):
            changed = document
            if text is not None:
                mode, colon, integers = text.partition(":")
                changed = replace(changed, fpmath_mode=mode)
                if colon:
                    changed = replace(changed, fpmath_mode_apply_to_int=integers == "true")
            self._graphs[text] = folder / f"graph-{number}.json"
            save(changed, self._graphs[text])

    def graph(self, mode: str | None) -> Path:
        """Return the file of a math mode."""
        return self._graphs[mode]
