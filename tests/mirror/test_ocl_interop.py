"""OpenCL interop. No oneDNN with OpenCL on GPUs is at hand: what runs here is its absence."""

import pytest

import onednn_graph_py as og
from onednn_graph_py import ocl_interop
from onednn_graph_py._core import _ocl

has_no_ocl = pytest.mark.skipif(
    _ocl.available(), reason="the linked oneDNN's GPU runtime is OpenCL, which these tests lack"
)


def test_what_a_build_has_is_what_the_library_says():
    assert _ocl.available() == (og.version()["gpu_runtime"] == "OpenCL")
    assert (ocl_interop.missing() is None) == _ocl.available()


def lt() -> og.logical_tensor:
    return og.logical_tensor(0, "f32", [4], "strided")


@has_no_ocl
@pytest.mark.parametrize(
    "call",
    [
        lambda: ocl_interop.make_allocator(print, print),
        lambda: ocl_interop.make_engine(0, 0),
        lambda: ocl_interop.make_engine_with_allocator(0, 0, None),
        lambda: ocl_interop.make_stream(og.engine(), 0),
        lambda: ocl_interop.get_device(og.engine("cpu", 0)),
        lambda: ocl_interop.get_context(og.engine("cpu", 0)),
        lambda: ocl_interop.get_command_queue(og.stream(og.engine("cpu", 0))),
        lambda: ocl_interop.make_tensor(lt(), og.engine("cpu", 0), 0),
        lambda: ocl_interop.execute(None, None, [], []),
    ],
)
def test_a_build_without_opencl_says_so_before_anything_else(call):
    with pytest.raises(og.UnimplementedError, match=r"not in this build: .* without OpenCL"):
        call()


class Handle:
    """What pyopencl's objects have in common."""

    def __init__(self, value: int) -> None:
        self.int_ptr = value


class Event(Handle):
    """Named as pyopencl's."""


class Context(Handle):
    """Named as pyopencl's."""


def test_handles_are_taken_from_objects_of_the_right_class_and_integers():
    assert ocl_interop._handle(Event(64), "Event", "execute") == 64
    assert ocl_interop._handle(64, "Event", "execute") == 64
    for wrong in (None, True, 1.0, "64", Context(64)):
        with pytest.raises(TypeError, match=r"execute: expected a pyopencl.Event or its handle"):
            ocl_interop._handle(wrong, "Event", "execute")
    for number in (-1, 2**63):
        with pytest.raises(og.InvalidArgumentsError, match="is not an address"):
            ocl_interop._handle(number, "Event", "execute")
