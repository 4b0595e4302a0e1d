"""Handwritten digits: scikit-learn's classifier, run in f32, bf16 and int8.

Real data and real weights: scikit-learn trains a small network on half of the digits that it ships,
oneDNN Graph runs it on the other half in three precisions, and the accuracy of each is set beside
scikit-learn's own. Needs scikit-learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .. import GraphBuilder, Value
from ..base.dtypes import numpy_dtype
from ..machine.cpu import lacks, largest_int8_weight
from ._classifier import Classifier, train
from ._run import BuiltRun, Case, Skipped


def _float_network(classifier: Classifier, data_type: str) -> GraphBuilder:
    b = GraphBuilder()
    x = b.input(classifier.images.shape, data_type, name="images")
    for layer in classifier.layers:
        x = b.matmul(x, b.constant(layer.weights, data_type), b.constant(layer.bias, data_type))
        if layer.activated:
            x = b.relu(x)
    b.output(logits=x)
    return b


def _int8_network(classifier: Classifier) -> GraphBuilder:
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
    x = quantized(b.input(classifier.images.shape, name="images"), scales[0])
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
    b.output(logits=x)
    return b


def _run(name: str, classifier: Classifier, builder: GraphBuilder, partitions: int) -> Case:
    images = classifier.images.astype(numpy_dtype(builder.inputs[0].dtype))
    done = BuiltRun(builder, {"images": images}, "run")
    logits = done.output("logits").astype(np.float64)
    predictions = logits.argmax(axis=1)
    accuracy, own = classifier.accuracy(predictions), classifier.accuracy(classifier.predictions)
    differing = np.count_nonzero(predictions != classifier.predictions)
    *_, own_logits = classifier.activations(classifier.images)
    allowed = classifier.standard_error()
    faults = []
    if accuracy < own - allowed:
        faults.append(f"accuracy {accuracy:.2%} is more than {allowed:.2%} below scikit-learn's")
    facts = [
        f"accuracy: {accuracy:.2%} of {len(predictions)} images; scikit-learn {own:.2%},"
        f" and a loss of up to {allowed:.2%} (its standard error on as many images) is luck",
        f"beside scikit-learn: {differing} predictions differ, logits by up to"
        f" {np.abs(logits - own_logits).max():.2g} (they reach {np.abs(own_logits).max():.2g})",
    ]
    case = done.case(name, facts, expected_partitions=partitions)
    return replace(case, faults=faults)


def run() -> Iterator[Case | Skipped]:
    """Run in f32, bf16 and int8."""
    classifier = train()
    layers = len(classifier.layers)
    yield _run("f32", classifier, _float_network(classifier, "f32"), layers)
    reason = lacks("bf16")
    if reason is None:
        yield _run("bf16", classifier, _float_network(classifier, "bf16"), layers)
    else:
        yield Skipped("bf16", reason)
    # The images are quantized in a partition of their own.
    yield _run("int8", classifier, _int8_network(classifier), layers + 1)
