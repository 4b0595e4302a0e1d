"""
The mirror of oneDNN's C++ Graph API; import onednn_graph_py instead.
"""

from __future__ import annotations
import collections.abc
import numpy
import onednn_graph_py._enums
import typing
import typing_extensions

__all__: list[str] = [
    "MAX_NDIMS",
    "UNKNOWN_DIM",
    "UNKNOWN_NDIMS",
    "accumulation_mode",
    "allocator",
    "bound_execution",
    "compiled_partition",
    "cpu_isa",
    "cpu_isa_hints",
    "data_type_of",
    "engine",
    "fpmath_mode",
    "get_compiled_partition_cache_capacity",
    "get_constant_tensor_cache",
    "get_constant_tensor_cache_capacity",
    "get_cpu_isa_hints",
    "get_default_fpmath_mode",
    "get_effective_cpu_isa",
    "get_primitive_cache_capacity",
    "graph",
    "logical_tensor",
    "make_engine_with_allocator",
    "numpy_dtype",
    "op",
    "partition",
    "set_compiled_partition_cache_capacity",
    "set_constant_tensor_cache",
    "set_constant_tensor_cache_capacity",
    "set_cpu_isa_hints",
    "set_default_fpmath_mode",
    "set_dump_mode",
    "set_jit_dump",
    "set_jit_profiling_flags",
    "set_jit_profiling_jitdumpdir",
    "set_max_cpu_isa",
    "set_primitive_cache_capacity",
    "set_verbose",
    "status",
    "stream",
    "tensor",
    "version",
]

class status(onednn_graph_py._enums.NamedEnum):
    """
    Outcome of a oneDNN call. Mirrors ``dnnl::graph::status``.
    """

    invalid_arguments: typing.ClassVar[status]
    invalid_data_type: typing.ClassVar[status]
    invalid_graph: typing.ClassVar[status]
    invalid_graph_op: typing.ClassVar[status]
    invalid_shape: typing.ClassVar[status]
    last_impl_reached: typing.ClassVar[status]
    not_required: typing.ClassVar[status]
    out_of_memory: typing.ClassVar[status]
    runtime_error: typing.ClassVar[status]
    success: typing.ClassVar[status]
    unimplemented: typing.ClassVar[status]
    @classmethod
    def __new__(cls, value): ...

class fpmath_mode(onednn_graph_py._enums.NamedEnum):
    """
    Which lower precisions may be used inside f32 computations.

    Mirrors ``dnnl::fpmath_mode``; oneDNN page: Primitive Attributes, floating-point math mode.
    """

    any: typing.ClassVar[fpmath_mode]
    bf16: typing.ClassVar[fpmath_mode]
    f16: typing.ClassVar[fpmath_mode]
    strict: typing.ClassVar[fpmath_mode]
    tf32: typing.ClassVar[fpmath_mode]
    @classmethod
    def __new__(cls, value): ...

class accumulation_mode(onednn_graph_py._enums.NamedEnum):
    """
    Precision of accumulation. Mirrors ``dnnl::accumulation_mode``.

    oneDNN page: Primitive Attributes, accumulation mode.
    """

    any: typing.ClassVar[accumulation_mode]
    f16: typing.ClassVar[accumulation_mode]
    f32: typing.ClassVar[accumulation_mode]
    relaxed: typing.ClassVar[accumulation_mode]
    s32: typing.ClassVar[accumulation_mode]
    strict: typing.ClassVar[accumulation_mode]
    @classmethod
    def __new__(cls, value): ...

class cpu_isa(onednn_graph_py._enums.NamedEnum):
    """
    Instruction sets that oneDNN dispatches to. Mirrors ``dnnl::cpu_isa``.

    oneDNN page: CPU Dispatcher Control.
    """

    avx: typing.ClassVar[cpu_isa]
    avx10_1_512: typing.ClassVar[cpu_isa]
    avx10_1_512_amx: typing.ClassVar[cpu_isa]
    avx10_1_512_amx_fp16: typing.ClassVar[cpu_isa]
    avx2: typing.ClassVar[cpu_isa]
    avx2_vnni: typing.ClassVar[cpu_isa]
    avx2_vnni_2: typing.ClassVar[cpu_isa]
    avx512_core: typing.ClassVar[cpu_isa]
    avx512_core_amx: typing.ClassVar[cpu_isa]
    avx512_core_amx_fp16: typing.ClassVar[cpu_isa]
    avx512_core_bf16: typing.ClassVar[cpu_isa]
    avx512_core_fp16: typing.ClassVar[cpu_isa]
    avx512_core_vnni: typing.ClassVar[cpu_isa]
    isa_default: typing.ClassVar[cpu_isa]
    sse41: typing.ClassVar[cpu_isa]
    @classmethod
    def __new__(cls, value): ...

class cpu_isa_hints(onednn_graph_py._enums.NamedEnum):
    """
    Hints for the CPU dispatcher. Mirrors ``dnnl::cpu_isa_hints``.
    """

    no_hints: typing.ClassVar[cpu_isa_hints]
    prefer_ymm: typing.ClassVar[cpu_isa_hints]
    @classmethod
    def __new__(cls, value): ...

class allocator:
    """
    Where an engine takes host memory from. Mirrors ``dnnl::graph::allocator``.

    oneDNN page: Graph API, Allocator. Hand it to `make_engine_with_allocator`; the engine
    keeps it alive.
    """
    @typing.overload
    def __init__(self) -> None:
        """
        An allocator over the system's aligned allocation that counts what is taken.

        Raises
        ------
        OutOfMemoryError
            More than 64 allocators are alive.
        """
    @typing.overload
    def __init__(self, malloc: collections.abc.Callable, free: collections.abc.Callable) -> None:
        """
        An allocator over two Python callables.

        Parameters
        ----------
        malloc : callable
            ``malloc(size, alignment) -> int``: address of `size` writable bytes.
        free : callable
            ``free(address)``: gives one back.

        Notes
        -----
        oneDNN calls them from any thread. What they raise is reported through
        ``sys.unraisablehook`` and the system's memory is used instead.
        """
    def __repr__(self) -> str: ...
    def statistics(self) -> dict:
        """
        What was taken so far.

        Returns
        -------
        dict
            ``bytes_in_use`` and ``peak_bytes`` in bytes, ``allocations`` and
            ``deallocations`` as counts.
        """

