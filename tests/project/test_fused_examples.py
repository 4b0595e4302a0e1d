"""The attention and MLP examples: partitions by version, right numbers, what makes them fail."""

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest
from graphs import LINKED, before, since

from onednn_graph_py import InvalidArgumentsError, engine
from onednn_graph_py.examples import __main__ as command
from onednn_graph_py.examples import (
    _attention,
    _run,
    gated_mlp,
    gated_mlp_int4,
    gated_mlp_wei_combined,
    gqa,
    gqa_training,
    mqa,
    sdpa_bottom_right_causal_mask,
    sdpa_quantized,
    sdpa_stacked_qkv,
)
from onednn_graph_py.examples._run import Case, Skipped
from onednn_graph_py.machine.cpu import lacks

CORE = ["MatMul", "Divide", "Add", "SoftMax", "MatMul"]
MLP = ["MatMul", "MatMul", "MatMul", "Multiply", "Multiply", "Sigmoid"]
MLPS = [gated_mlp, gated_mlp_int4, gated_mlp_wei_combined]
BATCH, SEQUENCE, HEADS, SIZE = 3, 24, 4, 16
SIZES: dict[ModuleType, tuple[int, ...]] = {
    gated_mlp: (3, 64, 100),
    gated_mlp_int4: (3, 64, 96, 32),
    gated_mlp_wei_combined: (3, 64, 100),
    gqa: (BATCH, SEQUENCE, HEADS, 2, SIZE),
    gqa_training: (BATCH, SEQUENCE, HEADS, 2, SIZE),
    mqa: (BATCH, SEQUENCE, HEADS, SIZE),
    sdpa_bottom_right_causal_mask: (BATCH, SEQUENCE, HEADS, SIZE),
    sdpa_quantized: (BATCH, SEQUENCE, HEADS, SIZE),
    sdpa_stacked_qkv: (BATCH, SEQUENCE, HEADS, SIZE),
}
# The first oneDNN with what an example shows.
SINCE = {sdpa_bottom_right_causal_mask: (3, 9), gqa_training: (3, 10)}
FLOATS = ["f32", "bf16", "f16"]
TYPES = {one: FLOATS for one in SIZES} | {sdpa_quantized: ["f8_e4m3", "f8_e5m2", "s8", "u8"]}
HERE = [one for one in SIZES if SINCE.get(one, (0, 0)) <= LINKED]
EXAMPLES = pytest.mark.parametrize("example", HERE, ids=lambda one: one.__name__.split(".")[-1])
no_gpu = pytest.mark.skipif(engine.get_count("gpu") > 0, reason="there is a GPU")


@pytest.fixture(autouse=True)
def run_once(monkeypatch):
    """No test looks at times."""
    monkeypatch.setattr(_run, "median_milliseconds", lambda call: 0.0)


def cases(example: ModuleType, *sizes: int, engine_kind: str = "cpu") -> list[Case | Skipped]:
    return list(example.run(engine_kind, *(sizes or SIZES[example])))


def ran(example: ModuleType, *sizes: int) -> Iterator[Case]:
    return (case for case in cases(example, *sizes) if isinstance(case, Case))


def runs_here(example: ModuleType, name: str) -> bool:
    first = (3, 13) if name.startswith("f8") else SINCE.get(example, (0, 0))
    return first <= LINKED and lacks(name) is None


def data_type(case: Case | Skipped) -> str:
    return case.name.split(",")[0]


@EXAMPLES
def test_all_results_are_right_in_every_type_that_runs_here(example):
    faults = {case.name: case.all_faults() for case in ran(example)}
    assert faults
    assert not any(faults.values()), faults


@EXAMPLES
def test_each_data_type_is_run_or_skipped_for_the_cpu(example):
    made = cases(example)
    assert list(dict.fromkeys(data_type(case) for case in made)) == TYPES[example]
    for case in made:
        assert isinstance(case, Case) == runs_here(example, data_type(case))
        if isinstance(case, Skipped):
            assert re.search(r"on this CPU, and \w+ needs|needs oneDNN >= ", case.reason)


