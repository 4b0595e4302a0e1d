"""Words for what several ops have in common; rows name theirs, and each word promises something."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

__all__ = ["TRAITS", "Trait"]

Trait = Literal[
    "binary",
    "channelwise",
    "converts",
    "dequantizes",
    "elementwise",
    "epilogue",
    "gradient",
    "keeps",
    "marks",
    "moves",
    "normalizes",
    "product",
    "quantizes",
    "rectifies",
    "reduces",
    "squashes",
    "steep",
]

TRAITS: Mapping[Trait, str] = MappingProxyType(
    {
        "binary": "Elementwise, of two inputs that broadcast with each other.",
        "channelwise": "Each element by itself, with parameters of its channel.",
        "converts": "Gives its first input in another data type, in the same shape.",
        "dequantizes": "Converts integers (or f8) to floating-point numbers, by scales.",
        "elementwise": "Each element of the result follows from those at its place of the inputs, "
        "which broadcast.",
        "epilogue": "Of the documents' categories Unary and Binary, which oneDNN fuses behind "
        "other ops.",
        "gradient": "What training asks of another op: how a loss changes with its inputs.",
        "keeps": "Each element of the inputs comes out once, and nothing else does; it may be "
        "rounded to another data type.",
        "marks": "Computes nothing, but says something about the graph.",
        "moves": "Keeps the elements of its one input as they are, at other places or in another "
        "layout.",
        "normalizes": "The first result has a mean square of about 1 by its own statistics, "
        "before it is scaled and shifted.",
        "product": "Sums of products of elements of its first two inputs, by a kernel for matrices "
        "or windows.",
        "quantizes": "Converts floating-point numbers to integers (or f8), by scales.",
        "rectifies": "What is far above 0 comes out about as it is, what is far below 0 much "
        "smaller.",
        "reduces": "Makes one element of all along some axes; the documents' category Reduction.",
        "squashes": "The result is from -1 to 1, however large the input.",
        "steep": "An exponential of its input decides, so that inputs of more than some units are "
        "of no use.",
    }
)
"""The promise of each word."""