class engine:
    """
    A device that computes. Mirrors ``dnnl::engine`` (oneDNN page: Basic Concepts, engine).

    Everything made from an engine keeps it alive.
    """
    class kind(onednn_graph_py._enums.NamedEnum):
        """
        Kind of device. Mirrors ``dnnl::engine::kind``.
        """

        any: typing.ClassVar[engine.kind]
        cpu: typing.ClassVar[engine.kind]
        gpu: typing.ClassVar[engine.kind]
        @classmethod
        def __new__(cls, value): ...

    any: typing.ClassVar[engine.kind]
    cpu: typing.ClassVar[engine.kind]
    gpu: typing.ClassVar[engine.kind]
    @staticmethod
    def get_count(kind: engine.kind | str) -> int:
        """
        How many engines of a kind there are.
        """
    def __bool__(self) -> bool: ...
    def __eq__(self, arg0: engine) -> bool: ...
    def __hash__(self) -> int: ...
    @typing.overload
    def __init__(self) -> None:
        """
        An empty engine; using it raises `InvalidArgumentsError`.
        """
    @typing.overload
    def __init__(
        self, kind: engine.kind | str, index: typing.SupportsInt | typing.SupportsIndex
    ) -> None:
        """
        The `index`-th engine of a kind.

        Parameters
        ----------
        kind : engine.kind or str
            ``cpu`` or ``gpu``.
        index : int
            Below ``engine.get_count(kind)``.

        Raises
        ------
        InvalidArgumentsError
            There is no such engine here.
        """
    def __repr__(self) -> str: ...
    def get(self) -> int:
        """
        Address of the C handle (``dnnl_engine_t``), for other extensions.
        """
    def get_kind(self) -> engine.kind:
        """
        Kind of this engine.
        """

class stream:
    """
    A queue of work on an engine. Mirrors ``dnnl::stream`` (oneDNN page: Basic Concepts).
    """
    class flags(onednn_graph_py._enums.NamedFlag):
        """
        How a stream orders work; combine with ``|``. Mirrors ``dnnl::stream::flags``.
        """

        default_flags: typing.ClassVar[stream.flags]
        in_order: typing.ClassVar[stream.flags]
        out_of_order: typing.ClassVar[stream.flags]
        @classmethod
        def __new__(cls, value): ...
        def __and__(self, other): ...
        def __invert__(self): ...
        def __or__(self, other): ...
        def __rand__(self, other): ...
        def __ror__(self, other): ...
        def __rxor__(self, other): ...
        def __xor__(self, other): ...

    default_flags: typing.ClassVar[stream.flags]
    in_order: typing.ClassVar[stream.flags]
    out_of_order: typing.ClassVar[stream.flags]
    def __bool__(self) -> bool: ...
    def __eq__(self, arg0: stream) -> bool: ...
    def __hash__(self) -> int: ...
    @typing.overload
    def __init__(self) -> None:
        """
        An empty stream; using it raises `InvalidArgumentsError`.
        """
    @typing.overload
    def __init__(self, engine: engine, flags: stream.flags | str = "in_order") -> None:
        """
        A stream on `engine`, which it keeps alive.

        Raises
        ------
        InvalidArgumentsError
            The engine is empty, or can't do what `flags` ask for.
        """
    def __repr__(self) -> str: ...
    def get(self) -> int:
        """
        Address of the C handle (``dnnl_stream_t``), for other extensions.
        """
    def get_engine(self) -> engine:
        """
        The engine that the stream was made with.
        """
    def wait(self) -> typing.Any:
        """
        Waits, without the GIL, until all submitted work is done; returns the stream.
        """

