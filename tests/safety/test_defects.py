"""Fused partitions that oneDNN computes wrongly: found again here, and avoided by models."""

import itertools
import pickle
import re
import warnings

import numpy as np
import pytest
from graphs import LINKED, built
from wrong_cases import (
    AMX,
    AVX512,
    EVERYWHERE,
    NEW,
    OLD,
    PER_TENSOR,
    ROWS,
    attention_gradients,
    attention_of_five_dims,
    before,
    group,
    int8_product,
    layer_norm_and_sum,
    noise,
    product,
    reshaped_mask,
    whole,
)

import onednn_graph_py as og
from onednn_graph_py.base.dtypes import numpy_dtype
from onednn_graph_py.machine import current
from onednn_graph_py.machine.cpu import lacks, threads_can_be_set
from onednn_graph_py.machine.store import processor
from onednn_graph_py.model.checking.verify import reference_values
from onednn_graph_py.model.planning import shared, work
from onednn_graph_py.model.planning.group import group_of
from onednn_graph_py.reference import round_to
from onednn_graph_py.safety.defect import OUT_OF_BOUNDS, WRONG
from onednn_graph_py.safety.saturation import LARGEST_WEIGHT, magnitude_of
from onednn_graph_py.safety.table import DEFECTS, of_effect, wrong_result


def evaluate(b, inputs):
    known = reference_values(b, inputs)
    return [known[v.id] for v in b.outputs.values()]


# -- each row, on every machine


def graphs(which):
    """All graphs of the rows, as parameters."""
    return [
        pytest.param(name, build, id=f"{name}-{i}")
        for name, row in ROWS.items()
        for i, build in enumerate(getattr(row, which))
    ]


def test_every_row_has_cases():
    assert sorted(ROWS) == sorted(d.name for d in of_effect(WRONG))


def test_every_row_has_its_versions_as_data():
    for defect in DEFECTS.values():
        for where in defect.where:
            assert where.since >= (3, 7)
            assert where.until is None or where.since < where.until
        assert not re.search(r"oneDNN \d\.\d", defect.what)
    assert all("oneDNN" in defect.what for defect in of_effect(WRONG))


NOT_ON_AMD = {
    "attention_on_strided_inputs", "gaps_between_shared_weights", "one_channel_to_one_column",
}  # fmt: skip
"""Rows for AVX-512 that were seen on Intel's CPUs, and are right on AMD's (Zen 4)."""

AVOIDED_BY_RULES = {"select_of_infinity", "channel_operand_of_select", "select_of_constants"}
"""Rows for a Select that models write with a condition and an input 1 of the result's shape."""


@pytest.mark.parametrize(("name", "build"), graphs("met"))
def test_a_row_meets_its_graphs_where_it_holds(name, build):
    row, given = ROWS[name], group(build)
    found = {c: DEFECTS[name].find(given, c) for c in (*row.where, *row.elsewhere)}
    assert [c for c, f in found.items() if f is None] == list(row.elsewhere)
    assert {f.alone for f in found.values() if f is not None} == {build in row.alone}


@pytest.mark.parametrize(("name", "build"), graphs("right"))
def test_a_row_does_not_meet_what_is_right_beside_it(name, build):
    given = group(build)
    assert [c for c in EVERYWHERE if DEFECTS[name].find(given, c) is not None] == []


def test_a_strided_operand_of_the_whole_shape_is_met_if_one_dim_is_wide():
    def build(dims, strides):
        return lambda b: b.output(
            b.input((*dims[:-1], 6)) @ b.input((6, dims[-1])) + b.input(dims, strides=strides)
        )

    row = DEFECTS["strided_operand"]
    assert row.find(group(build((1, 8), (16, 2))), OLD)
    assert row.find(group(build((1, 8), (8, 1))), OLD) is None
    assert row.find(group(build((3, 8), (16, 2))), OLD) is None


def test_strided_values_in_five_dims_are_met_as_queries_are():
    build = attention_of_five_dims((2, 3, 2), (2, 3, 2), strides=(1728, 432, 144, 16, 1))
    assert DEFECTS["scattered_batches_of_attention"].find(group(build), before(AVX512))


