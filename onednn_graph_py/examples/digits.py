"""Handwritten digits: scikit-learn's classifier, run in f32, bf16 and int8.

Real data and real weights: scikit-learn trains a small network on half of the digits that it ships,
oneDNN Graph runs it on the other half in three precisions, and the accuracy of each is set beside
scikit-learn's own. Needs scikit-learn.

Each partition is compared with NumPy on the very input that oneDNN gave it, so that one rounding
more or less in an early layer does not blur the check of a later one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engine, graph, logical_tensor, op
from ..checking.expected import Verification
from ..dtypes import numpy_dtype
from ..machine.cpu import lacks_bf16, largest_int8_weight
from ._classifier import Classifier, Layer, train
from ._expected import compare
from ._pipeline import Pipeline, fused_ops, median_milliseconds
from ._report import Case, Skipped


class _Network:
    """A graph under construction, with the arrays of its inputs."""

    def __init__(self) -> None:
        self.graph = graph(engine.cpu)
        self.inputs: list[logical_tensor] = []
        self.arrays: dict[int, npt.NDArray[Any]] = {}
        # The result of each partition.
        self.results: list[logical_tensor] = []
        self._ops = 0
        self._tensors = 0

    def variable(self, data_type: logical_tensor.data_type, dims: Sequence[int]) -> logical_tensor:
        """Make a tensor that some op computes."""
        return self._tensor(data_type, dims, logical_tensor.variable)

    def given(
        self,
        data_type: logical_tensor.data_type,
        array: npt.NDArray[Any],
        kind: logical_tensor.property_type = logical_tensor.constant,
    ) -> logical_tensor:
        """Make an input of the graph."""
        made = self._tensor(data_type, array.shape, kind)
        self.inputs.append(made)
        self.arrays[made.get_id()] = np.ascontiguousarray(array, numpy_dtype(data_type))
        return made

    def images(self, data_type: logical_tensor.data_type, classifier: Classifier) -> logical_tensor:
        """Make the input that changes from call to call."""
        return self.given(data_type, classifier.images, logical_tensor.variable)

    def add(
        self,
        kind: op.kind,
        inputs: list[logical_tensor],
        output: logical_tensor,
        **attributes: object,
    ) -> logical_tensor:
        """Add an op and return its output."""
        one = op(self._ops, kind, inputs, [output])
        for name, value in attributes.items():
            one.set_attr(name, value)
        self.graph.add_op(one)
        self._ops += 1
        return output

    def _tensor(
        self,
        data_type: logical_tensor.data_type,
        dims: Sequence[int],
        kind: logical_tensor.property_type,
    ) -> logical_tensor:
        self._tensors += 1
        return logical_tensor(self._tensors, data_type, dims, logical_tensor.strided, kind)


def _float_network(classifier: Classifier, data_type: logical_tensor.data_type) -> _Network:
    network = _Network()
    x = network.images(data_type, classifier)
    for layer in classifier.layers:
        x = _add_float_layer(network, x, layer)
    return network


def _add_float_layer(network: _Network, x: logical_tensor, layer: Layer) -> logical_tensor:
    data_type = x.get_data_type()
    w, b = network.given(data_type, layer.weights), network.given(data_type, layer.bias)
    dims = (x.get_dims()[0], len(layer.bias))
    y = network.add(op.MatMul, [x, w, b], network.variable(data_type, dims))
    if layer.activated:
        y = network.add(op.ReLU, [y], network.variable(data_type, dims))

    network.results.append(y)
    return y


def _int8_network(classifier: Classifier) -> _Network:
    """Quantize the images, then stay in integers up to the logits.

    The training images show how large activations get. Neither pixels nor results of ReLU are
    negative, so that u8 with zero point 0 uses its whole range.
    """
    training = classifier.training_images
    largest = [training.max(), *(result.max() for result in classifier.activations(training))]
    scales = [float(np.float32(value / 255)) for value in largest]

    network = _Network()
    images = network.images(logical_tensor.f32, classifier)
    x = _add_quantize(network, images, scales[0])
    network.results.append(x)
    for layer, scale, next_scale in zip(classifier.layers, scales, scales[1:], strict=False):
        x = _add_int8_layer(network, x, layer, scale, next_scale)
    return network


def _add_quantize(network: _Network, x: logical_tensor, scale: float) -> logical_tensor:
    result = network.variable(logical_tensor.u8, x.get_dims())
    return network.add(op.Quantize, [x], result, qtype="per_tensor", scales=[scale], zps=[0])


def _add_int8_layer(
    network: _Network, x: logical_tensor, layer: Layer, scale: float, next_scale: float
) -> logical_tensor:
    f32 = logical_tensor.f32
    # Weights have both signs, and each output channel has a scale of its own.
    scales = (np.abs(layer.weights).max(axis=0) / largest_int8_weight()).astype(np.float32)
    integers = np.rint(layer.weights / scales)

    numbers = network.variable(f32, x.get_dims())
    network.add(op.Dequantize, [x], numbers, qtype="per_tensor", scales=[scale], zps=[0])
    w = network.variable(f32, layer.weights.shape)
    network.add(
        op.Dequantize,
        [network.given(logical_tensor.s8, integers)],
        w,
        qtype="per_channel",
        axis=1,
        scales=scales,
        zps=[0] * len(scales),
    )
    dims = (x.get_dims()[0], len(layer.bias))
    y = network.add(
        op.MatMul, [numbers, w, network.given(f32, layer.bias)], network.variable(f32, dims)
    )
    if layer.activated:
        y = network.add(op.ReLU, [y], network.variable(f32, dims))
        y = _add_quantize(network, y, next_scale)

    network.results.append(y)
    return y


def _run(name: str, classifier: Classifier, network: _Network) -> Case:
    network.graph.finalize()
    partitions = network.graph.get_partitions()
    results = network.results
    pipeline = Pipeline(partitions, network.inputs, results, engine(engine.cpu, 0))
    execution = pipeline.bind(network.arrays)
    execution()

    arrays = {**network.arrays, **{lt.get_id(): execution.output(lt) for lt in results}}
    ops = {one.get_id(): one for one in network.graph.get_ops()}
    compared = {}
    for partition in partitions:
        (made,) = (lt.get_id() for lt in partition.get_output_ports())
        members = [ops[number] for number in partition.get_ops()]
        compared[made] = compare(members, arrays, {made: arrays[made]})
    of_logits = compared.pop(results[-1].get_id())
    of_hidden = Verification(tuple(check for one in compared.values() for check in one.outputs))
    logits = execution.output(results[-1]).astype(np.float64)
    predictions = logits.argmax(axis=1)
    accuracy, own = classifier.accuracy(predictions), classifier.accuracy(classifier.predictions)
    differing = np.count_nonzero(predictions != classifier.predictions)
    *_, own_logits = classifier.activations(classifier.images)

    faults = []
    if accuracy < own - classifier.standard_error():
        faults.append(
            f"accuracy {accuracy:.2%} is more than {classifier.standard_error():.2%} below"
            " scikit-learn's"
        )
    return Case(
        name=name,
        expected_partitions=len(results),
        partitions=fused_ops(network.graph.get_ops(), partitions),
        comparisons={
            "hidden layers, all elements with NumPy in float64": of_hidden,
            "logits, all elements with NumPy in float64": of_logits,
        },
        milliseconds=median_milliseconds(execution),
        facts=[
            f"accuracy: {accuracy:.2%} of {len(predictions)} images; scikit-learn {own:.2%},"
            f" and a loss of up to {classifier.standard_error():.2%} (its standard error on as"
            " many images) is luck",
            f"beside scikit-learn: {differing} predictions differ, logits by up to"
            f" {np.abs(logits - own_logits).max():.2g} (they reach"
            f" {np.abs(own_logits).max():.2g})",
        ],
        faults=faults,
    )


def run() -> Iterator[Case | Skipped]:
    """Run in f32, bf16 and int8."""
    classifier = train()
    yield _run("f32", classifier, _float_network(classifier, logical_tensor.f32))
    reason = lacks_bf16()
    if reason is None:
        yield _run("bf16", classifier, _float_network(classifier, logical_tensor.bf16))
    else:
        yield Skipped("bf16", reason)
    yield _run("int8", classifier, _int8_network(classifier))