class logical_tensor:
    """
    Id, data type, dims, layout and property of a tensor, without its memory. Mirrors
    ``dnnl::graph::logical_tensor`` (oneDNN page: Graph API, Basic Concepts).

    >>> logical_tensor(0, 'f32', [64, 1280], 'strided', 'variable')
    logical_tensor(id=0, f32, 64x1280, strides 1280x1, strided, variable)

    Parameters
    ----------
    id : int
        Unique in its graph; equal ids connect ops.
    data_type : logical_tensor.data_type or str
    ndims : int
        Rank, -1 when unknown.
    dims : sequence of int
        At most 12 entries; -1, None or `UNKNOWN_DIM` for an unknown one.
    strides : sequence of int
        In elements, one for each of `dims`.
    layout_id : int
        Of an opaque layout that oneDNN gave in this process.
    layout_type : logical_tensor.layout_type or str
    property_type : logical_tensor.property_type or str

    Raises
    ------
    InvalidShapeError
        Dims or strides are negative, too many, too large or don't match.
    InvalidArgumentsError
        A name is unknown, or `layout_id` is not oneDNN's.
    """
    class data_type(onednn_graph_py._enums.NamedEnum):
        """
        Data types. Mirrors ``dnnl::graph::logical_tensor::data_type``.
        """

        bf16: typing.ClassVar[logical_tensor.data_type]
        boolean: typing.ClassVar[logical_tensor.data_type]
        f16: typing.ClassVar[logical_tensor.data_type]
        f32: typing.ClassVar[logical_tensor.data_type]
        f8_e4m3: typing.ClassVar[logical_tensor.data_type]
        f8_e5m2: typing.ClassVar[logical_tensor.data_type]
        s32: typing.ClassVar[logical_tensor.data_type]
        s4: typing.ClassVar[logical_tensor.data_type]
        s8: typing.ClassVar[logical_tensor.data_type]
        u4: typing.ClassVar[logical_tensor.data_type]
        u8: typing.ClassVar[logical_tensor.data_type]
        undef: typing.ClassVar[logical_tensor.data_type]
        @classmethod
        def __new__(cls, value): ...

    class layout_type(onednn_graph_py._enums.NamedEnum):
        """
        Layout types. Mirrors ``dnnl::graph::logical_tensor::layout_type``.
        """

        any: typing.ClassVar[logical_tensor.layout_type]
        opaque: typing.ClassVar[logical_tensor.layout_type]
        strided: typing.ClassVar[logical_tensor.layout_type]
        undef: typing.ClassVar[logical_tensor.layout_type]
        @classmethod
        def __new__(cls, value): ...

    class property_type(onednn_graph_py._enums.NamedEnum):
        """
        Tensor properties. Mirrors ``dnnl::graph::logical_tensor::property_type``.
        """

        constant: typing.ClassVar[logical_tensor.property_type]
        undef: typing.ClassVar[logical_tensor.property_type]
        variable: typing.ClassVar[logical_tensor.property_type]
        @classmethod
        def __new__(cls, value): ...

    any: typing.ClassVar[logical_tensor.layout_type]
    bf16: typing.ClassVar[logical_tensor.data_type]
    boolean: typing.ClassVar[logical_tensor.data_type]
    constant: typing.ClassVar[logical_tensor.property_type]
    dt_undef: typing.ClassVar[logical_tensor.data_type]
    f16: typing.ClassVar[logical_tensor.data_type]
    f32: typing.ClassVar[logical_tensor.data_type]
    f8_e4m3: typing.ClassVar[logical_tensor.data_type]
    f8_e5m2: typing.ClassVar[logical_tensor.data_type]
    lt_undef: typing.ClassVar[logical_tensor.layout_type]
    opaque: typing.ClassVar[logical_tensor.layout_type]
    pt_undef: typing.ClassVar[logical_tensor.property_type]
    s32: typing.ClassVar[logical_tensor.data_type]
    s4: typing.ClassVar[logical_tensor.data_type]
    s8: typing.ClassVar[logical_tensor.data_type]
    strided: typing.ClassVar[logical_tensor.layout_type]
    u4: typing.ClassVar[logical_tensor.data_type]
    u8: typing.ClassVar[logical_tensor.data_type]
    variable: typing.ClassVar[logical_tensor.property_type]
    def __eq__(self, arg0: logical_tensor) -> bool: ...
    def __getstate__(self) -> tuple: ...
    def __hash__(self) -> int: ...
    @typing.overload
    def __init__(self) -> None:
        """
        An empty logical tensor; using it raises `InvalidArgumentsError`.
        """
    @typing.overload
    def __init__(self, other: logical_tensor) -> None:
        """
        A copy.
        """
    @typing.overload
    def __init__(
        self,
        id: int,
        data_type: logical_tensor.data_type | str,
        layout_type: logical_tensor.layout_type | str = "undef",
    ) -> None:
        """
        Of unknown rank.
        """
    @typing.overload
    def __init__(
        self,
        id: int,
        data_type: logical_tensor.data_type | str,
        ndims: int,
        layout_type: logical_tensor.layout_type | str,
        property_type: logical_tensor.property_type | str = "undef",
    ) -> None:
        """
        Of known rank with unknown dims.
        """
    @typing.overload
    def __init__(
        self,
        id: int,
        data_type: logical_tensor.data_type | str,
        dims: collections.abc.Sequence[int | None],
        layout_type: logical_tensor.layout_type | str,
        property_type: logical_tensor.property_type | str = "undef",
    ) -> None:
        """
        Of known dims; strided means row-major.
        """
    @typing.overload
    def __init__(
        self,
        id: int,
        data_type: logical_tensor.data_type | str,
        dims: collections.abc.Sequence[int | None],
        strides: collections.abc.Sequence[int | None],
        property_type: logical_tensor.property_type | str = "undef",
    ) -> None:
        """
        Of known dims and strides.
        """
    @typing.overload
    def __init__(
        self,
        id: int,
        data_type: logical_tensor.data_type | str,
        dims: collections.abc.Sequence[int | None],
        layout_id: int,
        property_type: logical_tensor.property_type | str = "undef",
    ) -> None:
        """
        Of known dims in an opaque layout.
        """
    def __repr__(self) -> str: ...
    def __setstate__(self, arg0: tuple) -> None: ...
    def get_data_type(self) -> logical_tensor.data_type:
        """
        The data type.
        """
    def get_dims(self) -> list[int]:
        """
        The dims as a list; an unknown one is `UNKNOWN_DIM`.

        Raises
        ------
        InvalidArgumentsError
            The rank is unknown.
        """
    def get_id(self) -> int:
        """
        The id.
        """
    def get_layout_id(self) -> int:
        """
        Id of the opaque layout.

        Raises
        ------
        InvalidArgumentsError
            The layout is not opaque.
        """
    def get_layout_type(self) -> logical_tensor.layout_type:
        """
        The layout type.
        """
    def get_mem_size(self) -> int:
        """
        Bytes that memory for this tensor must have, from its first to its last element.

        Where strides overlap this is right and oneDNN's own figure too small.

        Raises
        ------
        InvalidShapeError
            Dims are unknown, or the layout is neither strided nor opaque.
        InvalidDataTypeError
            The data type is undef.
        """
    def get_property_type(self) -> logical_tensor.property_type:
        """
        The property.
        """
    def get_strides(self) -> list[int]:
        """
        The strides in elements, as a list.

        Raises
        ------
        InvalidArgumentsError
            The layout is not strided.
        """
    def is_equal(self, other: logical_tensor) -> bool:
        """
        Whether oneDNN takes the two for the same: a strided and an opaque layout may be.
        """

class tensor:
    """
    A logical tensor with memory. Mirrors ``dnnl::graph::tensor`` (oneDNN page: Graph API,
    Basic Concepts).

    The memory is used in place, never copied, and kept alive. It comes from

    - a NumPy array of the same dtype, shape and strides (ml_dtypes for bf16, f8_e4m3 and
      f8_e5m2), or a flat array of just the right size, which is taken as raw memory;
    - a DLPack producer on the CPU, such as a torch tensor;
    - an object with the buffer protocol; flat bytes are taken as raw memory;
    - an integer address of mapped memory, which the caller must keep alive;
    - oneDNN, when no `data` is given.

    s4 and u4 are packed two to a byte, the first in the low half: a flat uint8 array.

    Parameters
    ----------
    lt : logical_tensor
        Of known dims; strided or opaque.
    engine : engine
    data : array, DLPack producer, buffer or int, optional

    Raises
    ------
    InvalidShapeError
        Too small, another shape or other strides.
    InvalidDataTypeError
        Another dtype.
    InvalidArgumentsError
        Misaligned, on another device, or not mapped memory.
    """
    @staticmethod
    def make_scalar_tensor(lt: logical_tensor, scalar: typing.Any) -> tensor:
        """
        A scalar on the host, of property ``host_scalar`` (oneDNN 3.9).

        The value is copied.

        Raises
        ------
        UnimplementedError
            The linked oneDNN is older.
        InvalidArgumentsError
            The value does not fit the data type.
        """
    def __array__(self, dtype: typing.Any = None, copy: typing.Any = None) -> typing.Any: ...
    def __bool__(self) -> bool: ...
    def __dlpack__(
        self,
        *,
        stream: typing.Any = None,
        max_version: typing.Any = None,
        dl_device: typing.Any = None,
        copy: typing.Any = None,
    ) -> typing_extensions.CapsuleType: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    @typing.overload
    def __init__(self) -> None:
        """
        An empty tensor; using it raises `InvalidArgumentsError`.
        """
    @typing.overload
    def __init__(self, lt: logical_tensor, engine: engine, data: typing.Any) -> None:
        """
        Over memory that exists.
        """
    @typing.overload
    def __init__(self, lt: logical_tensor, engine: engine) -> None:
        """
        Over memory that oneDNN allocates; it is not initialised.
        """
    def __repr__(self) -> str: ...
    def get(self) -> int:
        """
        Address of the C handle (``dnnl_graph_tensor_t``), for other extensions.
        """
    def get_data_handle(self) -> int:
        """
        Address of the first element.
        """
    def get_engine(self) -> engine:
        """
        The engine that the tensor was made with.
        """
    def get_logical_tensor(self) -> logical_tensor:
        """
        The logical tensor.
        """
    def numpy(self) -> numpy.ndarray:
        """
        The memory as a NumPy array, without a copy.

        Returns
        -------
        numpy.ndarray
            With the tensor's shape and strides; flat uint8 for opaque layouts, s4 and u4.
            It keeps the memory alive, and is read-only where the memory is.
        """
    def set_data_handle(self, data: typing.Any) -> None:
        """
        Uses other memory from now on, checked as in the constructor; the old memory
        is let go.
        """

