"""Sizes for the dims that a model leaves open, as words of a command line give them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ...base.errors import InvalidArgumentsError
from ...base.text.names import did_you_mean

if TYPE_CHECKING:
    from ..tensors import Shape  # which imports onnx_ir

Dims = Mapping[str, tuple[int | str | None, ...] | None]
"""The dims of each input: a size, a name, or None; None for all if their number is not known."""

_PLACE = re.compile(r"(.*)\[(\d+)\]")


def parsed(words: Iterable[str]) -> dict[str, Shape]:
    """Return what is set: ``batch=1,x[2]=64,y=1x3x8`` as a mapping."""
    made: dict[str, Shape] = {}
    for word in (w.strip() for given in words for w in given.split(",")):
        name, equals, value = word.rpartition("=")
        if not word:
            continue
        if not name or not equals or not re.fullmatch(r"\d+(x\d+)*", value):
            raise InvalidArgumentsError(
                f"--set {word}: expected a dim and its size, such as batch=1, or an input and its "
                "shape, such as image=1x3x224x224"
            )
        made[name] = tuple(map(int, value.split("x")))
    return made


def chosen_shapes(
    dims: Dims, given: Mapping[str, Shape]
) -> tuple[dict[str, Shape], dict[str, int]]:
    """Return a shape for each input, and the sizes that nobody gave.

    Sizes may be given for named dims, for dims of an input (``x[2]``), and for whole inputs.
    """
    known: dict[str, Shape | None] = {}
    for name, sizes in dims.items():
        known[name] = None
        for i, dim in enumerate(sizes or ()):
            if not isinstance(dim, int):
                known[f"{name}[{i}]"] = None
                if dim is not None:
                    known[dim] = None
    for name, value in given.items():
        _require(dims, known, name, value)
    made: dict[str, Shape] = {}
    guessed: dict[str, int] = {}
    for name, sizes in dims.items():
        if name in given and (sizes is None or len(given[name]) == len(sizes)):
            made[name] = given[name]
            continue
        if sizes is None:
            raise InvalidArgumentsError(
                f"the model does not say how many dims input {name!r} has; give its shape, as in "
                f"--set {name}=1x3x224x224"
            )
        shape = []
        for i, dim in enumerate(sizes):
            if isinstance(dim, int):
                shape.append(dim)
                continue
            place = f"{name}[{i}]"
            said = given.get(place) or (given.get(dim) if dim is not None else None)
            if said is None:
                said = (guessed.setdefault(dim or place, _guess(dim or "", i, len(sizes))),)
            shape.append(said[0])
        made[name] = tuple(shape)
    return made, guessed


def _require(dims: Dims, known: Mapping[str, object], name: str, value: Shape) -> None:
    told = f"--set {name}={'x'.join(map(str, value))}"
    if name not in known:
        place = _PLACE.fullmatch(name)
        if place and place[1] in dims:
            sizes = dims[place[1]]
            count, i = len(sizes or ()), int(place[2])
            why = f"it has {count} dims" if i >= count else f"that dim is {(sizes or ())[i]}"
            raise InvalidArgumentsError(f"{told}: {why} in the model")
        there = [n for n in known if n not in dims and not _PLACE.fullmatch(n)] or list(known)
        listed = ", ".join(there) or "none, all sizes are fixed"
        hint = did_you_mean(name, known) or f"; there are: {listed}"
        raise InvalidArgumentsError(f"{told}: the model has no such dim{hint}")
    if name not in dims and len(value) != 1:
        raise InvalidArgumentsError(f"{told}: a dim has one size")
    sizes = dims.get(name)
    if name in dims and sizes is not None and len(value) != len(sizes):
        raise InvalidArgumentsError(f"{told}: the input has {len(sizes)} dims, got {len(value)}")


def _guess(name: str, axis: int, ndim: int) -> int:
    """Return a size that makes sense for a dim of this name at this place."""
    word = name.lower()
    if "past" in word or "cache" in word:
        return 16
    if re.search("batch|^n$|^bs$", word):
        return 1
    if re.search("height|width|^h$|^w$", word):
        return 224
    if re.search("seq|len|tok|time|frame|step", word):
        return 128
    if axis == 0:
        return 1
    return 224 if ndim == 4 and axis > 1 else 16