@pytest.mark.parametrize(("example", "release"), SINCE.items())
def test_what_an_older_onednn_lacks_is_skipped_with_the_version(example, release):
    made = cases(example)
    told = f"needs oneDNN >= {release[0]}.{release[1]}, linked is {LINKED[0]}.{LINKED[1]}"
    expected = [told] * len(made) if release > LINKED else []
    reasons = [case.reason for case in made if isinstance(case, Skipped)]
    assert [reason for reason in reasons if "oneDNN >=" in reason] == expected


@before(3, 13)
def test_f8_attention_needs_a_newer_onednn():
    skipped = [case for case in cases(sdpa_quantized) if isinstance(case, Skipped)]
    assert [data_type(case) for case in skipped] == ["f8_e4m3", "f8_e5m2"]
    assert all(case.reason.startswith("needs oneDNN >= 3.13") for case in skipped)


# -- partitions


@pytest.mark.parametrize("example", [gqa, mqa])
def test_grouped_heads_are_one_partition_in_both_forms(example):
    reshaped, grouped = [case.partitions for case in ran(example)][:2]
    assert grouped == [CORE]
    assert len(reshaped) == 1
    assert sorted(reshaped[0]) == sorted([*CORE, *["StaticReshape"] * 5])


def test_a_stacked_buffer_is_one_partition():
    assert next(ran(sdpa_stacked_qkv)).partitions == [CORE]


@since(3, 9)
def test_a_causal_mask_from_indices_is_one_partition():
    (ops,) = next(ran(sdpa_bottom_right_causal_mask)).partitions
    mask = ["GenIndex", "Add", "Subtract", "GenIndex", "GreaterEqual", "Select"]
    assert sorted(ops) == sorted(["MatMul", "Multiply", *mask, "SoftMax", "MatMul"])


def test_integer_attention_is_one_partition():
    around = ["Dequantize"] * 4 + ["Quantize"] * 2
    older = [] if LINKED >= (3, 13) else ["StaticTranspose", "Reorder"]
    for case in ran(sdpa_quantized):
        (ops,) = case.partitions
        assert sorted(ops) == sorted([*CORE, *around, *older])


@pytest.mark.parametrize("example", MLPS)
def test_a_gated_mlp_is_one_partition_with_tolerances_that_mean_something(example):
    for case in ran(example):
        (ops,) = case.partitions
        kinds = [kind for kind in ops if kind not in ("DynamicDequantize", "TypeCast")]
        assert sorted(kinds) == MLP
        assert ops.count("DynamicDequantize") == (3 if example is gated_mlp_int4 else 0)
        narrowed = example is gated_mlp_wei_combined and data_type(case) != "f32"
        assert ops.count("TypeCast") == (narrowed and LINKED >= (3, 8))
        ((compared,),) = (found.outputs for found in case.comparisons.values())
        assert compared.count == 3 * 64
        assert compared.allowed < (0.001 if data_type(case) == "f32" else 0.1) * compared.largest


@since(3, 10)
def test_training_is_a_partition_forwards_and_one_backwards():
    forward, backward, *narrow = [case.partitions for case in ran(gqa_training)]
    assert forward == [CORE]
    assert [len(ops) for ops in backward] == [16]
    if lacks("bf16") is None:
        assert [len(ops) for ops in narrow[1]] == [18]
        assert narrow[1][0].count("TypeCast") == 2


# -- sizes


ODD = {
    gated_mlp: [(1, 1, 1), (2, 7, 33)],
    gated_mlp_int4: [(1, 32, 32, 32), (5, 96, 64, 32)],
    gated_mlp_wei_combined: [(1, 1, 1), (2, 7, 33)],
    gqa: [(1, 7, 6, 3, 5), (2, 33, 4, 4, 8)],
    gqa_training: [(1, 7, 6, 3, 5), (2, 9, 4, 4, 8)],
    mqa: [(1, 1, 1, 1), (2, 33, 7, 5)],
    sdpa_bottom_right_causal_mask: [(2, 9, 3, 5, 14), (2, 9, 3, 5, 4), (1, 1, 1, 1)],
    sdpa_quantized: [(1, 7, 3, 5), (2, 33, 5, 24)],
    sdpa_stacked_qkv: [(1, 7, 3, 5), (2, 33, 5, 24)],
}


@EXAMPLES
def test_odd_sizes_are_right_in_as_many_partitions(example):
    for sizes in ODD[example]:
        faults = {case.name: case.all_faults() for case in ran(example, *sizes)}
        assert faults
        assert not any(faults.values()), faults


