"""Graphs that show something are made as small as they can be."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import shrinking_trials
from graphs import LINKED

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.tools.command_line import main
from onednn_graph_py.tools.shrinking import Outcome, Shows, shrink
from onednn_graph_py.tools.shrinking.resize import resized
from onednn_graph_py.tools.shrinking.trial import run_trial, signature_of

PER_TENSOR = {"qtype": "per_tensor", "zps": [0]}
PLAIN = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}


def noise(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def document_of(build):
    b = og.GraphBuilder()
    b.output(build(b))
    return serialization.from_builder(b)


def kinds(document):
    return [op.kind for op in document.graph]


def shapes(document):
    return [t.shape for op in document.graph for t in op.inputs]


# -- wrong results


def layer_norm_and_sum_among_others(b):
    x, z = b.input((6, 32)), b.input((6, 16))
    y = ((x.relu() @ noise(32, 16)).sigmoid() * 2.0).tanh()
    y = y.layer_norm(noise(16), noise(16), keep_stats=False) + z
    return (y @ noise(16, 8)).softmax(axis=-1)


def scales_per_channel_among_others(b):
    x = b.input((6, 8)).abs().quantize(dtype="u8", scales=[2.0**-5], **PER_TENSOR)
    w = b.input((8, 4), "s8").dequantize(scales=[2.0**-6], **PER_TENSOR)
    y = x.dequantize(scales=[0.25], **PER_TENSOR) @ w
    scales = {"scales": [0.25, 0.5, 1.0, 2.0], "zps": [0] * 4, "qtype": "per_channel", "axis": 1}
    return y.quantize(dtype="s8", **scales).dequantize(scales=[0.5], **PER_TENSOR).abs()


# What each version computes wrongly, and the ops that it takes.
WRONG = (
    (layer_norm_and_sum_among_others, ["LayerNorm", "Add"])
    if LINKED < (3, 8)
    else (
        scales_per_channel_among_others,
        ["Dequantize", "Dequantize", "MatMul", "Quantize"],
    )
)


def test_a_wrong_result_shrinks_to_the_ops_that_it_takes():
    build, least = WRONG
    document = document_of(build)
    made = shrink(document, "mismatch")
    assert sorted(kinds(made)) == sorted(least)
    assert max(d for shape in shapes(made) for d in shape) <= 2
    assert run_trial(made, 0).symptom == "mismatch"
    assert shrink(document, "mismatch") == made


# -- what has no kernel, what is refused


def test_an_op_without_kernel_is_left_alone():
    document = document_of(
        lambda b: b.pow((b.input((6, 32)).relu() @ b.input((32, 8))).abs(), beta=3.0).softmax()
    )
    made = shrink(document, "unsupported")
    assert kinds(made) == ["Pow"]
    assert shapes(made) == [(1, 1)]


def test_a_wildcard_is_left_alone():
    document = document_of(lambda b: b.input((4, 8)).relu().abs().tanh())
    abs_op = document.graph[1]
    wild = [
        serialization.OpRecord(op.id, op.name, "Wildcard", {}, op.inputs, op.outputs)
        if op is abs_op
        else op
        for op in document.graph
    ]
    document = serialization.GraphDocument(document.version, "cpu", tuple(wild))
    assert kinds(shrink(document, "unsupported")) == ["Wildcard"]


def refused_document():
    document = document_of(
        lambda b: (b.input((6, 32)).relu() @ b.input((32, 8))).abs().softmax(axis=-1)
    )
    text = serialization.to_json(document)
    return serialization.parse(text.replace('"SoftMax"', '"MatMul"'))


def test_a_refused_op_is_left_alone():
    made = shrink(refused_document(), "refused")
    assert kinds(made) == ["MatMul"]
    assert len(made.graph[0].inputs) == 1
    assert shapes(made) == [(1, 1)]


# -- crashes and hangs


@pytest.fixture
def chain():
    return document_of(lambda b: (b.input((6, 32)).relu() @ b.input((32, 24))).softmax().tanh())


def test_a_crash_shrinks_to_the_op_and_shape_that_it_takes(chain):
    with Shows("crash", trial=shrinking_trials.crashes_on_softmax_of_wide_rows) as shows:
        made = shrink(chain, shows)
        assert kinds(made) == ["SoftMax"]
        assert shapes(made) == [(1, 5)]
        assert shows.outcome(made) == Outcome(
            "crash", "the process was ended by SIGSEGV", ("SIGSEGV",)
        )


def test_another_crash_is_not_the_same():
    document = document_of(lambda b: b.input((4, 8)).softmax().abs())
    with Shows("crash", trial=shrinking_trials.crashes_on_softmax_of_wide_rows) as shows:
        made = shrink(document, shows)
    assert kinds(made) == ["SoftMax"]


def test_a_hang_is_a_symptom(chain):
    with Shows("hang", timeout=10.0, trial=shrinking_trials.hangs_on_tanh) as shows:
        assert shows.outcome(chain).symptom == "hang"
        assert shows(chain)
        assert not shows(document_of(lambda b: b.input((2, 3)).relu()))


def test_an_exit_is_a_crash(chain):
    with Shows("crash", trial=shrinking_trials.exits_on_relu) as shows:
        assert shows.outcome(chain).reason == "the process ended with exit status 0"


def test_a_trial_that_raises_is_told(chain):
    with Shows("crash", trial=shrinking_trials.raises) as shows:
        found = shows.outcome(chain)
        assert found.symptom == "failed"
        assert "not ready" in found.reason
        with pytest.raises(og.InvalidArgumentsError, match="does not show crash: failed"):
            shrink(chain, shows)


def test_a_trial_must_be_importable(chain):
    def local(document, seed):
        return Outcome("passed")

    with (
        Shows("crash", trial=local) as shows,
        pytest.raises(og.InvalidArgumentsError, match="can't import it"),
    ):
        shows(chain)


def test_what_ends_the_worker_itself_is_a_crash_and_the_next_call_works(chain):
    with Shows("unsupported") as shows:
        assert shows.outcome(chain).symptom == "passed"
        os.kill(shows._process._process.pid, signal.SIGKILL)
        assert shows.outcome(chain).symptom == "crash"
        assert shows.outcome(chain).symptom == "passed"


# -- predicates in Python, bounds


def test_predicates_in_python_shrink_to_what_they_want():
    document = document_of(
        lambda b: (
            b.input((2, 16, 16, 8)).convolution(b.input((3, 3, 8, 12)), **PLAIN)
            + b.input((2, 16, 16, 12))
        )
    )

    def wanted(d):
        return "Add" in kinds(d) and "Convolution" in kinds(d)

    made = shrink(document, wanted)
    assert kinds(made) == ["Convolution", "Add"]
    assert {d for shape in shapes(made) for d in shape} == {1}
    serialization.to_builder(made)


def test_dims_are_as_small_as_the_predicate_allows():
    document = document_of(lambda b: b.input((40, 100)) @ b.input((100, 7)))
    made = shrink(document, lambda d: d.graph[0].inputs[0].shape[1] >= 13)
    assert shapes(made) == [(1, 13), (13, 1)]


def test_no_more_graphs_are_tried_than_allowed():
    document = document_of(lambda b: b.input((64, 64)).relu().abs().tanh().exp().sqrt())
    tried = []

    def wanted(d):
        tried.append(d)
        return "Tanh" in kinds(d)

    made = shrink(document, wanted, tries=3)
    assert len(tried) == 3
    assert "Tanh" in kinds(made)
    assert len(made.graph) <= len(document.graph)


def test_no_graph_is_tried_twice():
    tried = []

    def wanted(d):
        tried.append(serialization.to_json(d))
        return "Tanh" in kinds(d)

    shrink(document_of(lambda b: b.input((8, 8)).relu().tanh().abs()), wanted)
    assert len(set(tried)) == len(tried)


def test_progress_tells_the_smallest_so_far():
    document = document_of(lambda b: b.input((8, 8)).relu().tanh().abs())
    told = []
    shrink(document, lambda d: "Tanh" in kinds(d), progress=told.append)
    assert told[0].ops == 3
    assert told[-1].ops == 1
    assert [p.tries for p in told] == list(range(1, len(told) + 1))
    assert sorted((p.elements for p in told), reverse=True) == [p.elements for p in told]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"predicate": lambda d: False}, "does not show the symptom"),
        ({"predicate": "mismatch"}, "does not show mismatch: passed"),
        ({"predicate": "wrong"}, "'unsupported', 'refused', got 'wrong'"),
        ({"predicate": "crash", "timeout": 0}, "timeout must be positive, got 0"),
        ({"predicate": "crash", "tries": 0}, "tries must be a whole number, at least 1, got 0"),
    ],
)
def test_wrong_arguments_are_told(arguments, match):
    document = document_of(lambda b: b.input((2, 3)).relu())
    with pytest.raises(og.InvalidArgumentsError, match=match):
        shrink(document, **arguments)


# -- the parts


def test_shared_dims_stay_shared():
    document = document_of(
        lambda b: (
            b.input((2, 16, 16, 8)).convolution(b.input((3, 3, 8, 12)), b.input((12,)), **PLAIN)
            + b.input((2, 16, 16, 12))
        )
    )
    x, weights, bias, other = document.inputs()
    made = resized(document, {x: (2, 16, 5, 8)})
    assert made.tensors()[other].shape == (2, 16, 5, 12)
    made = resized(document, {weights: (3, 3, 8, 4)})
    assert made.tensors()[bias].shape == (4,)
    assert made.tensors()[other].shape == (2, 16, 16, 4)
    made = resized(document, {x: (2, 16, 16, 3)})
    assert made.tensors()[weights].shape == (3, 3, 3, 12)


def test_attributes_that_hold_sizes_follow():
    document = document_of(
        lambda b: (
            b.input((2, 12, 4, 8))
            .static_reshape(shape=(2, 48, 8), special_zero=False)
            .quantize(dtype="s8", scales=[0.5] * 48, zps=[0] * 48, qtype="per_channel", axis=1)
        )
    )
    (x,) = document.inputs()
    made = resized(document, {x: (1, 6, 4, 8)})
    reshape, quantize = made.graph
    assert reshape.outputs[0].shape == (1, 24, 8)
    assert len(quantize.values["scales"]) == len(quantize.values["zps"]) == 24


def test_what_can_not_be_resized_is_not():
    document = document_of(
        lambda b: b.input((2, 12)).static_reshape(shape=(3, 8), special_zero=False)
    )
    (x,) = document.inputs()
    assert resized(document, {x: (1, 7)}) is None


def test_a_convolution_that_lost_its_groups_is_resized():
    document = document_of(
        lambda b: b.convolution(b.input((1, 6, 4, 8)), b.input((3, 3, 8, 4)), groups=1, **PLAIN)
    )
    (op,) = document.graph
    without = {name: a for name, a in op.attrs.items() if name != "groups"}
    document = replace(document, graph=(replace(op, attrs=without),))
    made = resized(document, {op.inputs[0].id: (2, 6, 4, 8)})
    assert made is not None and shapes(made)[0] == (2, 6, 4, 8)


def test_what_is_tied_by_a_formula_follows():
    document = document_of(
        lambda b: b.convolution_backward_data(
            b.input((2, 32, 12, 12)),
            b.input((32, 16, 3, 3)),
            strides=(2, 2), pads_begin=(1, 1), pads_end=(0, 0), dilations=(1, 1),
            data_format="NCX", weights_format="OIX", dst_shape=(2, 16, 24, 24),
        )
    )  # fmt: skip
    made = shrink(document, lambda d: buildable(d) and kinds(d) == ["ConvolutionBackwardData"])
    assert {d for t in made.tensors().values() for d in t.shape} == {1}


def test_groups_are_joined():
    document = document_of(
        lambda b: b.convolution(b.input((1, 8, 8, 64)), b.input((3, 3, 4, 32)), groups=16, **PLAIN)
    )
    made = shrink(document, buildable)
    assert shapes(made) == [(1, 1, 1, 1), (1, 1, 1, 1)]
    assert "groups" not in made.graph[0].attrs


def buildable(document):
    try:
        serialization.to_builder(document)
    except og.OneDNNError:
        return False
    return True


def test_strides_with_gaps_are_kept_until_they_do_not_matter():
    b = og.GraphBuilder()
    b.output(b.input((4, 8), strides=(16, 1)).relu())
    document = serialization.from_builder(b)
    made = shrink(document, lambda d: d.graph[0].inputs[0].stride == (16, 1))
    assert (made.graph[0].inputs[0].shape, made.graph[0].inputs[0].stride) == ((1, 1), (16, 1))
    assert shrink(document, lambda d: True).graph[0].inputs[0].stride == (1, 1)


def test_data_types_and_attributes_become_plain():
    document = document_of(
        lambda b: (
            b.input((4, 8), "bf16")
            .type_cast(dtype="f32")
            .softmax(axis=0)
            .layer_norm(b.input((8,)), b.input((8,)), epsilon=0.5, keep_stats=False)
        )
    )
    made = shrink(document, lambda d: "LayerNorm" in kinds(d) and "SoftMax" in kinds(d))
    assert kinds(made) == ["SoftMax", "LayerNorm"]
    assert {t.dtype for t in made.tensors().values()} == {"f32"}
    assert "epsilon" not in made.graph[1].attrs


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("graph[3]: op 7 'fc' (MatMul): 2x8 to 4x16x5", "graph[0]: op 1 'x' (MatMul): 1x1 to 9", 1),
        ("op 7 (MatMul): shape", "op 7 (Add): shape", 0),
        ("shape [1, 2, 3] is bad", "shape [7] is bad", 1),
    ],
)  # fmt: skip
def test_errors_are_the_same_but_for_numbers_and_names(one, other, same):
    made = [signature_of(og.InvalidShapeError(text)) for text in (one, other)]
    assert (made[0] == made[1]) == bool(same)


# -- the command


@pytest.fixture
def unsupported_file(tmp_path):
    document = document_of(lambda b: b.pow(b.input((6, 8)).relu(), beta=3.0).softmax())
    path = tmp_path / "a graph.json"
    serialization.save(document, path)
    return path


def test_the_command_writes_the_smallest_graph(unsupported_file, tmp_path, capsys):
    out = tmp_path / "small.json"
    words = ["shrink", str(unsupported_file), "--while", "unsupported", "-o", str(out)]
    assert main(words) == 0
    assert kinds(serialization.parse(out)) == ["Pow"]
    said = capsys.readouterr()
    assert said.out == ""
    assert "3 ops, 192 elements -> 1 op (Pow), 2 elements" in said.err
    assert "Pow" in said.err.splitlines()[-1]


def test_the_command_prints_onednns_reason(tmp_path, capsys):
    b = og.GraphBuilder()
    scaled = b.dynamic_dequantize(b.input((4, 4), "s4"), b.input((1,), "f32"))
    b.output(scaled.softmax(axis=0).tanh())
    path = tmp_path / "graph.json"
    b.save(path)
    assert main(["shrink", str(path), "--while", "refused"]) == 0
    last = capsys.readouterr().err.splitlines()[-1]
    assert "oneDNN's reason: reorder,invalid datatype for mask for int4 source [" in last


def test_the_command_prints_the_smallest_graph(unsupported_file):
    done = subprocess.run(
        [sys.executable, "-m", "onednn_graph_py", "shrink", unsupported_file,
         "--while", "unsupported"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert kinds(serialization.parse(done.stdout)) == ["Pow"]


def test_the_command_tells_what_a_graph_shows_instead(unsupported_file, capsys):
    assert main(["shrink", str(unsupported_file), "--while", "refused"]) == 1
    assert "does not show refused: unsupported" in capsys.readouterr().err


def test_the_command_tells_of_files_that_it_can_not_read_or_write(unsupported_file, capsys):
    assert main(["shrink", "nowhere.json", "--while", "crash"]) == 2
    assert "nowhere.json" in capsys.readouterr().err
    missing = str(unsupported_file.parent / "no" / "out.json")
    words = ["shrink", str(unsupported_file), "--while", "unsupported", "-o", missing]
    assert main(words) == 2
    assert missing in capsys.readouterr().err


def test_gaps_between_rows_are_never_the_same_as_zeros():
    """oneDNN reads scales per group as if they had no gaps, and finds what lies in them."""
    b = og.GraphBuilder()
    x, scales = b.input((1, 2, 1), "s8"), b.input((1, 2, 1), "f32", strides=(4, 2, 2))
    b.output(b.dynamic_dequantize(x, scales, qtype="per_group", group_shape=(1, 1, 1)))
    found = [run_trial(serialization.from_builder(b), seed) for seed in range(3)]
    assert {o.symptom for o in found} == {"mismatch"}
    assert all("is nan and" in o.reason for o in found)


@pytest.mark.parametrize("strides", [(1, 4), (6, 1)])
def test_four_bit_integers_lie_in_the_order_of_their_strides(strides):
    b = og.GraphBuilder()
    x, scales = b.input((4, 6), "s4", strides=strides), b.input((2, 6))
    b.output(b.dynamic_dequantize(x, scales, qtype="per_group", group_shape=(2, 1)))
    assert run_trial(serialization.from_builder(b), 0) == Outcome("passed")


def test_eight_bit_floats_are_tried():
    b = og.GraphBuilder()
    b.output(b.input((4, 6), "f8_e5m2").dequantize(scales=[0.5], qtype="per_tensor"))
    assert run_trial(serialization.from_builder(b), 0).symptom in ("passed", "unsupported")