def test_an_operand_with_gaps_behind_a_norm_of_each_channel_is_read_where_it_lies():
    def build(b):
        x, operand = b.input((2, 7, 4)), b.input((1, 1, 4), strides=(1, 16, 4))
        ones, zeros = (b.constant(np.full(4, n, np.float32)) for n in (1, 0))
        b.output(
            b.op("GroupNorm", x, ones, zeros, groups=4, data_format="NXC", keep_stats=False)
            / operand
        )

    row = DEFECTS["strided_operand"]
    assert row.find(group(build), OLD) and not row.find(group(build), NEW)
    b = og.GraphBuilder()
    build(b)
    x = np.random.default_rng(0).standard_normal((2, 7, 4)).astype(np.float32)
    far = np.full((1, 1, 16), np.nan, np.float32)[..., ::4]
    far[...] = [0.5, 3, 2, 7]
    wanted = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) / far
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old versions run it in parts
        model = b.compile()
    np.testing.assert_allclose(model(x, far), wanted, rtol=1e-5, atol=1e-5)


def test_the_largest_weight_is_the_last_of_which_two_products_fit_into_16_bits():
    assert 2 * 255 * LARGEST_WEIGHT < 2**15 <= 2 * 255 * (LARGEST_WEIGHT + 1)
    for sign in (-1, 1):
        for more in (0, 1):
            weights = np.array([0, sign * (LARGEST_WEIGHT + more)], np.int8)
            assert magnitude_of(weights).small == (not more)


@pytest.mark.parametrize(("name", "build"), graphs("alone"))
def test_what_is_wrong_alone_is_found_of_one_op(name, build):
    b = og.GraphBuilder()
    build(b)
    where = ROWS[name].where[0]
    assert any(DEFECTS[name].find(group_of([n]), where) is not None for n in b.nodes)


def test_rows_of_amx_hold_for_f32_where_the_math_mode_lets_it_run_there():
    build = product((2, 4, 16, 32), (2, 4, 32, 16), (1, 1, 16, 16))
    assert wrong_result(group(build), AMX) is None
    assert wrong_result(group(build, "tf32"), AMX) is None
    for mode in ("bf16", "any"):
        assert "attention mask" in wrong_result(group(build, mode), AMX).what


def test_rows_of_amx_hold_for_integers_whatever_they_are_cast_to():
    """As in attention of the gallery, which oneDNN fuses as a whole."""
    for cast in ("f32", "bf16", "f16"):
        build = int8_product((2, 4, 16, 32), (2, 4, 32, 16), (1, 1, 16, 16), cast=cast)
        assert "attention mask" in wrong_result(group(build), AMX).what
    build = product((2, 4, 16, 32), (2, 4, 32, 16), (1, 1, 16, 16), dtype="f16")
    assert wrong_result(group(build), AMX) is None


def test_4_bit_weights_are_right_where_the_math_mode_covers_integers():
    name = "four_bit_weights"
    (build,) = ROWS[name].met
    for where in ROWS[name].where:
        assert DEFECTS[name].find(group(build, apply_to_int=True), where) is None


def test_shapes_that_a_model_is_compiled_for_count():
    """Declared ones may be unknown."""
    b = og.GraphBuilder()
    x, z = b.input((-1, -1, 16)), b.input((-1, -1, -1))
    y = x @ b.input((16, 12))
    b.output(y + z)
    shapes = {x.id: (4, 8, 16), y.id: (4, 8, 12), z.id: (4, 1, 1)}
    shapes |= {v.id: (4, 8, 12) for v in b.outputs.values()}
    assert wrong_result(group_of(b.nodes, shapes), current()) is not None
    shapes[z.id] = (4, 8, 1)
    assert wrong_result(group_of(b.nodes, shapes), current()) is None
    model = b.compile()
    arrays = noise(4, 8, 16), noise(4, 1, 1, seed=1), noise(16, 12, seed=2)
    with pytest.warns(RuntimeWarning, match="operand_of_shared_weights"):
        assert model.verify(**dict(zip((v.name for v in b.inputs), arrays, strict=True)))


