"""The gated MLP examples: right in every type, one partition, and wrong results found."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
from graphs import LINKED

from onednn_graph_py import InvalidArgumentsError, engine
from onednn_graph_py.examples import (
    _built,
    _pipeline,
    gated_mlp,
    gated_mlp_int4,
    gated_mlp_wei_combined,
)
from onednn_graph_py.examples._report import Case, Skipped
from onednn_graph_py.machine import cpu

SIZES: dict[ModuleType, tuple[int, ...]] = {
    gated_mlp: (3, 64, 100),
    gated_mlp_wei_combined: (3, 64, 100),
    gated_mlp_int4: (3, 64, 96, 32),
}
EXAMPLES = pytest.mark.parametrize("example", SIZES, ids=lambda one: one.__name__.split(".")[-1])
MLP = ["MatMul", "MatMul", "MatMul", "Multiply", "Multiply", "Sigmoid"]
no_gpu = pytest.mark.skipif(engine.get_count("gpu") > 0, reason="there is a GPU")


@pytest.fixture(autouse=True)
def run_once(monkeypatch):
    """No test looks at times."""
    for module in (_built, gated_mlp_wei_combined):
        monkeypatch.setattr(module, "median_milliseconds", lambda call: 0.0)


def cases(example: ModuleType, *sizes: int, engine_kind: str = "cpu") -> list[Case | Skipped]:
    return list(example.run(engine_kind, *(sizes or SIZES[example])))


def ran(example: ModuleType, *sizes: int) -> Iterator[Case]:
    return (case for case in cases(example, *sizes) if isinstance(case, Case))


@EXAMPLES
def test_each_data_type_is_right_or_skipped_for_the_cpu(example):
    made = cases(example)
    assert [case.name.split(",")[0] for case in made] == ["f32", "bf16", "f16"]
    for case in made:
        lacks = cpu.lacks(case.name.split(",")[0])
        if lacks is None:
            assert case.all_faults() == []
            ((compared,),) = (found.outputs for found in case.comparisons.values())
            assert compared.count == 3 * 64
            # Tolerances small enough to mean something.
            share = 0.001 if case.name.startswith("f32") else 0.1
            assert compared.allowed < share * compared.largest
        else:
            assert (type(case), case.reason) == (Skipped, lacks)


@EXAMPLES
def test_it_is_one_partition(example):
    for case in ran(example):
        (ops,) = case.partitions
        kinds = [kind for kind in ops if kind not in ("DynamicDequantize", "TypeCast")]
        assert sorted(kinds) == MLP
        assert ops.count("DynamicDequantize") == (3 if example is gated_mlp_int4 else 0)
        narrowed = example is gated_mlp_wei_combined and not case.name.startswith("f32")
        assert ops.count("TypeCast") == (narrowed and LINKED >= (3, 8))


@pytest.mark.parametrize(
    ("example", "sizes"),
    [
        (gated_mlp, (1, 1, 1)),
        (gated_mlp, (2, 7, 33)),
        (gated_mlp_wei_combined, (1, 1, 1)),
        (gated_mlp_wei_combined, (2, 7, 33)),
        (gated_mlp_int4, (1, 32, 32, 32)),
        (gated_mlp_int4, (5, 96, 64, 32)),
    ],
)
def test_other_sizes_are_right(example, sizes):
    for case in ran(example, *sizes):
        assert case.all_faults() == [], case


def test_sizes_are_those_of_upstream_unless_given():
    assert gated_mlp.run.__defaults__ == ("cpu", 1, 4096, 14336)
    assert gated_mlp_wei_combined.run.__defaults__ == ("cpu", 1, 4096, 14336)
    assert gated_mlp_int4.run.__defaults__ == ("cpu", 1, 4096, 14336, 128)


def test_gate_and_up_are_read_from_one_buffer_without_a_copy(monkeypatch):
    given = []

    def bind(self, arrays):
        given.append(arrays)
        return right(self, arrays)

    right = _pipeline.Pipeline.bind
    monkeypatch.setattr(_pipeline.Pipeline, "bind", bind)
    assert all(case.all_faults() == [] for case in ran(gated_mlp_wei_combined))
    for arrays in given:
        views = [array for array in arrays.values() if array.strides[0] == 2 * 100 * array.itemsize]
        assert len(views) == 2
        assert views[0].base is views[1].base
        first, second = sorted(array.ctypes.data for array in views)
        assert second - first == 100 * views[0].itemsize


@EXAMPLES
def test_a_size_of_zero_is_refused(example):
    name = example.__name__.split(".")[-1]
    for position in range(len(SIZES[example])):
        wrong = [*SIZES[example]]
        wrong[position] = 0
        with pytest.raises(InvalidArgumentsError, match=rf"^{name}: \w+ must be at least 1, got 0"):
            next(example.run("cpu", *wrong))


@pytest.mark.parametrize(("ic", "oc"), [(63, 96), (64, 95)])
def test_a_group_that_does_not_divide_the_sizes_is_refused(ic, oc):
    message = f"^gated_mlp_int4: group must divide ic and oc, {ic} and {oc}, got 32"
    with pytest.raises(InvalidArgumentsError, match=message):
        next(gated_mlp_int4.run("cpu", 1, ic, oc, 32))


@EXAMPLES
def test_an_unknown_kind_of_engine_is_refused(example):
    with pytest.raises(InvalidArgumentsError, match="'xpu' is not a engine kind"):
        next(example.run("xpu"))


@no_gpu
@EXAMPLES
def test_without_a_gpu_graphs_are_partitioned_for_one(example):
    made = cases(example, engine_kind="gpu")
    assert len(made) == 3
    for case in made:
        assert isinstance(case, Skipped)
        assert len(case.partitions) == 1
        assert "GPU" in case.reason
        assert case.reason.endswith("; partitioned for gpu: 1 partition")


# -- corrupted results


def largest_is_zero(array: np.ndarray) -> np.ndarray:
    array.flat[np.abs(array.astype(np.float32)).argmax()] = 0
    return array


def last_is_not_a_number(array: np.ndarray) -> np.ndarray:
    array.flat[-1] = np.nan
    return array


def rows_swapped(array: np.ndarray) -> np.ndarray:
    array[[0, 1]] = array[[1, 0]]
    return array


def columns_reversed(array: np.ndarray) -> np.ndarray:
    return array[:, ::-1]


def off_by_a_thousandth(array: np.ndarray) -> np.ndarray:
    return (array * 1.001).astype(array.dtype)


def corrupt(monkeypatch, wrong) -> None:
    """Have oneDNN seem to compute something wrong."""
    built, pipelined = _built.BuiltRun.output, _pipeline.Execution.output
    monkeypatch.setattr(
        _built.BuiltRun, "output", lambda self, name: wrong(built(self, name).copy())
    )
    monkeypatch.setattr(
        _pipeline.Execution, "output", lambda self, lt: wrong(pipelined(self, lt).copy())
    )


@pytest.mark.parametrize(
    "wrong", [largest_is_zero, last_is_not_a_number, rows_swapped, columns_reversed]
)
@EXAMPLES
def test_a_corrupted_result_is_found(example, wrong, monkeypatch):
    corrupt(monkeypatch, wrong)
    made = list(ran(example))
    assert made
    for case in made:
        assert any("off by more than their tolerance" in fault for fault in case.all_faults())


@EXAMPLES
def test_f32_that_is_off_by_a_thousandth_is_found(example, monkeypatch):
    corrupt(monkeypatch, off_by_a_thousandth)
    assert next(ran(example)).all_faults()
