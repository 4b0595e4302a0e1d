"""Lines of oneDNN's verbose log as data.

oneDNN writes a line for each primitive or partition that it creates or runs, and for each failed
check or rejected implementation. The classes follow its columns (*Verbose Mode* in its
documentation); columns without structure keep oneDNN's text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class MemoryDescriptor:
    """A tensor of a primitive. Its dims are in `LoggedPrimitive.problem`."""

    name: str  # `src`, `wei`, `dst`, ...
    dtype: str  # `undef` if there is no such tensor
    # some of the letters `a` (oneDNN chose the layout), `p` (padded dims), `o` (padded offsets) and
    # `0` (an offset)
    properties: str
    format_kind: str  # `blocked`, `any`, `sparse`, `wino`, ...
    tag: str  # the layout, such as `acdb` or `ABcd16b16a`; a sparse encoding; or nothing
    strides: str  # in elements, such as `64x1`, if memory is not dense
    extra: str  # flags that oneDNN leaves unspecified, such as `f0`


@dataclass(frozen=True, slots=True)
class LoggedPrimitive:
    """A primitive, as a line of the log describes it."""

    engine: str  # `cpu`, `gpu`, `gpu:1`, `cpu2gpu`, ...; empty if another library runs it
    kind: str  # `convolution`, `reorder`, `matmul`, ...
    implementation: str  # the kernel, such as `brg_conv_fwd:avx512_core`
    prop_kind: str  # `forward_inference`, `undef`, ...
    memory: tuple[MemoryDescriptor, ...]
    attributes: tuple[str, ...]  # such as `attr-post-ops:eltwise_relu`
    auxiliary: tuple[str, ...]  # such as `alg:convolution_direct`
    problem: str  # the shapes, as benchdnn writes them


@dataclass(frozen=True, slots=True)
class LoggedTensor:
    """A logical tensor at the edge of a partition."""

    port: str  # `in0`, `out0`, ...
    dtype: str
    id: int
    layout_type: str  # `strided`, `opaque` or `any`
    property: str  # `undef`, `variable`, `constant` or `host_scalar`
    shape: tuple[int, ...]  # oneDNN writes one meaningless dim for a scalar (up to 3.13 at least)
    layout: str  # strides in elements, such as `8s1`; or the id of an opaque layout


@dataclass(frozen=True, slots=True)
class LoggedPartition:
    """A compiled partition, as a line of the log describes it."""

    engine: str
    id: int  # unique only in its process
    kind: str  # `convolution_post_ops`, `sdp`, `misc_post_ops`, ...
    # names of the ops as its program gave them. A name with a `;` counts as two.
    ops: tuple[str, ...]
    formats: str  # `data_format` and `weights_format` of the ops
    tensors: tuple[LoggedTensor, ...]  # inputs, then outputs
    fpmath: str  # the math mode, such as `strict` or `bf16:true`
    # its bytes; in records of runs with its owner before them (`user:1472`, `library:0`). oneDNN
    # 3.13 writes it, 3.7 does not.
    scratchpad: str
    implementation: str  # the backend's kernel, such as `conv_fwd_t`; empty in old versions
    backend: str


@dataclass(frozen=True, slots=True)
class PrimitiveRecord:
    """A primitive was created or ran."""

    line: int  # the line's number in the log, from 1
    version: str  # the version of the log's format, such as `v1`
    # when it began, in milliseconds; None unless `ONEDNN_VERBOSE_TIMESTAMP=1` was set
    timestamp: float | None
    api: str  # `primitive`, or `ukernel`
    operation: str  # `exec`, `create` or `create_nested`
    # the result of the cache's lookup at a creation (`cache_miss`, `cache_hit`, ...); `external` if
    # another library runs it; else empty
    outcome: str
    primitive: LoggedPrimitive
    milliseconds: float


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition was compiled or ran; the primitives that it ran have separate records."""

    # line, version, timestamp: as in `PrimitiveRecord`
    line: int
    version: str
    timestamp: float | None
    operation: str  # `exec` or `compile`
    # the result of the cache's lookup at a compilation (`cache_miss`,
    # `compiled_partition_cache_hit`); else empty
    outcome: str
    partition: LoggedPartition
    milliseconds: float


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """A line that says why oneDNN rejected something, or what went wrong."""

    # line, version, timestamp: as in `PrimitiveRecord`
    line: int
    version: str
    timestamp: float | None
    api: str  # `primitive`, `graph`, `common`, ...
    # `create:dispatch` (an implementation or a pattern was skipped), `create:check`, `exec:check`,
    # `error`, `warning`, `debuginfo`, ...
    kind: str
    component: str  # the part of oneDNN that writes the message
    # the primitive that the message is about, if the line has one
    primitive: LoggedPrimitive | None
    message: str
    source: str  # file and line in oneDNN's sources, or empty


@dataclass(frozen=True, slots=True)
class InfoRecord:
    """A line of the header: version, runtime, devices, names of the columns."""

    # line, version: as in `PrimitiveRecord`
    line: int
    version: str
    api: str  # `primitive`, `graph`, `common`, or empty
    text: str  # such as `cpu,runtime:OpenMP,nthr:2`


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """A line that begins like oneDNN's but can't be parsed."""

    line: int
    reason: str
    text: str  # the line, from oneDNN's marker on


Record: TypeAlias = PrimitiveRecord | PartitionRecord | MessageRecord | InfoRecord | MalformedRecord