def test_layouts_that_are_known_count():
    """What an earlier partition made may be strided."""
    b = og.GraphBuilder()
    q, k, v = (b.input((2, 1, 2, 32)) for _ in range(3))
    b.output((q.matmul(k, transpose_b=True) / 8.0).softmax(axis=-1) @ v)
    assert wrong_result(group_of(b.nodes), before(AVX512)) is None
    lies = og.logical_tensor(k.id, "f32", (2, 1, 2, 32), (192, 96, 96, 1))
    assert wrong_result(group_of(b.nodes, layouts={k.id: lies}), before(AVX512)) is not None


# -- the defects themselves, where this CPU and this oneDNN have them


@pytest.fixture(autouse=True)
def all_threads(monkeypatch):
    """Rows are asked for as many threads as models have; small steps would run on one."""
    monkeypatch.setattr(work, "brief_groups", False)


def needs(build):
    """Why a graph can't run here, or None."""
    b = og.GraphBuilder()
    build(b)
    dtypes = {v.dtype for n in b.nodes for v in (*n.inputs, *n.outputs)}
    return next((why for d in sorted(dtypes) if (why := lacks(d))), None)


def whole_range(b):
    """Default inputs, but integers over the whole range of their type."""
    chance = np.random.default_rng(7)
    ranges = {"s8": (-128, 128), "u8": (0, 256)}
    return [
        chance.integers(*ranges[v.dtype], a.shape).astype(a.dtype) if v.dtype in ranges else a
        for v, a in zip(b.inputs, og.fill_inputs(b), strict=True)
    ]


def compile_as_it_is(b):
    """What the mirror makes of a graph's partitions."""
    for part in b.graph.get_partitions():
        part.compile(part.get_input_ports(), part.get_output_ports(), og.engine("cpu", 0))


@pytest.mark.parametrize(("name", "build"), graphs("met"))
def test_a_defect_shows_here_and_models_avoid_it(monkeypatch, name, build):
    row, here = ROWS[name], current()
    missing = needs(build)
    if missing:
        pytest.skip(missing)
    absent = name in NOT_ON_AMD and "AMD" in processor()
    b = built(build)
    found = DEFECTS[name].find(whole(b), here)
    if found is None:
        check_as_it_is(b)  # which newer versions refuse
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if OUT_OF_BOUNDS in DEFECTS[name].effect:
            with pytest.raises(og.KnownDefectError, match="and accesses memory out of bounds"):
                compile_as_it_is(b)
        elif not row.hidden:
            with monkeypatch.context() as m:  # as the graph has it, by no rule
                m.setattr(shared, "PASSES", ())
                model = b.compile(known_defects="run", slow_fusions="run")
            assert not caught
            assert len(model.steps()) == 1
            shows = not model.verify(*whole_range(b))
            assert shows or absent
            caught.clear()  # NumPy's about what is wrong
        model = b.compile()
        assert model.verify(*whole_range(b))
    written = model._shared.nodes
    assert found.alone or len(model.steps()) > 1 or not DEFECTS[name].find(group_of(written), here)
    for warning in caught:
        lacks_kernel = name == "mask_of_dropout" and "Dropout" in str(warning.message)
        assert "runs in parts" in str(warning.message) or found.alone or lacks_kernel
    if name in AVOIDED_BY_RULES and len(b.nodes) == 1:
        assert not caught
        assert [s.ops for s in model.steps() if s.implementation == "oneDNN"] == [("Select",)]
        assert {s.ops for s in model.steps() if s.implementation != "oneDNN"} == {("Expand",)}
        return
    assert not found.alone or absent or "it is computed" in str(caught[-1].message)


@pytest.mark.parametrize(("name", "build"), graphs("right"))
def test_what_is_right_beside_a_defect_runs_as_it_is(name, build):
    missing = needs(build)
    if missing:
        pytest.skip(missing)
    check_as_it_is(built(build))


def check_as_it_is(b, **options):
    """A model is right, and what oneDNN fuses is too where no row is about it here."""
    modes = ("avoid", "run") if wrong_result(whole(b), current()) is None else ("avoid",)
    for known_defects in modes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # another row may meet it
            model = b.compile(known_defects=known_defects, slow_fusions=known_defects, **options)
        assert model.verify(*whole_range(b)), known_defects


# -- what models do about them


