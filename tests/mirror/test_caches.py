"""oneDNN's caches."""

import numpy as np
import pytest
from graphs import graph_of, matmul_relu_model, python, random, relu_op

import onednn_graph_py as og

COUNTED = {
    "compiled_partition_cache_capacity": (
        og.get_compiled_partition_cache_capacity,
        og.set_compiled_partition_cache_capacity,
    ),
    "primitive_cache_capacity": (
        og.get_primitive_cache_capacity,
        og.set_primitive_cache_capacity,
    ),
    "constant_tensor_cache_capacity": (
        lambda: og.get_constant_tensor_cache_capacity("cpu"),
        lambda size: og.set_constant_tensor_cache_capacity("cpu", size),
    ),
    "constant_tensor_cache": (og.get_constant_tensor_cache, og.set_constant_tensor_cache),
}


@pytest.fixture(params=COUNTED)
def cache(request):
    get, set_ = COUNTED[request.param]
    before = get()
    yield request.param, get, set_
    set_(before)


def test_a_capacity_is_kept(cache):
    name, get, set_ = cache
    for value in (0, 1, np.int32(1)):
        set_(value)
        assert get() == value
    if name != "constant_tensor_cache":
        set_(77)
        assert get() == 77


@pytest.mark.parametrize("wrong", [-1, 2**63, 2**64 - 1, 2**64, 10**30])
def test_a_capacity_out_of_range_is_refused(cache, wrong):
    _, get, set_ = cache
    before = get()
    with pytest.raises(og.InvalidArgumentsError):
        set_(wrong)
    assert get() == before


@pytest.mark.parametrize("wrong", [None, 1.5, "1", True, [1]])
def test_a_capacity_that_is_no_integer_is_a_type_error(cache, wrong):
    _, get, set_ = cache
    before = get()
    with pytest.raises(TypeError):
        set_(wrong)
    assert get() == before


def test_a_count_beyond_32_bits_is_refused():
    for name in ("compiled_partition_cache_capacity", "primitive_cache_capacity"):
        with pytest.raises(og.InvalidArgumentsError, match="is too large"):
            COUNTED[name][1](2**31)


def test_the_documented_defaults():
    done = python("""
        import onednn_graph_py as og
        print(og.get_compiled_partition_cache_capacity(), og.get_primitive_cache_capacity(),
              og.get_constant_tensor_cache_capacity("cpu"), og.get_constant_tensor_cache())
    """)
    assert done.stdout.split() == ["1024", "1024", "0", "0"]


def test_an_engine_kind_that_holds_no_constants_is_refused_or_answered():
    with pytest.raises(og.InvalidArgumentsError, match="did you mean 'cpu'"):
        og.get_constant_tensor_cache_capacity("cpuu")
    with pytest.raises(TypeError):
        og.set_constant_tensor_cache_capacity(1, 1)


def test_results_are_right_without_the_compiled_partition_cache():
    before = og.get_compiled_partition_cache_capacity()
    try:
        og.set_compiled_partition_cache_capacity(0)
        engine = og.engine("cpu", 0)
        (part,) = graph_of(relu_op()).get_partitions()
        (src,), (dst,) = part.get_input_ports(), part.get_output_ports()
        x, y, stream = random(4, 8), np.empty((4, 8), np.float32), og.stream(engine)
        for _ in range(3):
            part.compile([src], [dst], engine).execute(
                stream, [og.tensor(src, engine, x)], [og.tensor(dst, engine, y)]
            )
            stream.wait()
            assert (y == np.maximum(x, 0)).all()
    finally:
        og.set_compiled_partition_cache_capacity(before)


def test_results_are_right_with_the_constant_tensor_cache():
    before = og.get_constant_tensor_cache_capacity("cpu")
    try:
        og.set_constant_tensor_cache_capacity("cpu", 16)
        model = matmul_relu_model()
        a, b = random(16, 32), random(24, 32, seed=1)
        results = [model.run([a, b], [np.empty((16, 24), np.float32)])[0] for _ in range(2)]
        assert (results[0] == results[1]).all()
    finally:
        og.set_constant_tensor_cache_capacity("cpu", before)


FAILED = """
import onednn_graph_py as og

engine = og.engine("cpu", 0)

def compile(kind, types, **attrs):
    lts = [og.logical_tensor(i, t, s, "strided") for i, (t, s) in enumerate(types)]
    op = og.op(0, kind, lts[:-1], lts[-1:])
    for name, value in attrs.items():
        op.set_attr(name, value)
    g = og.graph("cpu")
    g.add_op(op)
    g.finalize()
    (part,) = g.get_partitions()
    part.compile(lts[:-1], lts[-1:], engine)

try:
    {failing}
    print("compiled")
except og.OneDNNError as e:
    print(e, e.reason())
# As many others as the cache takes, and one more.
for rows in range(1, og.get_compiled_partition_cache_capacity() + 2):
    compile("ReLU", [("f32", (rows, 2))] * 2)
"""


@pytest.mark.parametrize(
    ("failing", "reason"),
    [
        (
            "compile('DynamicDequantize', [('u8', (4, 4)), ('f16', (4,)), ('f16', (4, 4))],"
            " qtype='per_channel')",
            "could not create a primitive",
        ),
        (
            "compile('ClampBackward', [('f32', (4, 4))] * 3, min=float('nan'), max=1.0)",
            "alpha and beta parameters are not properly set",
        ),
    ],
    ids=["thrown", "unequal to itself"],
)
def test_a_failed_compilation_leaves_nothing_in_the_cache(failing, reason):
    """oneDNN left its key there, which is read at eviction and points to ops that are gone."""
    # glibc overwrites what is freed, so that reading it is noticed; not in its thread caches.
    tunables = "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0"
    done = python(FAILED.format(failing=failing), env={"GLIBC_TUNABLES": tunables})
    assert reason in done.stdout
