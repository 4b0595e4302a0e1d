"""Lines of oneDNN's verbose log as data.

oneDNN writes a line for each primitive or partition that it creates or runs, and for each failed
check or rejected implementation. The classes follow its columns (*Verbose Mode* in its
documentation); columns without structure keep oneDNN's text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "InfoRecord",
    "LoggedPartition",
    "LoggedPrimitive",
    "LoggedTensor",
    "MalformedRecord",
    "MemoryDescriptor",
    "MessageRecord",
    "PartitionRecord",
    "PrimitiveRecord",
    "Record",
]


@dataclass(frozen=True, slots=True)
class MemoryDescriptor:
    """A tensor of a primitive. Its dims are in `LoggedPrimitive.problem`.

    Parameters
    ----------
    name : str
        ``src``, ``wei``, ``dst``, ...
    dtype : str
        ``undef`` if there is no such tensor.
    properties : str
        Some of the letters ``a`` (oneDNN chose the layout), ``p`` (padded dims), ``o`` (padded
        offsets) and ``0`` (an offset).
    format_kind : str
        ``blocked``, ``any``, ``sparse``, ``wino``, ...
    tag : str
        The layout, such as ``acdb`` or ``ABcd16b16a``; a sparse encoding; or nothing.
    strides : str
        In elements, such as ``64x1``, if memory is not dense.
    extra : str
        Flags that oneDNN leaves unspecified, such as ``f0``.
    """

    name: str
    dtype: str
    properties: str
    format_kind: str
    tag: str
    strides: str
    extra: str


@dataclass(frozen=True, slots=True)
class LoggedPrimitive:
    """A primitive, as a line of the log describes it.

    Parameters
    ----------
    engine : str
        ``cpu``, ``gpu``, ``gpu:1``, ``cpu2gpu``, ...; empty if another library runs it.
    kind : str
        ``convolution``, ``reorder``, ``matmul``, ...
    implementation : str
        The kernel, such as ``brg_conv_fwd:avx512_core``.
    prop_kind : str
        ``forward_inference``, ``undef``, ...
    memory : tuple of MemoryDescriptor
    attributes : tuple of str
        Such as ``attr-post-ops:eltwise_relu``.
    auxiliary : tuple of str
        Such as ``alg:convolution_direct``.
    problem : str
        The shapes, as benchdnn writes them.
    """

    engine: str
    kind: str
    implementation: str
    prop_kind: str
    memory: tuple[MemoryDescriptor, ...]
    attributes: tuple[str, ...]
    auxiliary: tuple[str, ...]
    problem: str


@dataclass(frozen=True, slots=True)
class LoggedTensor:
    """A logical tensor at the edge of a partition.

    Parameters
    ----------
    port : str
        ``in0``, ``out0``, ...
    dtype : str
    id : int
    layout_type : str
        ``strided``, ``opaque`` or ``any``.
    property : str
        ``undef``, ``variable``, ``constant`` or ``host_scalar``.
    shape : tuple of int
        oneDNN writes one meaningless dim for a scalar (up to 3.13 at least).
    layout : str
        Strides in elements, such as ``8s1``; or the id of an opaque layout.
    """

    port: str
    dtype: str
    id: int
    layout_type: str
    property: str
    shape: tuple[int, ...]
    layout: str


@dataclass(frozen=True, slots=True)
class LoggedPartition:
    """A compiled partition, as a line of the log describes it.

    Parameters
    ----------
    engine : str
    id : int
        Unique only in its process.
    kind : str
        ``convolution_post_ops``, ``sdp``, ``misc_post_ops``, ...
    ops : tuple of str
        Names of the ops as its program gave them. A name with a ``;`` counts as two.
    formats : str
        ``data_format`` and ``weights_format`` of the ops.
    tensors : tuple of LoggedTensor
        Inputs, then outputs.
    fpmath : str
        The math mode, such as ``strict`` or ``bf16:true``.
    scratchpad : str
        Its bytes; in records of runs with its owner before them (``user:1472``, ``library:0``).
        oneDNN 3.13 writes it, 3.7 does not.
    implementation : str
        The backend's kernel, such as ``conv_fwd_t``; empty in old versions.
    backend : str
    """

    engine: str
    id: int
    kind: str
    ops: tuple[str, ...]
    formats: str
    tensors: tuple[LoggedTensor, ...]
    fpmath: str
    scratchpad: str
    implementation: str
    backend: str


@dataclass(frozen=True, slots=True)
class PrimitiveRecord:
    """A primitive was created or ran.

    Parameters
    ----------
    line : int
        The line's number in the log, from 1.
    version : str
        The version of the log's format, such as ``v1``.
    timestamp : float or None
        When it began, in milliseconds; None unless ``ONEDNN_VERBOSE_TIMESTAMP=1`` was set.
    api : str
        ``primitive``, or ``ukernel``.
    operation : str
        ``exec``, ``create`` or ``create_nested``.
    outcome : str
        The result of the cache's lookup at a creation (``cache_miss``, ``cache_hit``, ...);
        ``external`` if another library runs it; else empty.
    primitive : LoggedPrimitive
    milliseconds : float
    """

    line: int
    version: str
    timestamp: float | None
    api: str
    operation: str
    outcome: str
    primitive: LoggedPrimitive
    milliseconds: float


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition was compiled or ran; the primitives that it ran have separate records.

    Parameters
    ----------
    line, version, timestamp
        As in `PrimitiveRecord`.
    operation : str
        ``exec`` or ``compile``.
    outcome : str
        The result of the cache's lookup at a compilation (``cache_miss``,
        ``compiled_partition_cache_hit``); else empty.
    partition : LoggedPartition
    milliseconds : float
    """

    line: int
    version: str
    timestamp: float | None
    operation: str
    outcome: str
    partition: LoggedPartition
    milliseconds: float


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A line that says why oneDNN rejected something, or what went wrong.

    Parameters
    ----------
    line, version, timestamp
        As in `PrimitiveRecord`.
    api : str
        ``primitive``, ``graph``, ``common``, ...
    kind : str
        ``create:dispatch`` (an implementation or a pattern was skipped), ``create:check``,
        ``exec:check``, ``error``, ``warning``, ``debuginfo``, ...
    component : str
        The part of oneDNN that writes the message.
    primitive : LoggedPrimitive or None
        The primitive that the message is about, if the line has one.
    message : str
    source : str
        File and line in oneDNN's sources, or empty.
    """

    line: int
    version: str
    timestamp: float | None
    api: str
    kind: str
    component: str
    primitive: LoggedPrimitive | None
    message: str
    source: str


@dataclass(frozen=True, slots=True)
class InfoRecord:
    """A line of the header: version, runtime, devices, names of the columns.

    Parameters
    ----------
    line, version
        As in `PrimitiveRecord`.
    api : str
        ``primitive``, ``graph``, ``common``, or empty.
    text : str
        Such as ``cpu,runtime:OpenMP,nthr:2``.
    """

    line: int
    version: str
    api: str
    text: str


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """A line that begins like oneDNN's but can't be parsed.

    Parameters
    ----------
    line : int
    reason : str
    text : str
        The line, from oneDNN's marker on.
    """

    line: int
    reason: str
    text: str


Record: TypeAlias = PrimitiveRecord | PartitionRecord | MessageRecord | InfoRecord | MalformedRecord