class op:
    """
    One operation of a graph. Mirrors ``dnnl::graph::op`` (oneDNN page: Graph API, Basic
    Concepts; each kind has a page of its own under Operations).

    A graph or partition takes a copy; after that the op can't be changed, but be added to
    other graphs.

    >>> matmul = op(0, 'MatMul', 'fc')
    >>> matmul.set_attr('transpose_b', True)
    op(0, MatMul, 'fc', inputs=[], outputs=[], transpose_b=True)

    Parameters
    ----------
    id : int
        Unique in its graph.
    kind : op.kind or str
    inputs, outputs : list of logical_tensor, optional
        In the order of the op's ports.
    verbose_name : str, optional
        Shown in messages and oneDNN's log.

    Raises
    ------
    InvalidArgumentsError
        The kind or an argument is unknown.
    UnimplementedError
        The linked oneDNN is too old for the kind.
    """
    class kind(onednn_graph_py._enums.NamedEnum):
        """
        Kinds of op. Mirrors ``dnnl::graph::op::kind``.
        """

        Abs: typing.ClassVar[op.kind]
        AbsBackward: typing.ClassVar[op.kind]
        Add: typing.ClassVar[op.kind]
        AvgPool: typing.ClassVar[op.kind]
        AvgPoolBackward: typing.ClassVar[op.kind]
        BatchNormForwardTraining: typing.ClassVar[op.kind]
        BatchNormInference: typing.ClassVar[op.kind]
        BatchNormTrainingBackward: typing.ClassVar[op.kind]
        BiasAdd: typing.ClassVar[op.kind]
        BiasAddBackward: typing.ClassVar[op.kind]
        Clamp: typing.ClassVar[op.kind]
        ClampBackward: typing.ClassVar[op.kind]
        Concat: typing.ClassVar[op.kind]
        ConvTranspose: typing.ClassVar[op.kind]
        ConvTransposeBackwardData: typing.ClassVar[op.kind]
        ConvTransposeBackwardWeights: typing.ClassVar[op.kind]
        Convolution: typing.ClassVar[op.kind]
        ConvolutionBackwardData: typing.ClassVar[op.kind]
        ConvolutionBackwardWeights: typing.ClassVar[op.kind]
        Dequantize: typing.ClassVar[op.kind]
        Divide: typing.ClassVar[op.kind]
        DynamicDequantize: typing.ClassVar[op.kind]
        DynamicQuantize: typing.ClassVar[op.kind]
        Elu: typing.ClassVar[op.kind]
        EluBackward: typing.ClassVar[op.kind]
        End: typing.ClassVar[op.kind]
        Exp: typing.ClassVar[op.kind]
        GELU: typing.ClassVar[op.kind]
        GELUBackward: typing.ClassVar[op.kind]
        GenIndex: typing.ClassVar[op.kind]
        GreaterEqual: typing.ClassVar[op.kind]
        GroupNorm: typing.ClassVar[op.kind]
        HardSigmoid: typing.ClassVar[op.kind]
        HardSigmoidBackward: typing.ClassVar[op.kind]
        HardSwish: typing.ClassVar[op.kind]
        HardSwishBackward: typing.ClassVar[op.kind]
        Interpolate: typing.ClassVar[op.kind]
        InterpolateBackward: typing.ClassVar[op.kind]
        LastSymbol: typing.ClassVar[op.kind]
        LayerNorm: typing.ClassVar[op.kind]
        LayerNormBackward: typing.ClassVar[op.kind]
        LeakyReLU: typing.ClassVar[op.kind]
        Log: typing.ClassVar[op.kind]
        LogSoftmax: typing.ClassVar[op.kind]
        LogSoftmaxBackward: typing.ClassVar[op.kind]
        MatMul: typing.ClassVar[op.kind]
        MaxPool: typing.ClassVar[op.kind]
        MaxPoolBackward: typing.ClassVar[op.kind]
        Maximum: typing.ClassVar[op.kind]
        Minimum: typing.ClassVar[op.kind]
        Mish: typing.ClassVar[op.kind]
        MishBackward: typing.ClassVar[op.kind]
        Multiply: typing.ClassVar[op.kind]
        PReLU: typing.ClassVar[op.kind]
        PReLUBackward: typing.ClassVar[op.kind]
        Pow: typing.ClassVar[op.kind]
        Quantize: typing.ClassVar[op.kind]
        ReLU: typing.ClassVar[op.kind]
        ReLUBackward: typing.ClassVar[op.kind]
        Reciprocal: typing.ClassVar[op.kind]
        ReduceL1: typing.ClassVar[op.kind]
        ReduceL2: typing.ClassVar[op.kind]
        ReduceMax: typing.ClassVar[op.kind]
        ReduceMean: typing.ClassVar[op.kind]
        ReduceMin: typing.ClassVar[op.kind]
        ReduceProd: typing.ClassVar[op.kind]
        ReduceSum: typing.ClassVar[op.kind]
        Reorder: typing.ClassVar[op.kind]
        Round: typing.ClassVar[op.kind]
        Select: typing.ClassVar[op.kind]
        Sigmoid: typing.ClassVar[op.kind]
        SigmoidBackward: typing.ClassVar[op.kind]
        SoftMax: typing.ClassVar[op.kind]
        SoftMaxBackward: typing.ClassVar[op.kind]
        SoftPlus: typing.ClassVar[op.kind]
        SoftPlusBackward: typing.ClassVar[op.kind]
        Sqrt: typing.ClassVar[op.kind]
        SqrtBackward: typing.ClassVar[op.kind]
        Square: typing.ClassVar[op.kind]
        SquaredDifference: typing.ClassVar[op.kind]
        StaticReshape: typing.ClassVar[op.kind]
        StaticTranspose: typing.ClassVar[op.kind]
        Subtract: typing.ClassVar[op.kind]
        Tanh: typing.ClassVar[op.kind]
        TanhBackward: typing.ClassVar[op.kind]
        TypeCast: typing.ClassVar[op.kind]
        Wildcard: typing.ClassVar[op.kind]
        @classmethod
        def __new__(cls, value): ...

    class attr(onednn_graph_py._enums.NamedEnum):
        """
        Attributes of ops. Mirrors ``dnnl::graph::op::attr``.
        """

        alpha: typing.ClassVar[op.attr]
        auto_broadcast: typing.ClassVar[op.attr]
        auto_pad: typing.ClassVar[op.attr]
        axes: typing.ClassVar[op.attr]
        axis: typing.ClassVar[op.attr]
        begin_norm_axis: typing.ClassVar[op.attr]
        beta: typing.ClassVar[op.attr]
        coordinate_transformation_mode: typing.ClassVar[op.attr]
        data_format: typing.ClassVar[op.attr]
        dilations: typing.ClassVar[op.attr]
        dst_shape: typing.ClassVar[op.attr]
        end: typing.ClassVar[op.attr]
        epsilon: typing.ClassVar[op.attr]
        exclude_pad: typing.ClassVar[op.attr]
        group_shape: typing.ClassVar[op.attr]
        groups: typing.ClassVar[op.attr]
        keep_dims: typing.ClassVar[op.attr]
        keep_stats: typing.ClassVar[op.attr]
        kernel: typing.ClassVar[op.attr]
        max: typing.ClassVar[op.attr]
        min: typing.ClassVar[op.attr]
        mode: typing.ClassVar[op.attr]
        momentum: typing.ClassVar[op.attr]
        order: typing.ClassVar[op.attr]
        output_padding: typing.ClassVar[op.attr]
        pads_begin: typing.ClassVar[op.attr]
        pads_end: typing.ClassVar[op.attr]
        per_channel_broadcast: typing.ClassVar[op.attr]
        qtype: typing.ClassVar[op.attr]
        rounding_type: typing.ClassVar[op.attr]
        scales: typing.ClassVar[op.attr]
        shape: typing.ClassVar[op.attr]
        sizes: typing.ClassVar[op.attr]
        special_zero: typing.ClassVar[op.attr]
        src_shape: typing.ClassVar[op.attr]
        strides: typing.ClassVar[op.attr]
        transpose_a: typing.ClassVar[op.attr]
        transpose_b: typing.ClassVar[op.attr]
        undef: typing.ClassVar[op.attr]
        use_affine: typing.ClassVar[op.attr]
        use_dst: typing.ClassVar[op.attr]
        weights_format: typing.ClassVar[op.attr]
        weights_shape: typing.ClassVar[op.attr]
        zps: typing.ClassVar[op.attr]
        @classmethod
        def __new__(cls, value): ...

    Abs: typing.ClassVar[op.kind]
    AbsBackward: typing.ClassVar[op.kind]
    Add: typing.ClassVar[op.kind]
    AvgPool: typing.ClassVar[op.kind]
    AvgPoolBackward: typing.ClassVar[op.kind]
    BatchNormForwardTraining: typing.ClassVar[op.kind]
    BatchNormInference: typing.ClassVar[op.kind]
    BatchNormTrainingBackward: typing.ClassVar[op.kind]
    BiasAdd: typing.ClassVar[op.kind]
    BiasAddBackward: typing.ClassVar[op.kind]
    Clamp: typing.ClassVar[op.kind]
    ClampBackward: typing.ClassVar[op.kind]
    Concat: typing.ClassVar[op.kind]
    ConvTranspose: typing.ClassVar[op.kind]
    ConvTransposeBackwardData: typing.ClassVar[op.kind]
    ConvTransposeBackwardWeights: typing.ClassVar[op.kind]
    Convolution: typing.ClassVar[op.kind]
    ConvolutionBackwardData: typing.ClassVar[op.kind]
    ConvolutionBackwardWeights: typing.ClassVar[op.kind]
    Dequantize: typing.ClassVar[op.kind]
    Divide: typing.ClassVar[op.kind]
    DynamicDequantize: typing.ClassVar[op.kind]
    DynamicQuantize: typing.ClassVar[op.kind]
    Elu: typing.ClassVar[op.kind]
    EluBackward: typing.ClassVar[op.kind]
    End: typing.ClassVar[op.kind]
    Exp: typing.ClassVar[op.kind]
    GELU: typing.ClassVar[op.kind]
    GELUBackward: typing.ClassVar[op.kind]
    GenIndex: typing.ClassVar[op.kind]
    GreaterEqual: typing.ClassVar[op.kind]
    GroupNorm: typing.ClassVar[op.kind]
    HardSigmoid: typing.ClassVar[op.kind]
    HardSigmoidBackward: typing.ClassVar[op.kind]
    HardSwish: typing.ClassVar[op.kind]
    HardSwishBackward: typing.ClassVar[op.kind]
    Interpolate: typing.ClassVar[op.kind]
    InterpolateBackward: typing.ClassVar[op.kind]
    LastSymbol: typing.ClassVar[op.kind]
    LayerNorm: typing.ClassVar[op.kind]
    LayerNormBackward: typing.ClassVar[op.kind]
    LeakyReLU: typing.ClassVar[op.kind]
    Log: typing.ClassVar[op.kind]
    LogSoftmax: typing.ClassVar[op.kind]
    LogSoftmaxBackward: typing.ClassVar[op.kind]
    MatMul: typing.ClassVar[op.kind]
    MaxPool: typing.ClassVar[op.kind]
    MaxPoolBackward: typing.ClassVar[op.kind]
    Maximum: typing.ClassVar[op.kind]
    Minimum: typing.ClassVar[op.kind]
    Mish: typing.ClassVar[op.kind]
    MishBackward: typing.ClassVar[op.kind]
    Multiply: typing.ClassVar[op.kind]
    PReLU: typing.ClassVar[op.kind]
    PReLUBackward: typing.ClassVar[op.kind]
    Pow: typing.ClassVar[op.kind]
    Quantize: typing.ClassVar[op.kind]
    ReLU: typing.ClassVar[op.kind]
    ReLUBackward: typing.ClassVar[op.kind]
    Reciprocal: typing.ClassVar[op.kind]
    ReduceL1: typing.ClassVar[op.kind]
    ReduceL2: typing.ClassVar[op.kind]
    ReduceMax: typing.ClassVar[op.kind]
    ReduceMean: typing.ClassVar[op.kind]
    ReduceMin: typing.ClassVar[op.kind]
    ReduceProd: typing.ClassVar[op.kind]
    ReduceSum: typing.ClassVar[op.kind]
    Reorder: typing.ClassVar[op.kind]
    Round: typing.ClassVar[op.kind]
    Select: typing.ClassVar[op.kind]
    Sigmoid: typing.ClassVar[op.kind]
    SigmoidBackward: typing.ClassVar[op.kind]
    SoftMax: typing.ClassVar[op.kind]
    SoftMaxBackward: typing.ClassVar[op.kind]
    SoftPlus: typing.ClassVar[op.kind]
    SoftPlusBackward: typing.ClassVar[op.kind]
    Sqrt: typing.ClassVar[op.kind]
    SqrtBackward: typing.ClassVar[op.kind]
    Square: typing.ClassVar[op.kind]
    SquaredDifference: typing.ClassVar[op.kind]
    StaticReshape: typing.ClassVar[op.kind]
    StaticTranspose: typing.ClassVar[op.kind]
    Subtract: typing.ClassVar[op.kind]
    Tanh: typing.ClassVar[op.kind]
    TanhBackward: typing.ClassVar[op.kind]
    TypeCast: typing.ClassVar[op.kind]
    Wildcard: typing.ClassVar[op.kind]
    alpha: typing.ClassVar[op.attr]
    auto_broadcast: typing.ClassVar[op.attr]
    auto_pad: typing.ClassVar[op.attr]
    axes: typing.ClassVar[op.attr]
    axis: typing.ClassVar[op.attr]
    begin_norm_axis: typing.ClassVar[op.attr]
    beta: typing.ClassVar[op.attr]
    coordinate_transformation_mode: typing.ClassVar[op.attr]
    data_format: typing.ClassVar[op.attr]
    dilations: typing.ClassVar[op.attr]
    dst_shape: typing.ClassVar[op.attr]
    end: typing.ClassVar[op.attr]
    epsilon: typing.ClassVar[op.attr]
    exclude_pad: typing.ClassVar[op.attr]
    group_shape: typing.ClassVar[op.attr]
    groups: typing.ClassVar[op.attr]
    keep_dims: typing.ClassVar[op.attr]
    keep_stats: typing.ClassVar[op.attr]
    kernel: typing.ClassVar[op.attr]
    max: typing.ClassVar[op.attr]
    min: typing.ClassVar[op.attr]
    mode: typing.ClassVar[op.attr]
    momentum: typing.ClassVar[op.attr]
    order: typing.ClassVar[op.attr]
    output_padding: typing.ClassVar[op.attr]
    pads_begin: typing.ClassVar[op.attr]
    pads_end: typing.ClassVar[op.attr]
    per_channel_broadcast: typing.ClassVar[op.attr]
    qtype: typing.ClassVar[op.attr]
    rounding_type: typing.ClassVar[op.attr]
    scales: typing.ClassVar[op.attr]
    shape: typing.ClassVar[op.attr]
    sizes: typing.ClassVar[op.attr]
    special_zero: typing.ClassVar[op.attr]
    src_shape: typing.ClassVar[op.attr]
    strides: typing.ClassVar[op.attr]
    transpose_a: typing.ClassVar[op.attr]
    transpose_b: typing.ClassVar[op.attr]
    undef: typing.ClassVar[op.attr]
    use_affine: typing.ClassVar[op.attr]
    use_dst: typing.ClassVar[op.attr]
    weights_format: typing.ClassVar[op.attr]
    weights_shape: typing.ClassVar[op.attr]
    zps: typing.ClassVar[op.attr]
    @typing.overload
    def __init__(self, id: int, kind: op.kind | str, verbose_name: str = "") -> None: ...
    @typing.overload
    def __init__(
        self,
        id: int,
        kind: op.kind | str,
        inputs: collections.abc.Sequence[logical_tensor],
        outputs: collections.abc.Sequence[logical_tensor],
        verbose_name: str = "",
    ) -> None: ...
    def __repr__(self) -> str: ...
    def add_input(self, t: logical_tensor) -> None:
        """
        Appends an input.
        """
    def add_inputs(self, ts: collections.abc.Sequence[logical_tensor]) -> None:
        """
        Appends inputs, in order.
        """
    def add_output(self, t: logical_tensor) -> None:
        """
        Appends an output.
        """
    def add_outputs(self, ts: collections.abc.Sequence[logical_tensor]) -> None:
        """
        Appends outputs, in order.
        """
    def get_attrs(self) -> dict:
        """
        The attributes that were set, by name.
        """
    def get_id(self) -> int:
        """
        The id.
        """
    def get_inputs(self) -> tuple:
        """
        The inputs, in order.
        """
    def get_kind(self) -> op.kind:
        """
        The kind.
        """
    def get_name(self) -> str:
        """
        The verbose name.
        """
    def get_outputs(self) -> tuple:
        """
        The outputs, in order.
        """
    def set_attr(self, name: op.attr | str, value: typing.Any) -> typing.Any:
        """
        Sets an attribute; the C++ type is the attribute's, not the value's.

        Parameters
        ----------
        name : op.attr or str
        value : int, float, bool, str, list, tuple, NumPy scalar or array

        Returns
        -------
        op
            This op.

        Raises
        ------
        TypeError
            The attribute takes another type.
        InvalidArgumentsError
            The list or string is empty, or a number too large.
        InvalidGraphOpError
            A graph has taken a copy of this op already.
        """

