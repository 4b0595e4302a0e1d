"""Write a graph as files for other processes: its JSON, and the values of its constants."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...base.errors import InvalidArgumentsError
from ...base.text.files import open_limited
from ...model.building.builder import GraphBuilder
from ...model.building.constant_arrays import aligned_copy
from ...model.building.value import bytes_of
from ...ops.terms import shape_text
from ...reference.rounding import NUMPY_DTYPES
from ...serialization import GraphDocument, save

_PACKED = ("s4", "u4")

BESIDE_ARRAY = 1024  # bytes of a file that an array may take beside its elements

Array = npt.NDArray[Any]


def constant_values(builder: GraphBuilder, document: GraphDocument) -> dict[int, Array]:
    """Return the constants that ops read, by their ids in a document of the builder.

    A document that `from_builder` made may have been rewritten, but a constant must have kept its
    shape and data type.
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
    """Turn inputs of a graph that `to_builder` made into constants, if a file has values for them.

    `save_constants` writes such files; others raise InvalidArgumentsError.
    """
    contents = builder.contents
    values = {v.name.removeprefix("t"): v for v in builder.inputs}
    sizes = {n: bytes_of(v.dtype, v.shape) for n, v in values.items() if v.shape is not None}
    known = {name: size for name, size in sizes.items() if size is not None}
    for name, array in _arrays(path, known):
        value, stored = values[name], array
        if value.dtype not in _PACKED:
            stored = stored.view(NUMPY_DTYPES[value.dtype]).reshape(value.shape or ())
        value.data, value.strides = aligned_copy(stored), None
        contents.constants[value.id] = value
    contents.inputs = [v for v in contents.inputs if v.data is None]


_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What Python decompresses no more of than it is asked for."""


def _arrays(path: str, sizes: Mapping[str, int]) -> Iterator[tuple[str, Array]]:
    """Read the arrays that a file has of some names, each of as many bytes as is said."""
    limit = sum(sizes.values()) + BESIDE_ARRAY * (len(sizes) + 1)
    try:
        with open_limited(path, limit) as file, zipfile.ZipFile(file) as archive:
            members = set(archive.namelist())
            for name, size in sizes.items():
                if f"{name}.npy" not in members:
                    continue
                method = archive.getinfo(f"{name}.npy").compress_type
                if method not in _BOUNDED:
                    raise InvalidArgumentsError(
                        f"array {name!r} is compressed with method {method}; expected none, or "
                        f"{zipfile.ZIP_DEFLATED}"
                    )
                with archive.open(f"{name}.npy") as member:
                    yield name, _bytes(member, name, size)
    except (OSError, MemoryError):
        raise
    except Exception as e:  # zipfile and NumPy raise several
        raise InvalidArgumentsError(f"{path}: {e}") from None


def _bytes(member: IO[bytes], name: str, size: int) -> Array:
    """Read an array of bytes; np.load would make one as large as the file says."""
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        raise InvalidArgumentsError(f"array {name!r} is of version {version}, expected (1, 0)")
    shape, _, dtype = np.lib.format.read_array_header_1_0(member)
    if shape != (size,) or dtype != np.dtype(np.uint8):
        raise InvalidArgumentsError(
            f"array {name!r}: expected {size} of uint8, got {shape_text(shape)} of {dtype}"
        )
    data = member.read(size + 1)  # to the end, where the checksum is compared
    if len(data) != size:
        raise InvalidArgumentsError(f"array {name!r} of {size} bytes has {len(data)}, or more")
    return np.frombuffer(data, np.uint8)


class MathMode(NamedTuple):
    """A floating-point math mode; `apply_to_int` is None to keep the graph's own flag."""

    mode: str
    apply_to_int: bool | None = None

    def __str__(self) -> str:
        if self.apply_to_int is None:
            return self.mode
        return f"{self.mode}:{str(self.apply_to_int).lower()}"


class GraphFiles:
    """The files of a graph in a folder, one for each math mode, or None for the graph's own mode.

    `values` has those of constants, by tensor id.
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
