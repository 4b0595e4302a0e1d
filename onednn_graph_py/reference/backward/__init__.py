"""Gradients of the ops, for training.

Inputs are what the forward op was given or returned, and the gradient of a loss with respect to
what it returned (diff_dst); outputs are the gradients with respect to what it was given.
"""

from __future__ import annotations

# Each of these registers what it computes.
from . import convolution as convolution
from . import elementwise as elementwise
from . import interpolation as interpolation
from . import normalization as normalization
from . import parameters as parameters
from . import pooling as pooling
