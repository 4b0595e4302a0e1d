"""The reference against torch's own ops, on the random graphs that models are tested with."""

import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

from selftest_families import DRAWS
from torch_ops import TABLE, evaluate

from onednn_graph_py.model.building.foreign import ForeignNode
from onednn_graph_py.model.checking.verify import reference_values
from onednn_graph_py.reference import call_of, implemented, round_to
from onednn_graph_py.reference import evaluate as ours
from onednn_graph_py.tools.selftest import FAMILIES

# Interpolation computes positions in f32, as oneDNN does.
CLOSE = {"Interpolate": 1e-6, "InterpolateBackward": 1e-6}


def disagreement(node, known):
    """Return what torch makes of an op that the reference does not, or None."""
    given = [known[v.id] for v in node.inputs]
    call = call_of(node.kind, given, node.attrs, [(None, v.dtype) for v in node.outputs])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"var\(\): degrees of freedom")  # of no elements
            theirs = evaluate(call, given)
    except RuntimeError:
        if all(a.size for a in given):
            raise
        return None  # torch refuses some tensors without elements
    for i, (one, other) in enumerate(zip(ours(call, given), theirs, strict=True)):
        if other.dtype.kind == "i":  # saturated
            one = round_to(one, call.outputs[i].dtype).astype(np.int64)
        size = float(np.abs(one[np.isfinite(one)]).max(initial=1.0)) if one.dtype.kind == "f" else 0
        close = CLOSE.get(node.kind, 1e-11) * size
        if not np.allclose(one.astype(float), other.astype(float), 1e-11, close, equal_nan=True):
            return f"output {i} of {call}: {one.ravel()[:8]}, torch {other.ravel()[:8]}"
    return None


@pytest.mark.parametrize("family", DRAWS)
def test_torch_agrees_with_the_reference(family):
    for seed in range(DRAWS[family]):
        drawn = FAMILIES[family](seed)
        known = reference_values(drawn.builder, drawn.calls[0])
        for node in drawn.builder.nodes:
            if not isinstance(node, ForeignNode):
                assert disagreement(node, known) is None, f"seed {seed}"


def test_torch_judges_every_op():
    alone = {kind for kind in implemented() if kind not in TABLE}
    assert alone == {"Dropout"}