class bound_execution:
    """
    An execution whose tensors are checked and fixed; made by `compiled_partition.bind`.

    Calling it, without arguments, runs without the GIL. When a tensor was given other
    memory since, everything is checked again first.
    """
    def __call__(self, *args, **kwargs):
        """
        Call self as a function.
        """
    def __repr__(self) -> str: ...

class compiled_partition:
    """
    A partition compiled for shapes, layouts and an engine. Mirrors
    ``dnnl::graph::compiled_partition`` (oneDNN page: Graph API, Basic Concepts).

    It may be executed from many threads at once.
    """
    def __bool__(self) -> bool: ...
    def __init__(self) -> None:
        """
        An empty one; using it raises `InvalidArgumentsError`.
        """
    def __repr__(self) -> str: ...
    def bind(
        self,
        stream: typing.Any,
        inputs: typing.Any,
        outputs: typing.Any,
        scratchpad: typing.Any = None,
    ) -> typing.Any:
        """
        Checks now what `execute` would check at each call.

        Returns
        -------
        bound_execution
            Callable without arguments; keeps all it uses alive.
        """
    def execute(
        self, stream: stream, inputs: typing.Any, outputs: typing.Any, scratchpad: typing.Any = None
    ) -> None:
        """
        Runs, without the GIL. On a CPU with OpenMP it is done on return; elsewhere
        ``stream.wait()`` tells.

        Parameters
        ----------
        stream : stream
            Of the engine that was compiled for.
        inputs, outputs : sequence of tensor
            In the order given to `compile`.
        scratchpad : tensor, optional
            Working memory (oneDNN 3.13).

        Raises
        ------
        InvalidArgumentsError
            Count or ids differ, an output is read-only, or memory overlaps wrongly.
        InvalidShapeError, InvalidDataTypeError
            A tensor is not what was compiled for.
        """
    def get(self) -> int:
        """
        Address of the C handle, for other extensions.
        """
    def get_inplace_ports(self) -> list[tuple[int, int]]:
        """
        Pairs (input id, output id) that may share their memory.
        """
    def get_inputs(self) -> list[logical_tensor]:
        """
        Logical tensors of the inputs, in the order that `execute` takes.
        """
    def get_outputs(self) -> list[logical_tensor]:
        """
        Logical tensors of the outputs, in the order that `execute` takes.
        """
    def get_scratchpad_logical_tensor(self) -> logical_tensor:
        """
        Logical tensor (flat u8) of the scratchpad that `execute` may be given.

        Raises
        ------
        UnimplementedError
            The linked oneDNN is older than 3.13.
        """
    def query_logical_tensor(
        self, tid: typing.SupportsInt | typing.SupportsIndex
    ) -> logical_tensor:
        """
        The logical tensor of an input or output, with its final dims and layout.

        Raises
        ------
        InvalidArgumentsError
            There is no such id.
        """