@pytest.mark.skipif(LINKED < (3, 8), reason="SoftMax has no mode before oneDNN 3.8")
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(("shape", "axis"), [((2, 16, 32), 1), ((40, 33), 0), ((2, 3, 4, 5), -2)])
def test_softmax_of_nothing_along_an_outer_axis(shape, axis, dtype):
    if missing := lacks(dtype):
        pytest.skip(missing)
    x = np.moveaxis(noise(*shape), axis, -1).copy()
    x.reshape(-1, x.shape[-1])[::3] = -np.inf
    x = round_to(np.moveaxis(x, -1, axis), dtype)

    def build(b):
        b.output(b.input(shape, dtype).softmax(axis=axis, mode="inf_as_zero"))
        return b

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's
        assert not build(og.GraphBuilder()).compile(known_defects="run").verify(x)
    with pytest.warns(RuntimeWarning, match=r"inf_as_zero wrongly .* with its axis transposed"):
        model = build(og.GraphBuilder()).compile()
    assert {s.implementation for s in model.steps()} == {"oneDNN"}
    assert model.verify(x)


@pytest.mark.parametrize("outputs", [("q", "scaled"), ("v", "k", "scaled")])
def test_models_run_what_onednn_fails_to_partition(outputs):
    b = built(attention_gradients(*outputs))
    if LINKED >= (3, 13):
        with pytest.raises(og.InvalidArgumentsError, match="range_check"):
            b.graph.get_partitions()
    model = b.compile()
    assert model.verify()
    if LINKED >= (3, 13):
        assert len(model.steps()) < len(b.nodes)


def pooling_and_sum(b):
    x, z = b.input((2, 8, 8, 16)), b.input((2, 4, 4, 16))
    window = {"kernel": (2, 2), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    b.output(x.max_pool(**window) + z)


def residual_of_other_sign(b):
    per_tensor = {"scales": [0.25], **PER_TENSOR}
    x, r = b.input((8, 64), "u8"), b.input((8, 32), "u8")
    weights = b.constant(np.random.default_rng(3).integers(-8, 8, (64, 32)).astype(np.int8))
    y = x.dequantize(**per_tensor) @ weights.dequantize(scales=[2.0**-6], **PER_TENSOR)
    y = y + r.dequantize(scales=[0.5], **PER_TENSOR)
    b.output(y.quantize(dtype="s8", scales=[0.5], **PER_TENSOR))


def scales_per_channel_behind_a_normalization(b):
    x = b.input((2, 8, 8, 32)).softmax(axis=-1)
    scales = [2.0 ** -(5 + i % 4) for i in range(32)]
    b.output(x.quantize(dtype="u8", scales=scales, zps=[0] * 32, qtype="per_channel", axis=3))


def arrays_of(b):
    chance = np.random.default_rng(7)
    ranges = {"u8": (0, 256), "s8": (-32, 32)}
    return [
        chance.integers(*ranges[v.dtype], v.shape).astype(np.uint8 if v.dtype == "u8" else np.int8)
        if v.dtype in ranges
        else round_to(chance.standard_normal(v.shape), v.dtype)
        for v in b.inputs
    ]


def compiled(b):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return b.compile(), caught


def test_scales_per_channel_behind_a_normalization_are_right():
    b = og.GraphBuilder()
    scales_per_channel_behind_a_normalization(b)
    model, caught = compiled(b)
    assert model.verify()
    assert len(caught) <= 1  # oneDNN 3.7 would leave its buffers with both in one partition


def in_layout(array, lt):
    """A copy with the strides that a logical tensor has."""
    strides = lt.get_strides()
    memory = np.zeros(
        1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True)), array.dtype
    )
    made = np.lib.stride_tricks.as_strided(
        memory, array.shape, [s * array.itemsize for s in strides]
    )
    made[...] = array
    return made


def run_fused(b, arrays):
    """The whole graph as oneDNN partitions it, through the mirror."""
    (partition,) = [p for p in b.graph.get_partitions() if len(p.get_ops()) == len(b.nodes)]
    given = {v.id: a for v, a in zip(b.inputs, arrays, strict=True)}
    given |= {v.id: v.data for v in b.constants}
    values = {v.id: v.logical_tensor for v in (*b.inputs, *b.constants)}
    wanted = {lt.get_id() for lt in partition.get_input_ports()}
    inputs = [lt for i, lt in values.items() if i in wanted]
    (value,) = b.outputs.values()
    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    compiled = partition.compile(inputs, [value.logical_tensor], engine)
    made = np.zeros(value.shape, numpy_dtype(value.dtype))
    compiled.execute(
        stream,
        [og.tensor(lt, engine, in_layout(given[lt.get_id()], lt)) for lt in inputs],
        [og.tensor(value.logical_tensor, engine, made)],
    )
    stream.wait()
    return made