def test_sizes_are_those_of_upstream_unless_given():
    def defaults(run: Callable[..., object]) -> tuple[object, ...]:
        return tuple(one.default for one in inspect.signature(run).parameters.values())

    assert defaults(gqa.run) == defaults(gqa_training.run) == ("cpu", 2, 128, 16, 2, 64)
    assert defaults(mqa.run) == defaults(sdpa_stacked_qkv.run) == ("cpu", 2, 128, 16, 64)
    assert defaults(sdpa_quantized.run) == ("cpu", 2, 128, 16, 64)
    assert defaults(sdpa_bottom_right_causal_mask.run) == ("cpu", 2, 128, 16, 64, None)
    assert (
        defaults(gated_mlp.run) == defaults(gated_mlp_wei_combined.run) == ("cpu", 1, 4096, 14336)
    )
    assert defaults(gated_mlp_int4.run) == ("cpu", 1, 4096, 14336, 128)


@pytest.mark.parametrize("example", [gqa, gqa_training])
def test_key_heads_must_divide_query_heads(example):
    with pytest.raises(InvalidArgumentsError, match="kv_heads must divide q_heads, 6, got 4"):
        next(example.run("cpu", 1, 8, 6, 4, 8))


def test_training_refuses_heads_of_one_element():
    with pytest.raises(InvalidArgumentsError, match="head_size must be at least 2, got 1"):
        next(gqa_training.run("cpu", 1, 8, 4, 2, 1))


@before(3, 8)
def test_strided_attention_that_is_known_to_be_wrong_is_skipped():
    made = cases(sdpa_stacked_qkv, 2, 2, 1, 32)
    assert all(isinstance(case, Skipped) for case in made)
    assert "computes attention on strided inputs wrong" in made[0].reason


@pytest.mark.parametrize(("ic", "oc"), [(63, 96), (64, 95)])
def test_a_group_that_does_not_divide_the_sizes_is_refused(ic, oc):
    message = f"^gated_mlp_int4: group must divide ic and oc, {ic} and {oc}, got 32"
    with pytest.raises(InvalidArgumentsError, match=message):
        next(gated_mlp_int4.run("cpu", 1, ic, oc, 32))


def test_gate_and_up_are_read_from_one_buffer_without_a_copy(monkeypatch):
    given = []

    def keep(self, builder, arrays, *more):
        given.append(arrays)
        right(self, builder, arrays, *more)

    right = _run.BuiltRun.__init__
    monkeypatch.setattr(_run.BuiltRun, "__init__", keep)
    assert all(case.all_faults() == [] for case in ran(gated_mlp_wei_combined))
    for arrays in given:
        views = [array for array in arrays.values() if array.strides[0] == 2 * 100 * array.itemsize]
        assert len(views) == 2
        assert views[0].base is views[1].base
        first, second = sorted(array.ctypes.data for array in views)
        assert second - first == 100 * views[0].itemsize


# -- no GPU


@no_gpu
@EXAMPLES
def test_without_a_gpu_graphs_are_partitioned_for_one(example):
    made = cases(example, engine_kind="gpu")
    for case in made:
        assert isinstance(case, Skipped)
        if "oneDNN >=" not in case.reason:
            assert len(case.partitions) == 1, case
            assert "GPU" in case.reason
    assert any(case.partitions for case in made if isinstance(case, Skipped))


# -- corrupted results


def largest_is_zero(array: np.ndarray) -> np.ndarray:
    magnitude = np.abs(array.astype(np.float32))
    array.flat[magnitude.argmax()] = 0
    return array


def last_is_not_a_number(array: np.ndarray) -> np.ndarray:
    array.flat[-1] = np.nan
    return array


def entries_swapped(array: np.ndarray) -> np.ndarray:
    array[[0, 1]] = array[[1, 0]]
    return array


def rows_swapped(array: np.ndarray) -> np.ndarray:
    array[..., [0, 1], :] = array[..., [1, 0], :]
    return array


def off_by_a_thousandth(array: np.ndarray) -> np.ndarray:
    return (array * 1.001).astype(array.dtype)


def eight_steps_off(array: np.ndarray) -> np.ndarray:
    middle = 128 if array.dtype == np.uint8 else 0
    array[..., 0] += np.where(array[..., 0] > middle, -8, 8).astype(array.dtype)
    return array