class partition:
    """
    Ops that oneDNN runs together. Mirrors ``dnnl::graph::partition`` (oneDNN page: Graph
    API, Basic Concepts).
    """
    class policy(onednn_graph_py._enums.NamedEnum):
        """
        How a graph is split. Mirrors ``dnnl::graph::partition::policy``.
        """

        debug: typing.ClassVar[partition.policy]
        fusion: typing.ClassVar[partition.policy]
        @classmethod
        def __new__(cls, value): ...

    debug: typing.ClassVar[partition.policy]
    fusion: typing.ClassVar[partition.policy]
    def __bool__(self) -> bool: ...
    def __eq__(self, arg0: partition) -> bool: ...
    def __hash__(self) -> int: ...
    @typing.overload
    def __init__(self) -> None:
        """
        An empty partition; using it raises `InvalidArgumentsError`.
        """
    @typing.overload
    def __init__(self, op: op, engine_kind: engine.kind | str) -> None:
        """
        A partition of one op, without a graph.

        Raises
        ------
        InvalidGraphOpError
            The op breaks its schema.
        """
    def __repr__(self) -> str: ...
    def compile(
        self,
        inputs: collections.abc.Sequence[logical_tensor],
        outputs: collections.abc.Sequence[logical_tensor],
        engine: engine,
    ) -> compiled_partition:
        """
        Compiles for shapes and layouts, without the GIL.

        Parameters
        ----------
        inputs : list of logical_tensor
            Each port once, by id, in the order that `execute` will take tensors; of
            known dims, strided or opaque (any if constant).
        outputs : list of logical_tensor
            Likewise; unknown dims are inferred, ``any`` lets oneDNN choose the layout.
        engine : engine

        Returns
        -------
        compiled_partition

        Raises
        ------
        UnimplementedError
            The partition is unsupported, or has no implementation.
        InvalidArgumentsError
            A port is missing, unknown or given too often.
        InvalidShapeError, InvalidDataTypeError
            A tensor differs from the graph's, or the ops can't take it.
        """
    def get(self) -> int:
        """
        Address of the C handle (``dnnl_graph_partition_t``), for other extensions.
        """
    def get_engine_kind(self) -> engine.kind:
        """
        The engine kind that the partition is for.
        """
    def get_id(self) -> int:
        """
        The id, unique in this process.
        """
    def get_input_ports(self) -> list[logical_tensor]:
        """
        Logical tensors of the inputs; one that feeds two ports comes twice.
        """
    def get_ops(self) -> list[int]:
        """
        Ids of the ops.
        """
    def get_ops_num(self) -> int:
        """
        Number of ops.
        """
    def get_output_ports(self) -> list[logical_tensor]:
        """
        Logical tensors of the outputs.
        """
    def is_supported(self) -> bool:
        """
        Whether oneDNN can compile this partition.
        """

