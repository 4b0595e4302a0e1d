"""Random modules of torch as exported models, whose results eager mode judges.

``python torch_export_draws.py COUNT [FIRST]`` tests as many, and prints what is wrong.
"""

import copy
import random
import warnings
from collections.abc import Sequence

import numpy as np
import torch
from front_end_draws import main
from torch_draws import Drawn, copies, drawn, how_far, in_f64, small, tensor

import onednn_graph_py as og
from onednn_graph_py.torch import export
from onednn_graph_py.torch.arrays import array_of, tensor_of

ALLOWED = ("changes inputs_", "no op and no NumPy function")
"""What may be said of a module that does not export."""


def _resized(
    pick: random.Random, inputs: Sequence[torch.Tensor], unknown: Sequence[Sequence[int]]
) -> list[torch.Tensor]:
    """Return inputs of other sizes; what was of one size stays so."""
    more: dict[int, int] = {}
    made = []
    for x, dims in zip(inputs, unknown, strict=True):
        grow = [more.setdefault(n, pick.randint(0, 3)) if i in dims else 0
                for i, n in enumerate(x.shape)]  # fmt: skip
        sizes = [n + g for n, g in zip(x.shape, grow, strict=True)]
        made.append(tensor(pick, *sizes, dtype=x.dtype))
    return made


def compared(
    m: Drawn,
    model: og.CompiledGraph,
    inputs: Sequence[torch.Tensor],
    want: Sequence[torch.Tensor],
) -> str | None:
    """Compare one call with eager mode's results."""
    exact, _ = in_f64(m, inputs)
    got = model(*(array_of(x).copy() for x in inputs))
    got = got if isinstance(got, tuple) else (got,)
    for i, (a, made, c) in enumerate(zip(want, got, exact, strict=True)):
        b = tensor_of(np.asarray(made).copy())
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"output {i}: {tuple(b.shape)} {b.dtype}, not {tuple(a.shape)} {a.dtype}"
        if a.numel() and a.isfinite().all() and c.isfinite().all() and (far := how_far(a, b, c)):
            return f"output {i} of {tuple(a.shape)}: {far}"
    return None


def verdict_of(seed: int) -> tuple[str, str]:
    """Test a module: "right", "wrong", "refused" or "empty", and what is wrong."""
    m = drawn(seed)
    pick = random.Random(seed)
    if not m.steps:
        return "empty", ""
    open_dims = [[i for i, n in enumerate(x.shape) if n > 1] for x in m.inputs]
    unknown = [pick.sample(dims, min(pick.choice((0, 1, 1, 9)), len(dims))) for dims in open_dims]
    shapes = (tuple(dict.fromkeys(dims, torch.export.Dim.AUTO) for dims in unknown),)
    with torch.no_grad(), warnings.catch_warnings(), small(seed):
        warnings.simplefilter("ignore")
        try:
            model = export(copy.deepcopy(m), tuple(copies(m.inputs)), dynamic_shapes=shapes)
        except og.InvalidGraphError as e:
            return ("empty", "") if any(a in str(e) for a in ALLOWED) else ("refused", str(e))
        sets = [m.inputs, *(_resized(pick, m.inputs, unknown) for _ in range(2))]
        for number, inputs in enumerate(sets):
            try:
                want = m(*copies(inputs))
            except RuntimeError:  # eager mode refuses these sizes
                continue
            try:
                wrong = compared(m, model, inputs, want)
            except og.InvalidShapeError as e:  # torch made a dim known
                if number:
                    continue
                return "refused", str(e)
            if wrong is not None:
                sizes = ", ".join(str(tuple(x.shape)) for x in inputs)
                return "wrong", f"for {sizes}: {wrong}"
    return "right", ""


if __name__ == "__main__":
    main(verdict_of)