def test_a_known_defect_runs_as_it_is_where_that_is_wanted():
    b = og.GraphBuilder()
    (layer_norm_and_sum if LINKED < (3, 13) else residual_of_other_sign)(b)
    as_it_is = {"known_defects": "run", "slow_fusions": "run"}
    model = b.compile(**as_it_is)  # a warning would fail
    assert len(model.steps()) == 1
    (exact,) = evaluate(b, arrays := arrays_of(b))
    assert np.abs(model(*arrays).astype(float) - exact.astype(float)).max() > 0.1
    assert not b.compile(**as_it_is).verify(*arrays)
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied(*arrays), model(*arrays))


def test_an_op_that_is_wrong_by_itself_runs_where_that_is_wanted():
    b = og.GraphBuilder()
    (build,) = ROWS["strided_scales_of_groups"].met
    build(b)
    with pytest.warns(RuntimeWarning, match="strided_scales_of_groups"):
        assert b.compile().verify()
    assert not b.compile(known_defects="run").verify()


@pytest.mark.parametrize("spatial_first", [True, False])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("auto_pad", ["None", "SAME_UPPER", "SAME_LOWER", "VALID"])
def test_dilated_gradients_of_transposed_convolutions_are_convolutions(
    spatial_first, data_format, auto_pad
):
    """oneDNN compiles few of them, and leaves the dilations out of those."""
    b = og.GraphBuilder()
    dy = b.input((2, 8, 9, 6) if data_format == "NXC" else (2, 6, 8, 9))
    w = b.input((2, 3, 3, 4) if spatial_first else (4, 3, 2, 3))
    dx = b.conv_transpose_backward_data(
        dy, w, strides=(2, 1), pads_begin=(1, 0), pads_end=(0, 2), dilations=(1, 2), groups=2,
        auto_pad=auto_pad, data_format=data_format,
        weights_format="XOI" if spatial_first else "IOX",
    )  # fmt: skip
    b.output(dx)
    with pytest.warns(RuntimeWarning, match=r"its dilations \[\w+\]; it is computed as a Conv"):
        model = b.compile()
    assert [s.ops for s in model.steps()] == [("Convolution",)]
    assert model.verify()


def test_running_known_defects_lifts_no_other_guard():
    b = og.GraphBuilder()
    pooling_and_sum(b)
    with pytest.warns(RuntimeWarning, match="access memory out of bounds"):
        model = b.compile(known_defects="run")
    assert len(model.steps()) == 2
    assert model.verify()
    b = og.GraphBuilder()
    pads = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
    x = b.input((1, 6, 6, 16), "s8").dequantize(scales=[0.5], **PER_TENSOR)
    b.output(x.convolution(noise(3, 3, 16, 8), **pads))
    model = b.compile(known_defects="run")  # in one graph the search for fusions crashes
    assert len(model.steps()) == 2
    with pytest.raises(og.InvalidArgumentsError, match="known_defects must be one of"):
        b.compile(known_defects="wrong")


def test_a_dequantize_before_a_plain_convolution_does_not_crash():
    """oneDNN's search for fusions would; the mirror refuses, models use two graphs."""
    b = og.GraphBuilder()
    x = b.input((1, 6, 6, 16), "s8").dequantize(scales=[0.5], **PER_TENSOR)
    y = x.convolution(
        noise(3, 3, 16, 8), strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1)
    )
    b.output(y)
    with pytest.raises(og.UnimplementedError, match="crashes oneDNN's search for fusions"):
        b.graph.get_partitions()
    assert len(b.graph.get_partitions("debug")) == 2
    a = np.ones((1, 6, 6, 16), np.int8)
    np.testing.assert_allclose(b.compile()(a), evaluate(b, [a])[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 16), (3, 1, 16), (1, 1, 16), (5, 1, 3, 4)])
