"""Blocks of several ops, each in the form that the linked oneDNN fuses into one partition.

Attention (`sdpa`), gated MLP, linear layers, quantization, embeddings,
rotary position embeddings, RMSNorm, global pooling. A block adds ops to the builder of its first
argument and returns their result; it computes nothing itself.

Blocks raise ``TypeError`` for an argument that is neither a value nor an array, `InvalidShapeError`
and `InvalidDataTypeError` where shapes or data types don't fit together, and
`InvalidArgumentsError` for a choice or number that they don't take. What one of their ops refuses
is raised as by that op, whose name begins with the block's.

Arrays become constants of the data type that the block needs. oneDNN may fuse a partition but have
no kernel for it; the docstrings say which forms don't compile. Their statements about versions were
measured on a CPU with 3.7.2 (OpenMP) and 3.13.2 (SYCL).
"""

from .attention import sdpa
from .embedding import embedding
from .kv_cache import KVCache, KVMemory, kv_cache
from .linear import linear
from .mlp import gated_mlp
from .normalization import rms_norm
from .pooling import global_avg_pool
from .quantization import dequantize, quantize
from .rope import rope, rope_tables

__all__ = [
    "KVCache",
    "KVMemory",
    "dequantize",
    "embedding",
    "gated_mlp",
    "global_avg_pool",
    "kv_cache",
    "linear",
    "quantize",
    "rms_norm",
    "rope",
    "rope_tables",
    "sdpa",
]
