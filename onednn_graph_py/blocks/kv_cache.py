"""The keys and values of earlier tokens, which a decoder keeps: `kv_cache`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.arguments import need_instance, need_whole
from ..base.dtypes import array_dtype
from ..base.errors import InvalidArgumentsError, InvalidShapeError
from ..base.linked import linked_version
from ..model.building.builder import GraphBuilder
from ..model.building.value import Value
from .arguments import FLOATS, need_dtype, need_rank, need_shape, need_type, need_value
from .attention import sdpa
from .parts import part, reshape

Array = npt.NDArray[Any]

_SMALLEST = 64  # the smallest number of tokens for which a model is compiled


# -- the host steps


def _positions(tokens: int, length: Array, shown: Array) -> Array:
    return length + np.arange(shown.shape[tokens])


def _positions_outputs(tokens: int, length: Any, shown: Sequence[int]) -> Any:
    return [((shown[tokens],), "s64")]


def _mask(per_key: int, dtype: str, length: Array, cached: Array, key: Array) -> Array:
    """Hide the keys after each query, and with them the unused part of the cache.

    Heads that share a key follow each other as rows.
    """
    queries = int(length[0]) + np.arange(key.shape[2])
    hidden = np.arange(len(cached)) > queries[:, None]
    rows = np.where(hidden, np.float32(-np.inf), np.float32(0)).astype(array_dtype(dtype))
    return np.tile(rows, (1, 1, per_key, 1))


def _mask_outputs(
    per_key: int, dtype: str, length: Any, cached: Sequence[int], key: Sequence[int]
) -> Any:
    return [((1, 1, -1 if key[2] == -1 else per_key * key[2], cached[0]), dtype)]


def _append(name: str, cached: Array, length: Array, fresh: Array) -> None:
    """Write (batch, heads, tokens, size) behind what is cached, (tokens, batch, heads, size)."""
    first = int(length[0])
    last = first + fresh.shape[2]
    if not 0 <= first <= last <= len(cached):
        raise InvalidShapeError(
            f"{name}: memory for {len(cached)} tokens can't take tokens {first} to {last}"
        )
    cached[first:last] = fresh.transpose(2, 0, 1, 3)


class KVCache:
    """The cached keys and values of a graph; `kv_cache` makes it.

    Attributes
    ----------
    length : Value
        (1,) of s64, an input: the number of tokens that are cached before a call.
    layers : list of (keys, values)
        The inputs that a call updates, (tokens, batch, heads, size) each.
    """

    def __init__(
        self, b: GraphBuilder, layers: int, shape: tuple[int, int, int], dtype: str, name: str
    ) -> None:
        self.length = b.input((1,), "s64", name=f"{name}.length")
        self.layers = [
            (
                b.input((-1, *shape), dtype, name=f"{name}.{i}.keys", updated=True),
                b.input((-1, *shape), dtype, name=f"{name}.{i}.values", updated=True),
            )
            for i in range(layers)
        ]
        self._builder = b
        self._shape = shape
        self._dtype = dtype
        self._name = name
        self._attended = 0
        self._mask: tuple[int, Value] | None = None

    def positions(self, tokens: Value, axis: int = -1) -> Value:
        """Return the positions of new tokens in the sequence.

        Parameters
        ----------
        tokens : Value
            It has a dim of the new tokens.
        axis : int
            That dim.

        Returns
        -------
        Value
            (tokens,) of s64: the number of cached tokens, and so on.
        """
        axis = need_value("kv_cache", "tokens", tokens).axis_of(axis)
        made: Value = self._builder.call(
            partial(_positions, axis),
            self.length,
            tokens,
            outputs=partial(_positions_outputs, axis),
            name=f"{self._name}.positions",
        )
        return made

    def attend(
        self, query: Value, key: Value, value: Value, *, scale: float | None = None
    ) -> Value:
        """Add new keys and values to the next layer's cache, and the attention over all of it.

        A query sees all cached keys, and the new ones up to its own.

        Parameters
        ----------
        query : Value
            (batch, query heads, tokens, size); the number of heads is a multiple of the cache's.
        key, value : Value
            (batch, heads, tokens, size).
        scale : float, optional
            As for `sdpa`.

        Returns
        -------
        Value
            (batch, query heads, tokens, size).

        Raises
        ------
        InvalidArgumentsError
            All layers of the cache have their attention.
        """
        if self._attended == len(self.layers):
            raise InvalidArgumentsError(
                f"kv_cache {self._name!r}: it has {len(self.layers)} layers, and each has its "
                "attention already"
            )
        batch, heads, size = self._shape
        shape = need_rank("kv_cache", "query", need_value("kv_cache", "query", query), 4)
        for what, given in (("query", query), ("key", key), ("value", value)):
            own = need_rank("kv_cache", what, need_value("kv_cache", what, given), 4)
            need_type("kv_cache", what, given, (self._dtype,))
            wanted = (batch, shape[1] if what == "query" else heads, shape[2], size)
            need_shape("kv_cache", what, own, wanted, "(batch, heads, tokens, size)")
        if shape[1] < 1 or shape[1] % heads:
            raise InvalidShapeError(
                f"kv_cache: query must have a multiple of {heads} heads, got {shape[1]}"
            )
        name = f"{self._name}.{self._attended}"
        cached = [
            self._builder.update(
                partial(_append, name), memory, self.length, fresh, name=f"{name}.append"
            )
            for memory, fresh in zip(self.layers[self._attended], (key, value), strict=True)
        ]
        self._attended += 1
        keys, values = (v.transpose((1, 2, 0, 3)) for v in cached)
        per_key = shape[1] // heads
        # A query sees its own key, so no row is masked as a whole.
        options: dict[str, Any] = {
            "scale": scale,
            "masked_rows": "nan",
            "name": part(name, "attention"),
        }
        mask = self._masked(per_key, cached[0], key)
        if per_key == 1:
            return sdpa(query, keys, values, mask=mask, **options)
        rows = -1 if shape[2] == -1 else per_key * shape[2]
        grouped = reshape(query, (batch, heads, rows, size), part(name, "grouped"))
        attention = sdpa(grouped, keys, values, mask=mask, **options)
        return reshape(attention, shape, part(name, "together"))

    def _masked(self, per_key: int, cached: Value, key: Value) -> Value:
        """Return the mask of scores; layers with as many heads for a key have the same."""
        if self._mask is None or self._mask[0] != per_key:
            dtype = "f32" if linked_version() >= (3, 8) else self._dtype
            mask: Value = self._builder.call(
                partial(_mask, per_key, dtype),
                self.length,
                cached,
                key,
                outputs=partial(_mask_outputs, per_key, dtype),
                name=f"{self._name}.mask",
            )
            self._mask = per_key, mask
        return self._mask[1]

    def allocate(self, capacity: int) -> KVMemory:
        """Allocate the memory for one sequence of tokens, or a batch of such sequences.

        Parameters
        ----------
        capacity : int
            The largest number of tokens.
        """
        names = [v.name for pair in self.layers for v in pair]
        return KVMemory(self.length.name, names, self._shape, self._dtype, capacity)


class KVMemory:
    """The memory of a cache, which calls of a model fill; `KVCache.allocate` makes it.

    One thread at a time may use it.

    Attributes
    ----------
    length : int
        The number of cached tokens. A smaller number forgets the later ones.
    capacity : int
        The largest number of tokens.
    """

    def __init__(
        self,
        length: str,
        names: Sequence[str],
        shape: tuple[int, int, int],
        dtype: str,
        capacity: int,
    ) -> None:
        self.capacity = need_whole("kv_cache: capacity", capacity)
        self.length = 0
        self._length_name = length
        self._arrays = {n: np.zeros((self.capacity, *shape), array_dtype(dtype)) for n in names}

    def arrays(self, tokens: int) -> dict[str, Array]:
        """Return the cache's inputs for a call with so many new tokens, by name.

        They cover all tokens, in a number of sizes that does not grow with the tokens: a power of
        two, from 64 on, or the capacity.

        Raises
        ------
        InvalidArgumentsError
            There is no room for them, or `length` was set to an impossible number.
        """
        tokens = need_whole("kv_cache: tokens", tokens, 0)
        if not 0 <= self.length <= self.capacity - tokens:
            raise InvalidArgumentsError(
                f"kv_cache: there is room for {self.capacity} tokens, got {self.length} cached and "
                f"{tokens} new ones"
            )
        needed = max(self.length + tokens, _SMALLEST)
        size = min(1 << (needed - 1).bit_length(), self.capacity)
        return {
            self._length_name: np.array([self.length]),
            **{name: array[:size] for name, array in self._arrays.items()},
        }

    def call(self, model: Callable[..., Any], tokens: int, /, **inputs: Any) -> Any:
        """Call a model with new tokens; they are cached if the call does not fail.

        Parameters
        ----------
        model : CompiledGraph
        tokens : int
            Their number.
        **inputs : arrays
            The model's other inputs.

        Returns
        -------
        numpy.ndarray or tuple
            What the model returns.
        """
        results = model(**self.arrays(tokens), **inputs)
        self.length += tokens
        return results


def kv_cache(
    b: GraphBuilder,
    *,
    layers: int,
    batch: int,
    heads: int,
    size: int,
    dtype: str = "f32",
    name: str = "cache",
) -> KVCache:
    """Add a cache of keys and values to a graph, for a model that continues its own input.

    Its memory (`KVCache.allocate`) is allocated once. A call writes the keys and values of new
    tokens behind those that are there, and moves nothing else. The model is compiled once for each
    power of two of tokens, not for each token.

    Parameters
    ----------
    b : GraphBuilder
    layers : int
        The number of attentions.
    batch, heads, size : int
        Sequences, heads of keys, and elements of a head.
    dtype : str
        ``f32``, ``bf16`` or ``f16``.
    name : str
        Prefix of the names of the inputs that it adds.

    Examples
    --------
    >>> import numpy as np, onednn_graph_py as og
    >>> b = og.GraphBuilder()
    >>> cache = og.blocks.kv_cache(b, layers=1, batch=1, heads=1, size=2)
    >>> q, k, v = (b.input((1, 1, -1, 2), "f32", name=n) for n in "qkv")
    >>> b.output(cache.attend(q, k, v))
    >>> model = b.compile()
    >>> memory = cache.allocate(100)
    >>> x = np.ones((1, 1, 1, 2), np.float32)
    >>> memory.call(model, 1, q=x, k=x, v=x), memory.length
    (array([[[[1., 1.]]]], dtype=float32), 1)
    >>> memory.call(model, 1, q=x, k=x, v=3 * x), memory.length
    (array([[[[2., 2.]]]], dtype=float32), 2)
    """
    need_instance("kv_cache: b", b, GraphBuilder)
    for what, number in (("layers", layers), ("batch", batch), ("heads", heads), ("size", size)):
        need_whole(f"kv_cache: {what}", number)
    need_dtype("kv_cache", "dtype", dtype, FLOATS)
    return KVCache(b, layers, (batch, heads, size), dtype, name)