class graph:
    """
    Ops, connected by the ids of their logical tensors. Mirrors ``dnnl::graph::graph``
    (oneDNN page: Graph API, Basic Concepts).

    Parameters
    ----------
    engine_kind : engine.kind or str
    mode : fpmath_mode or str, optional
        Lower precisions that f32 ops may use.
    """
    def __bool__(self) -> bool: ...
    def __eq__(self, arg0: graph) -> bool: ...
    def __hash__(self) -> int: ...
    @typing.overload
    def __init__(self, engine_kind: engine.kind | str) -> None: ...
    @typing.overload
    def __init__(self, engine_kind: engine.kind | str, mode: fpmath_mode | str) -> None: ...
    def __repr__(self) -> str: ...
    def add_op(self, op: op, allow_exception: bool = True) -> status:
        """
        Adds a copy of an op.

        Parameters
        ----------
        op : op
        allow_exception : bool
            If False, a failure is returned, not raised.

        Returns
        -------
        status

        Raises
        ------
        InvalidGraphOpError
            The op breaks its schema, repeats an id or produces a tensor that has a producer.
        InvalidShapeError
            Its shapes can't be right.
        InvalidGraphError
            The graph is finalized.
        """
    def finalize(self) -> None:
        """
        Ends building, without the GIL; from now on the graph only partitions.

        Raises
        ------
        InvalidGraphError
            Uses of one tensor differ, there is a cycle, or the graph is finalized already.
        """
    def get(self) -> int:
        """
        Address of the C handle (``dnnl_graph_graph_t``), for other extensions.
        """
    def get_engine_kind(self) -> engine.kind:
        """
        The engine kind that the graph is for.
        """
    def get_fpmath_mode(self) -> tuple[fpmath_mode, bool]:
        """
        The pair (mode, apply_to_int).
        """
    def get_ops(self) -> list:
        """
        Copies of the ops that the graph took, by id.
        """
    def get_partitions(self, policy: partition.policy | str = "fusion") -> list[partition]:
        """
        Splits the graph, without the GIL, into what oneDNN runs as one kernel each.

        Parameters
        ----------
        policy : partition.policy or str
            ``fusion``, or ``debug`` for one op a partition.

        Returns
        -------
        list of partition
            Not always in dependency order.

        Raises
        ------
        InvalidGraphError
            The graph is not finalized.
        """
    def is_finalized(self) -> bool:
        """
        Whether `finalize` was called.
        """
    def set_fpmath_mode(self, mode: fpmath_mode | str, apply_to_int: bool = False) -> None:
        """
        Allows lower precisions in f32 ops and, if asked, in integer ones.

        Raises
        ------
        InvalidGraphError
            The graph is finalized.
        """