def corrupt(monkeypatch, wrong, only: str | None = None) -> None:
    """Have oneDNN seem to compute something wrong; `only` one of several outputs."""
    built = _run.BuiltRun.output

    def output(self, name: str) -> np.ndarray:
        right = built(self, name)
        return right if only not in (None, name) else wrong(right.copy())

    monkeypatch.setattr(_run.BuiltRun, "output", output)


WRONGS = [largest_is_zero, last_is_not_a_number, entries_swapped, rows_swapped]


# Integers are always numbers.
PAIRS = [
    (example, wrong)
    for example in HERE
    for wrong in WRONGS
    if (example, wrong) != (sdpa_quantized, last_is_not_a_number)
]


@pytest.mark.parametrize(("example", "wrong"), PAIRS)
def test_a_corrupted_result_is_found(example, wrong, monkeypatch):
    corrupt(monkeypatch, wrong)
    made = list(ran(example))
    assert made
    for case in made:
        assert any("off by more than their tolerance" in fault for fault in case.all_faults())


@pytest.mark.parametrize("example", [one for one in HERE if one is not sdpa_quantized])
def test_f32_that_is_off_by_a_thousandth_is_found(example, monkeypatch):
    corrupt(monkeypatch, off_by_a_thousandth)
    for case in ran(example):
        if data_type(case) == "f32":
            assert case.all_faults()


def test_integers_that_are_some_steps_off_are_found(monkeypatch):
    """Where probabilities are near the middle of two steps, the result may be some steps off.

    These are fewer than eight also for values of the whole range, as on CPUs with VNNI.
    """
    corrupt(monkeypatch, eight_steps_off)
    for case in ran(sdpa_quantized):
        assert case.all_faults()


OUTPUTS = ["result", "stats", "value gradient", "query gradient", "key gradient"]


@since(3, 10)
@pytest.mark.parametrize("wrong", [largest_is_zero, entries_swapped])
@pytest.mark.parametrize("name", OUTPUTS)
def test_each_output_of_training_is_compared(name, wrong, monkeypatch):
    forward, backward = list(ran(gqa_training))[:2]
    compared = [*forward.comparisons, *backward.comparisons]
    assert compared == [f"all elements of the {n} with NumPy in float64" for n in OUTPUTS]
    corrupt(monkeypatch, wrong, only=name)
    faults = [fault for case in list(ran(gqa_training))[:2] for fault in case.all_faults()]
    assert any(f"all elements of the {name} with" in fault for fault in faults)


@pytest.mark.parametrize("name", ["gqa", "mqa", "sdpa_stacked_qkv", "sdpa_quantized"])
def test_the_command_runs_them_by_name(name, capsys):
    assert command.main([name, "cpu", "2", "16", "4", *(["2"] * (name == "gqa")), "16"]) == 0
    assert any(line.endswith("  ok") for line in capsys.readouterr().out.splitlines())


# -- what is expected of them


def test_the_padding_mask_hides_the_last_quarter_of_the_keys():
    mask = _attention.padding_mask((2, 1, 1, 8), "f32")
    assert mask.shape == (2, 1, 1, 8)
    assert np.isneginf(mask[..., 6:]).all()
    assert np.isfinite(mask[..., :6]).all()
    assert len(np.unique(mask)) == 7, "a mask that is not applied is noticed"
    assert np.isfinite(_attention.padding_mask((1, 1), "bf16")[0, 0].astype(np.float32))


@since(3, 13)
@pytest.mark.skipif(
    lacks("f8_e4m3") is None, reason="this CPU may fuse f8, which the example itself checks"
)
@pytest.mark.parametrize("name", ["f8_e4m3", "f8_e5m2"])
def test_f8_attention_is_right_op_by_op_where_the_cpu_does_not_fuse_it(name, monkeypatch):
    types, shape = sdpa_quantized._Types.of(name), (2, 3, 8, 16)
    arrays = sdpa_quantized._arrays(types, shape)
    done = _run.BuiltRun(sdpa_quantized._build("cpu", types, shape), arrays)
    assert len(done.model.steps()) > 1
    assert all(done.compared().values())
    corrupt(monkeypatch, largest_is_zero)
    assert not any(done.compared().values())
