"""Traits that several ops share: a row lists its op's, and each makes a promise."""

from collections.abc import Mapping
from types import MappingProxyType

TRAITS: Mapping[str, str] = MappingProxyType(
    {
        "binary": "Works elementwise on two inputs that broadcast with each other.",
        "channelwise": "Computes each element from one of the input and parameters of its channel.",
        "converts": "Converts its first input to another data type, in the same shape.",
        "dequantizes": "Converts integers (or f8) to floating-point numbers, by scales.",
        "elementwise": "Computes each element of the result from those at its place in the inputs, "
        "which broadcast.",
        "epilogue": "Is in the documents' category Unary or Binary, which oneDNN fuses after "
        "other ops.",
        "gradient": "Computes the gradients of another op, for training.",
        "keeps": "Returns each element of the inputs once, and nothing else; it may be "
        "rounded to another data type.",
        "marks": "Computes nothing, but marks something in the graph.",
        "moves": "Copies the elements of its one input unchanged to other places or another "
        "layout.",
        "normalizes": "Makes a first result with a mean square of about 1 by its own statistics, "
        "before it scales and shifts it.",
        "product": "Sums products of elements of its first two inputs, in a kernel for matrices "
        "or windows.",
        "quantizes": "Converts floating-point numbers to integers (or f8), by scales.",
        "rectifies": "Hardly changes elements far above 0, and makes those far below 0 much "
        "smaller.",
        "reduces": "Makes one element of all along some axes (the documents' category Reduction).",
        "squashes": "Makes results from -1 to 1, for inputs of any size.",
        "steep": "Depends on an exponential of its input, so that inputs of more than some units "
        "are of no use.",
    }
)
"""The promise of each trait."""
