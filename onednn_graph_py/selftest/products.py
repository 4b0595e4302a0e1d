"""MatMul of ranks 2 to 5, followed by ops whose operands broadcast along any dims."""

from __future__ import annotations

from ..building.builder import GraphBuilder
from ..linked import linked_version
from .draft import Arrays, Dims, Draft

__all__ = ["case"]

_SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17)


def _matrix(d: Draft) -> tuple[int, int, int]:
    """Draw the rows, inner dim and columns: sometimes one, sometimes more than a tile."""
    if d.chance(0.25):
        return d.random.randint(17, 40), d.random.randint(60, 130), d.random.randint(33, 66)
    rows, inner, columns = (d.pick(_SIZES) for _ in range(3))
    if d.chance(0.2):
        rows = 1
    if d.chance(0.15):
        columns = 1
    return rows, inner, columns


def _batches(d: Draft, rank: int) -> tuple[Dims, Dims]:
    """Draw the leading dims of the source and of the weights."""
    batch = tuple(d.pick((1, 2, 2, 3, 4)) for _ in range(rank - 2))
    kind = d.pick(("two dims", "two dims", "same", "same", "ones", "some", "source"))
    if kind == "two dims":
        return batch, ()
    if kind == "ones":
        return batch, (1,) * len(batch)
    thin = tuple(n if d.chance(0.5) else 1 for n in batch)
    if kind == "some":
        return batch, thin
    return (thin, batch) if kind == "source" else (batch, batch)


def case(seed: int) -> tuple[GraphBuilder, Arrays]:
    """Draw a product with up to 3 ops after it."""
    d = Draft(
        "products", seed, "strict" if seed % 6 else ("bf16", "any", "f16", "tf32")[seed // 6 % 4]
    )
    rows, inner, columns = _matrix(d)
    source_batch, weights_batch = _batches(d, d.pick((2, 3, 3, 4, 4, 4, 5)))
    across, turned = d.chance(0.45), d.chance(0.35)
    source = (*source_batch, *((inner, rows) if across else (rows, inner)))
    weights = (*weights_batch, *((columns, inner) if turned else (inner, columns)))
    dtype, quantized = d.float_type(), d.chance(0.3)
    if quantized:
        types = d.pick(("u8", "s8")), "s8"
        x = d.dequantized(source, types[0], zero_point=d.zero_point(types[0]), of=dtype)
        axis = len(weights) - (2 if turned else 1) if d.chance(0.4) else None
        w = d.dequantized(weights, types[1], axis=axis, of=dtype)
    else:
        x = d.input(source, dtype, strided=d.chance(0.1))
        w = d.parameter(weights, dtype, inner)
    bias = [d.parameter((columns,), dtype)] if d.chance(0.2) else []
    wide = d.chance(0.15) and linked_version() >= (3, 8) and not quantized
    y = x.matmul(w, *bias, transpose_a=across, transpose_b=turned, dtype="f32" if wide else None)
    y = d.chain(y, 3)
    return d.made(d.quantized(y) if quantized and d.chance(0.5) else y)
