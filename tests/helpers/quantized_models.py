"""What tests ask of quantized ONNX models."""

from collections import Counter
from typing import Any

import onnx
from onnx import numpy_helper

from onednn_graph_py.onnx.loading import loaded
from onednn_graph_py.onnx.options import Options
from onednn_graph_py.onnx.preparing import prepare


def prepared(model: onnx.ModelProto, **chosen: Any) -> Counter[str]:
    """Return how often each op is in a model once it is prepared."""
    made = loaded(model)
    prepare(made, Options(**chosen))
    return Counter(n.op_type for n in made.graph)


def last_scale(model: onnx.ModelProto) -> float:
    """Return the scale of what a quantized model returns."""
    weights = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    name = model.graph.output[0].name
    (node,) = [n for n in model.graph.node if name in n.output]
    return float(weights[node.input[1]].reshape(-1)[0])
