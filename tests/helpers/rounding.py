"""How far products may be from exact ones whose operands were rounded to 8 bits.

A number that is rounded to a multiple of a step is off by up to half of it: of random numbers the
variance is a twelfth of the step's square. Errors of a product's terms are independent, so their
variances add up.
"""

import numpy as np

DEVIATIONS = 6.0
"""How many standard deviations of its error a result may be off; of some thousand results the worst
was off by 3.9."""


def steps_of_tokens(x):
    """Return the step to which each token of activations is rounded, (..., 1)."""
    return np.abs(x).max(-1, keepdims=True).astype(np.float64) / 127


def steps_of_columns(weights, largest):
    """Return the step to which each column of weights is rounded, (outputs,)."""
    return np.abs(weights).max(0).astype(np.float64) / largest


def allowed(x, weights, steps):
    """Return how far x @ weights may be off where both are rounded, an array of its shape.

    Parameters
    ----------
    x : array
        (tokens, inputs).
    weights : array
        (inputs, outputs).
    steps : float or array
        The steps of the weights by column; 0 for those that are integers already.
    """
    x, weights = x.astype(np.float64), weights.astype(np.float64)
    of_x = steps_of_tokens(x) ** 2 / 12 * (weights**2).sum(0)
    of_weights = np.asarray(steps) ** 2 / 12 * (x**2).sum(-1, keepdims=True)
    both = steps_of_tokens(x) ** 2 / 12 * np.asarray(steps) ** 2 / 12 * x.shape[-1]
    sums = np.finfo(np.float32).eps * (np.abs(x) @ np.abs(weights))  # what f32 scales round
    return DEVIATIONS * np.sqrt(of_x + of_weights + both) + 2 * sums
