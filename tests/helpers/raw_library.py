"""oneDNN's C functions, called without this package, which would translate or refuse: `accepts`."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import onednn_graph_py as og
from matrix.programs import LIBRARY

__all__ = ["accepts"]

_library = ctypes.CDLL(str(LIBRARY))
_TENSOR_BYTES = 4096  # more than the C struct of any version has


def _call(function: str, *arguments: Any) -> int:
    return int(getattr(_library, function)(*arguments))


def _tensor(number: int, dtype: str, shape: Sequence[int]) -> Any:
    made = ctypes.create_string_buffer(_TENSOR_BYTES)
    status = _call(
        "dnnl_graph_logical_tensor_init_with_dims",
        made,
        ctypes.c_size_t(number),
        ctypes.c_int(og.logical_tensor.data_type[dtype].value),
        ctypes.c_int32(len(shape)),
        (ctypes.c_int64 * 12)(*shape),
        ctypes.c_int(og.logical_tensor.layout_type.strided.value),
        ctypes.c_int(og.logical_tensor.property_type.variable.value),
    )
    assert status == 0
    return made


Value = str | float | bool | Sequence[int]


def _set(op: ctypes.c_void_p, name: str, value: Value) -> int:
    attribute = ctypes.c_int(og.op.attr[name].value)
    if isinstance(value, bool):
        flag = ctypes.byref(ctypes.c_uint8(value))
        return _call("dnnl_graph_op_set_attr_bool", op, attribute, flag, ctypes.c_size_t(1))
    if isinstance(value, str):
        text = value.encode()
        return _call("dnnl_graph_op_set_attr_str", op, attribute, text, ctypes.c_size_t(len(text)))
    if isinstance(value, float):
        one = ctypes.byref(ctypes.c_float(value))
        return _call("dnnl_graph_op_set_attr_f32", op, attribute, one, ctypes.c_size_t(0))
    numbers = (ctypes.c_int64 * max(len(value), 1))(*value)
    return _call("dnnl_graph_op_set_attr_s64", op, attribute, numbers, ctypes.c_size_t(len(value)))


def accepts(
    kind: str,
    inputs: Sequence[tuple[str, Sequence[int]]],
    output: tuple[str, Sequence[int]],
    attributes: Mapping[str, Value],
) -> bool:
    """Whether a graph of oneDNN takes an op.

    Parameters
    ----------
    kind : str
    inputs : sequence of tuple
        Data type and shape of each.
    output : tuple
        Likewise.
    attributes : mapping
        A float is set as f32, a sequence as s64.
    """
    graph, op = ctypes.c_void_p(), ctypes.c_void_p()
    number = ctypes.c_int(og.op.kind[kind].value)
    assert _call("dnnl_graph_op_create", ctypes.byref(op), ctypes.c_size_t(0), number, b"op") == 0
    assert _call("dnnl_graph_graph_create", ctypes.byref(graph), ctypes.c_int(1)) == 0
    try:
        assert [_set(op, name, value) for name, value in attributes.items()].count(0) == len(
            attributes
        )
        for i, given in enumerate(inputs):
            assert _call("dnnl_graph_op_add_input", op, _tensor(i, *given)) == 0
        made = _tensor(len(inputs), *output)
        assert _call("dnnl_graph_op_add_output", op, made) == 0
        return _call("dnnl_graph_add_op", graph, op) == 0
    finally:
        _call("dnnl_graph_op_destroy", op)
        _call("dnnl_graph_graph_destroy", graph)