class _test:
    """
    Hooks for this package's own tests; no API.
    """
    @staticmethod
    def call_status(status: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        A oneDNN call that answers with a status.
        """
    @staticmethod
    def is_mapped(address: int, size: int) -> bool:
        """
        Whether an address range is readable memory.
        """
    @staticmethod
    def raise_status(status: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Throws dnnl::error of a status, as oneDNN's C++ API would.
        """
    @staticmethod
    def throw_bad_alloc() -> None:
        """
        Throws what lack of memory does.
        """
    @staticmethod
    def throw_length_error() -> None:
        """
        Throws what an unchecked size makes oneDNN throw.
        """
    @staticmethod
    def time_execute(
        compiled_partition: compiled_partition,
        stream: stream,
        inputs: typing.Any,
        outputs: typing.Any,
        count: typing.SupportsInt | typing.SupportsIndex,
    ) -> float:
        """
        Seconds that `count` calls take from a C++ loop.
        """

def data_type_of(dtype: typing.Any) -> logical_tensor.data_type:
    """
    Data type of a NumPy dtype or anything that ``numpy.dtype`` takes.

    Raises
    ------
    InvalidDataTypeError
        oneDNN Graph has no such type.
    """

def get_compiled_partition_cache_capacity() -> int:
    """
    Number of compiled partitions that oneDNN keeps.
    """

def get_constant_tensor_cache() -> int:
    """
    Whether the constant tensor cache is on (1) or off (0). Deprecated by oneDNN.
    """

def get_constant_tensor_cache_capacity(kind: engine.kind | str) -> int:
    """
    Capacity of the constant tensor cache in MB.
    """

def get_cpu_isa_hints() -> cpu_isa_hints:
    """
    The hints of the CPU dispatcher.
    """

def get_default_fpmath_mode() -> fpmath_mode:
    """
    Floating-point math mode of new primitives.
    """

def get_effective_cpu_isa() -> cpu_isa:
    """
    The instruction set that oneDNN dispatches to on this CPU.
    """

def get_primitive_cache_capacity() -> int:
    """
    Number of primitives that oneDNN keeps.
    """

def make_engine_with_allocator(
    kind: engine.kind | str, index: typing.SupportsInt | typing.SupportsIndex, alloc: allocator
) -> engine:
    """
    An engine that takes host memory from `alloc`.

    Mirrors ``dnnl::graph::make_engine_with_allocator``.

    Raises
    ------
    InvalidArgumentsError
        There is no such engine here.
    UnimplementedError
        The linked oneDNN takes memory from SYCL.
    """

def numpy_dtype(data_type: logical_tensor.data_type | str) -> numpy.dtype[typing.Any]:
    """
    NumPy dtype of a data type, from NumPy or ml_dtypes.

    Returns
    -------
    numpy.dtype
        For ``s4`` and ``u4`` ml_dtypes' int4 and uint4, which store one element a byte;
        tensors hold two a byte, see `onednn_graph_py.dtypes.pack_int4`.
    """

def set_compiled_partition_cache_capacity(capacity: int) -> None:
    """
    Keeps at most `capacity` compiled partitions; 0 turns the cache off.

    The cache is shared by the whole process: partitions of equal op ids, kinds, names,
    attributes and tensors are one entry, whatever graph they come from. oneDNN page: Graph
    API, Compiled Partition Cache.
    """

def set_constant_tensor_cache(flag: int) -> None:
    """
    Turns the constant tensor cache on (1) or off (0) for all engine kinds. Deprecated by
    oneDNN: use `set_constant_tensor_cache_capacity`.
    """

def set_constant_tensor_cache_capacity(kind: engine.kind | str, size: int) -> None:
    """
    Keeps up to `size` MB of preprocessed constants, such as reordered weights; 0, the
    default, keeps none. Flushes the cache; set it before compiling.

    A constant is known by its partition's id and its ADDRESS: after other weights were
    written into the same memory the old ones are still used. oneDNN page: Graph API,
    Constant Tensor Cache.
    """

def set_cpu_isa_hints(isa_hints: cpu_isa_hints | str) -> status:
    """
    Sets hints for the CPU dispatcher.
    """

def set_default_fpmath_mode(mode: fpmath_mode | str) -> status:
    """
    Sets the floating-point math mode of new primitives and graphs.
    """

def set_dump_mode(modes: typing.Any) -> status:
    """
    Has oneDNN write graphs as JSON into the current directory (oneDNN 3.11).

    Parameters
    ----------
    modes : graph_dump_mode or str

    Raises
    ------
    UnimplementedError
        The linked oneDNN is older.
    InvalidArgumentsError
        It was built without graph dump.
    """

def set_jit_dump(enable: bool) -> status:
    """
    Has oneDNN write each generated kernel into the current directory. oneDNN page:
    Inspecting JIT Code.
    """

def set_jit_profiling_flags(flags: int) -> status:
    """
    Chooses the profilers that are told of generated kernels (0 none, 1 VTune, 2 perfmap,
    4 jitdump). oneDNN page: Profiling oneDNN Performance.
    """

def set_jit_profiling_jitdumpdir(dir: str) -> status:
    """
    Chooses where jitdump files go.
    """

def set_max_cpu_isa(isa: cpu_isa | str) -> status:
    """
    Uses no instruction set above `isa`. oneDNN page: CPU Dispatcher Control.

    Raises
    ------
    InvalidArgumentsError
        oneDNN has fixed its instruction set already.
    """

def set_primitive_cache_capacity(capacity: int) -> None:
    """
    Keeps at most `capacity` primitives; 0 turns the cache off. oneDNN page: Primitive Cache.
    """

def set_verbose(level: typing.SupportsInt | typing.SupportsIndex) -> status:
    """
    Has oneDNN print what it does: 0 nothing, 1 executions, 2 also creations.

    oneDNN page: Verbose Mode. Exceptions carry oneDNN's reasons at any level.

    Raises
    ------
    InvalidArgumentsError
        Another level.
    """

def version() -> dict:
    """
    The linked oneDNN.

    Returns
    -------
    dict
        ``major``, ``minor``, ``patch`` and ``hash`` of the library, its ``cpu_runtime`` and
        ``gpu_runtime``, and the version of the ``headers`` this package was built with.
    """

MAX_NDIMS: int = 12
UNKNOWN_DIM: int = -9223372036854775808
UNKNOWN_NDIMS: int = -1
__version__: str = "0.1.0"