def test_what_follows_a_transposition_of_a_unit_dim_is_written(shape):
    """oneDNN asked for strides of the unit dim with which the next partition wrote nothing."""
    b = og.GraphBuilder()
    order = (1, 0, *range(2, len(shape)))
    b.output(b.input(shape).static_transpose(order=order) * 2.0 + 1.0)
    a = noise(*shape)
    made = np.full([shape[i] for i in order], np.nan, np.float32)
    b.compile()(a, out=made)
    np.testing.assert_array_equal(made, a.transpose(order) * 2 + 1)


@pytest.mark.parametrize("kind", ["quantize", "dequantize"])
@pytest.mark.parametrize("axis", [-3, -2, -1])
def test_negative_axes_of_quantization_count_from_the_end(kind, axis):
    """oneDNN took them for other axes, without a word."""
    shape = (3, 4, 5)
    scales = [2.0**-i for i in range(shape[axis])]
    results = []
    for given in (axis, axis + 3):
        b = og.GraphBuilder()
        x = b.input(shape, "f32" if kind == "quantize" else "s8")
        dtype = {"dtype": "s8"} if kind == "quantize" else {}
        b.output(getattr(x, kind)(scales=scales, qtype="per_channel", axis=given, **dtype))
        a = (np.arange(60).reshape(shape) % 7).astype(np.float32 if dtype else np.int8)
        results.append(b.compile()(a))
        np.testing.assert_array_equal(results[-1], evaluate(b, [a])[0])
    np.testing.assert_array_equal(*results)


def test_a_negative_axis_of_an_unknown_rank_is_refused():
    x = og.logical_tensor(0, "f32", -1, "strided")
    o = og.op(0, "Quantize", [x], [og.logical_tensor(1, "s8", -1, "strided")])
    o.set_attr("scales", [0.5, 0.5]).set_attr("qtype", "per_channel").set_attr("axis", -1)
    with pytest.raises(og.InvalidGraphOpError, match="axis must not be negative"):
        og.graph("cpu").add_op(o)


@pytest.mark.skipif(LINKED >= (3, 13), reason="right from oneDNN 3.13 on")
def test_attention_that_selects_one_element_is_refused_by_the_mirror():
    b = og.GraphBuilder()
    q, k, v = (b.input((2, 4, 32, 64)) for _ in range(3))
    scores = q.matmul(k, transpose_b=True) * 0.125
    hidden = np.triu(np.ones((1, 1, 32, 32), bool), 1)
    masked = b.select(b.constant(hidden), np.float32([-1e30]), scores)
    b.output(masked.softmax(axis=-1) @ v)
    arrays = arrays_of(b)
    with pytest.raises(og.UnimplementedError, match="negate the condition"):
        run_fused(b, arrays)
    model, caught = compiled(b)
    assert len(caught) == 1
    (exact,) = evaluate(b, arrays)
    np.testing.assert_allclose(model(*arrays), exact, rtol=1e-4, atol=1e-5)


