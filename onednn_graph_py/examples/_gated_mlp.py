"""The data of the gated MLP examples.

A gated MLP is ``(swish(x @ gate) * (x @ up)) @ down``, with ``swish(y) = y * sigmoid(y)``; `ic` is
the width of x, `oc` that of the tensors in between.
"""

import numpy as np
import numpy.typing as npt

from ._run import Array, normal

# The sizes that --all runs instead of oneDNN's 4096 and 14336, with a sixteenth of the weights.
SIZES_IN_ALL = {"ic": 1024, "oc": 3584}


def draw(mb: int, ic: int, oc: int, dtype: npt.DTypeLike) -> tuple[Array, Array, Array]:
    """Draw x, gate and up side by side, and down; products of theirs are about 1."""
    random = np.random.default_rng(0)
    x, combined, down = (
        normal(random, shape, dtype) for shape in ((mb, ic), (ic, 2 * oc), (oc, ic))
    )
    combined *= combined.dtype.type(ic**-0.5)
    down *= down.dtype.type(oc**-0.5)
    return x, combined, down
