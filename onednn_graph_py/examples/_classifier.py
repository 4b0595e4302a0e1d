"""The classifier of handwritten digits that scikit-learn trains, and the images to test it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.text.names import install_line
from ._run import ExampleError

Array = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """A fully connected layer; ReLU follows all but the last one."""

    weights: Array
    bias: Array
    activated: bool


@dataclass(frozen=True)
class Classifier:
    """A trained network, its training images, and images that it has not seen.

    An image is a row of pixels from 0 to 1. `predictions` are scikit-learn's own for the held-out
    images.
    """

    layers: list[Layer]
    training_images: Array
    images: Array
    labels: Classes
    predictions: Classes

    def accuracy(self, predictions: Classes) -> float:
        """Return the share of the held-out images that were recognised."""
        return float(np.mean(predictions == self.labels))

    def standard_error(self) -> float:
        """Return the standard error of scikit-learn's accuracy, by the choice of images."""
        accuracy = self.accuracy(self.predictions)
        return math.sqrt(accuracy * (1 - accuracy) / len(self.labels))

    def activations(self, images: Array) -> Iterator[Array]:
        """Compute each layer's result in float64; the last are the logits."""
        for layer in self.layers:
            images = images @ layer.weights + layer.bias
            if layer.activated:
                images = np.maximum(images, 0)
            yield images


def train() -> Classifier:
    """Train on one half of the digits that scikit-learn ships; the other half is held out."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
        from sklearn.neural_network import MLPClassifier
    except ImportError as error:
        raise ExampleError(
            f"scikit-learn is needed ({error}): {install_line('examples')}"
        ) from None
    digits = load_digits()
    # Pixels are whole numbers from 0 to 16.
    training_images, images, training_labels, labels = train_test_split(
        digits.data / 16, digits.target, test_size=0.5, random_state=0, stratify=digits.target
    )
    model = MLPClassifier((128, 64), max_iter=500, random_state=0)
    model.fit(training_images, training_labels)
    last = len(model.coefs_) - 1
    return Classifier(
        layers=[
            Layer(weights, bias, activated=number < last)
            for number, (weights, bias) in enumerate(
                zip(model.coefs_, model.intercepts_, strict=True)
            )
        ],
        training_images=training_images,
        images=images,
        labels=labels,
        predictions=model.predict(images),
    )
