"""Handwritten digits: scikit-learn's classifier, run in f32, bf16 and int8.

Real data and real weights: scikit-learn trains a small network on half of the digits that it ships,
oneDNN Graph runs it on the other half in three precisions, and the accuracy of each is set beside
scikit-learn's own. Needs scikit-learn.

Each partition is compared with NumPy on the very input that oneDNN gave it, so that one rounding
more or less in an early layer does not blur the check of a later one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from .. import GraphBuilder, Value
from ..base.dtypes import numpy_dtype
from ..machine.cpu import lacks_bf16, largest_int8_weight
from ..model.checking.expected import Verification
from ._classifier import Classifier, train
from ._run import Case, Pipeline, Skipped, compare, fused_ops, median_milliseconds


@dataclass
class _Network:
    """A graph on the held-out images, and the result of each partition."""

    builder: GraphBuilder
    results: list[Value] = field(default_factory=list)


def _float_network(classifier: Classifier, data_type: str) -> _Network:
    b = GraphBuilder()
    network = _Network(b)
    x = b.input(classifier.images.shape, data_type)
    for layer in classifier.layers:
        x = b.matmul(x, b.constant(layer.weights, data_type), b.constant(layer.bias, data_type))
        if layer.activated:
            x = b.relu(x)
        network.results.append(x)
    return network


def _int8_network(classifier: Classifier) -> _Network:
    """Quantize the images, then stay in integers up to the logits.

    The training images show how large activations get. Neither pixels nor results of ReLU are
    negative, so that u8 with zero point 0 uses its whole range.
    """
    training = classifier.training_images
    largest = [training.max(), *(result.max() for result in classifier.activations(training))]
    scales = [float(np.float32(value / 255)) for value in largest]

    def quantized(y: Value, scale: float) -> Value:
        return b.quantize(y, scales=[scale], zps=[0], qtype="per_tensor", dtype="u8")

    b = GraphBuilder()
    x = quantized(b.input(classifier.images.shape), scales[0])
    network = _Network(b, [x])
    for layer, scale, next_scale in zip(classifier.layers, scales, scales[1:], strict=False):
        numbers = b.dequantize(x, scales=[scale], zps=[0], qtype="per_tensor")
        # Weights have both signs, and each output channel has a scale of its own.
        channels = (np.abs(layer.weights).max(axis=0) / largest_int8_weight()).astype(np.float32)
        integers = b.constant(np.rint(layer.weights / channels).astype(np.int8))
        zeros = [0] * len(channels)
        w = b.dequantize(integers, scales=channels, zps=zeros, qtype="per_channel", axis=1)
        x = b.matmul(numbers, w, b.constant(layer.bias, "f32"))
        if layer.activated:
            x = quantized(b.relu(x), next_scale)
        network.results.append(x)
    return network


def _run(name: str, classifier: Classifier, network: _Network) -> Case:
    b, results = network.builder, network.results
    (images,) = b.inputs
    arrays = {v.id: np.asarray(v.data) for v in b.constants}
    arrays[images.id] = classifier.images.astype(numpy_dtype(images.dtype))
    pipeline = Pipeline.of(b, results)
    execution = pipeline.bind(arrays)
    outputs = {lt.get_id(): execution.output(lt) for lt in pipeline.outputs}
    arrays |= outputs
    ops = {one.get_id(): one for one in b.graph.get_ops()}
    compared = {}
    for partition in pipeline.partitions:
        (made,) = (lt.get_id() for lt in partition.get_output_ports())
        members = [ops[number] for number in partition.get_ops()]
        compared[made] = compare(members, arrays, {made: arrays[made]})
    of_logits = compared.pop(results[-1].id)
    of_hidden = Verification(tuple(check for one in compared.values() for check in one.outputs))
    logits = outputs[results[-1].id].astype(np.float64)
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
        partitions=fused_ops(ops.values(), pipeline.partitions),
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
    yield _run("f32", classifier, _float_network(classifier, "f32"))
    reason = lacks_bf16()
    if reason is None:
        yield _run("bf16", classifier, _float_network(classifier, "bf16"))
    else:
        yield Skipped("bf16", reason)
    yield _run("int8", classifier, _int8_network(classifier))