def test_a_tensor_that_a_partition_reads_twice_is_no_in_place_port():
    """oneDNN 3.13 offered it, and then read what it had overwritten."""
    b = og.GraphBuilder()
    x, z = b.input((8, 16)), b.input((8, 16))
    y = x.relu() + 0.0  # not an input of the model, so that its memory may be reused
    b.output((y + z) * y)
    a, c = noise(8, 16), noise(8, 16, seed=1)
    y = np.maximum(a, 0)
    np.testing.assert_allclose(b.compile()(a, c), (y + c) * y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("axis", "turned"), [(-1, "p"), (2, "p"), (-2, ""), (1, ""), (-1, "v"), (-1, "q"), (-2, "qv")]
)
def test_attention_along_any_dims_is_right(axis, turned):
    """With two heads a thread or more, oneDNN divides by zero, or reads along other dims."""
    q, k = noise(2, 3, 12, 16), noise(2, 3, 16, 16, seed=1)
    v = noise(2, 3, 12 if "p" in turned else 16, 12 if turned == "q" else 16, seed=2)
    given = [
        x.swapaxes(-1, -2).copy() if n in turned else x
        for n, x in zip("qkv", (q, k, v), strict=True)
    ]
    b = og.GraphBuilder()
    values = [b.input(a.shape) for a in given]
    scores = values[0].matmul(values[1], transpose_a="q" in turned, transpose_b=True)
    shares = scores.softmax(axis=axis)
    b.output(shares.matmul(values[2], transpose_a="p" in turned, transpose_b="v" in turned))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model = b.compile(threads=1, slow_fusions="run")
    exact = q.astype(np.float64) @ k.swapaxes(-1, -2)
    exact = np.exp(exact - exact.max(axis, keepdims=True))
    exact /= exact.sum(axis, keepdims=True)
    exact = (exact.swapaxes(-1, -2) if "p" in turned else exact) @ v
    np.testing.assert_allclose(model(*given), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("strided", ["", "q", "k", "v", "qkv"])
@pytest.mark.parametrize("made", [False, True])
def test_attention_of_heads_behind_tokens_is_right(strided, made):
    """Their strides are not to be touched where plain ones of unit dims are put right."""
    batch, heads, tokens, size = 1, 12, 32, 64
    arrays = [noise(batch, tokens, heads, size, seed=i) for i in range(3)]
    b = og.GraphBuilder()
    values, given = [], []
    for name, array in zip("qkv", arrays, strict=True):
        turned = array.transpose(0, 2, 1, 3)
        if made:
            x = b.input(array.shape, name=name).static_transpose(order=(0, 2, 1, 3))
            given.append(array)
        elif name in strided:
            x = b.input(turned.shape, strides=[s // 4 for s in turned.strides], name=name)
            given.append(turned)
        else:
            x = b.input(turned.shape, name=name)
            given.append(np.ascontiguousarray(turned))
        values.append(x)
    q, k, v = values
    b.output((q.matmul(k, transpose_b=True) * 0.125).softmax(axis=-1) @ v)
    model, _ = compiled(b)
    (exact,) = evaluate(b, given)
    assert model.copies == 0
    np.testing.assert_allclose(model(*given), exact, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 2])
def test_products_take_weights_whose_heads_lie_behind_tokens(batch):
    heads, tokens, size = 3, 8, 16
    q = noise(batch, heads, tokens, size)
    k = noise(batch, tokens, heads, size, seed=1).transpose(0, 2, 1, 3)
    b = og.GraphBuilder()
    y = b.input(k.shape, strides=[s // 4 for s in k.strides])
    b.output(b.input(q.shape).matmul(y, transpose_b=True))
    np.testing.assert_allclose(b.compile()(k, q), q @ k.transpose(0, 1, 3, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_strided_mask_behind_a_reshape_is_read_as_it_lies():
    """3.7 read it as if it were contiguous; newer versions split for other reasons."""
    b = built(reshaped_mask((20, 1, 20, 4)))
    assert b.compile().verify(*whole_range(b))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize(
    ("condition", "first", "second", "computed"),
    [
        ((1, 3, 1, 1), (7, 3, 9, 2), (1, 3, 9, 2), False),  # all constant
        ((1, 9, 2), (7, 1, 1), (1, 9, 2), False),
        ((7, 9, 2), (7, 1, 1), (1, 9, 2), False),  # a condition of the result's shape
        ((7, 1, 1), (7, 9, 2), (7, 1, 2), True),
        ((9, 1), (7, 1, 2), (9, 1), True),
    ],
)
def test_a_select_of_constants_is_right_at_each_call(
    condition, first, second, computed, dtype, fold
):
    """Before 3.8 oneDNN added results of earlier calls; `computed`: input 2 is a call's."""
    b = og.GraphBuilder()
    chosen = np.arange(np.prod(condition)).reshape(condition) % 2 == 0
    a, z = (np.round(4 * noise(*s, seed=len(s))) for s in (first, second))
    other = b.input(z.shape, dtype) if computed else b.constant(z, dtype)
    if computed:
        other = other @ b.constant(np.eye(z.shape[-1]), dtype)
    b.output(b.select(chosen, b.constant(a, dtype), other))
    model = b.compile(fold_constants=fold)
    given = [z.astype(numpy_dtype(dtype))] if computed else []
    for _ in range(3):
        assert (model(*given) == np.where(chosen, a, z).astype(numpy_dtype(dtype))).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("rank", [3, 4])
def test_a_select_behind_a_product_with_shared_weights_is_right(rank):
    """Before 3.8 it read a condition and an input 1 for a part of the batch as if for all."""
    made = (2, 3, 4, 5)[-rank:]
    for parts in itertools.product((1, None), repeat=2 * (rank - 1)):
        shapes = [
            [n or d for n, d in zip(p, made, strict=False)] for p in np.reshape(parts, (2, -1))
        ]
        b = og.GraphBuilder()
        chosen = np.arange(np.prod(shapes[0])).reshape(*shapes[0], 1) % 2 == 0
        first, x = noise(*shapes[1], made[-1]), noise(*made[:-1], 6, seed=1)
        w = noise(6, made[-1], seed=2)
        b.output(b.select(b.input(chosen.shape, "boolean"), first, b.input(x.shape) @ w))
        expected = np.where(chosen, first, x @ w)
        np.testing.assert_allclose(b.compile(tune="off")(chosen, x), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*runs in parts", "ignore:.*does not run as it is")
@pytest.mark.parametrize("strided", ["keys", "values"])
@pytest.mark.parametrize("batch, heads, each", [(1, 2, 2), (1, 4, 3), (2, 3, 2)])
def test_grouped_attention_by_tokens_with_as_many_keys_as_queries(
    monkeypatch, batch, heads, each, strided
):
    """As many keys as a key head has queries, in all batches; with few threads it is right."""
    monkeypatch.setattr(work, "brief_groups", False)
    keys, tokens, size = batch * each, 5, 8
    b = og.GraphBuilder()
    q = b.input((batch, heads * each, tokens, size), "f32")
    by_tokens = (keys * heads * size, size, heads * size, 1)
    k, v = (
        b.input((batch, heads, keys, size), "f32", strides=by_tokens if name == strided else None)
        for name in ("keys", "values")
    )
    mask = b.input((batch, heads * each, tokens, keys), "f32")
    grouped, alone = ((lambda x, n=n: x.reshape(batch, heads, n, *x.shape[2:])) for n in (each, 1))
    scores = b.matmul(grouped(q), alone(k), transpose_b=True) * 0.5 + grouped(mask)
    b.output(b.matmul(b.softmax(scores, axis=-1), alone(v)).reshape(q.shape))
    threads = 8 if threads_can_be_set() else None
    model = b.compile(slow_fusions="run", tune="off", threads=threads)
    arrays = [noise(*x.shape, seed=i) for i, x in enumerate((q, k, v, mask))]
    place = 1 if strided == "keys" else 2
    arrays[place] = arrays[place].swapaxes(1, 2).copy().swapaxes(1, 2)
    wide = [a.astype(np.float64) for a in arrays]
    many = [np.repeat(a, each, 1) for a in wide[1:3]]
    shares = np.exp(wide[0] @ many[0].swapaxes(-1, -2) * 0.5 + wide[3])
    wanted = shares / shares.sum(-1, keepdims=True) @ many[1]
    for _ in range(3):
        np.testing.assert_allclose(model(*arrays), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kernel, strides", [((3, 3, 2), (1, 2, 3)), ((2, 1, 3), (3, 2, 1))])
def test_one_channel_of_one_plane_to_one_channel_is_no_depthwise_convolution(kernel, strides):
    """In bf16 with AVX-512 oneDNN left the result as it was."""
    if why := lacks("bf16"):
        pytest.skip(why)
    draw = np.random.default_rng(0)
    a, w = draw.integers(1, 5, (7, 1, 1, 8, 4)), draw.integers(1, 3, kernel)
    begin, end = (1, 0, 1), (kernel[0] - 2, 0, 0)
    b = og.GraphBuilder()
    x, weights = b.input(a.shape, "bf16"), b.constant(w[None, None], "bf16")
    window = {"strides": strides, "dilations": (1, 1, 1), "pads_begin": begin, "pads_end": end}
    b.output(b.convolution(x, weights, data_format="NCX", weights_format="OIX", **window))
    padded = np.pad(a[:, 0], ((0, 0), *zip(begin, end, strict=True)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel, (1, 2, 3))
    sums = (windows * w).sum((4, 5, 6))[:, :: strides[0], :: strides[1], :: strides[2]]
    dtype = numpy_dtype("bf16")
    np.testing.assert_array_equal(b.compile()(a.astype(dtype))[:, 0], sums.astype(dtype))
