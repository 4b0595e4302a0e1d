"""`keep`: constants that oneDNN has copies of lie in files, where all that read them find them."""

import functools
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from graphs import python

import onednn_graph_py as og
from onednn_graph_py import _core
from onednn_graph_py.machine import store
from onednn_graph_py.machine.cpu import largest_int8_weight
from onednn_graph_py.model.building.constant_arrays import aligned_copy

INPUTS, OUTPUTS = 1088, 1024  # more than 1 MiB of 8 bits
X = np.random.default_rng(1).standard_normal((5, INPUTS)).astype(np.float32)


def lies_in_memory(folder):
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text().splitlines()]
    _, kind = max((m for m in mounts if folder.is_relative_to(m[0])), key=lambda m: len(m[0]))
    return kind in ("tmpfs", "ramfs")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own, on a disk."""
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path))
    if lies_in_memory(tmp_path.resolve()):
        pytest.skip("the folder of temporary files lies in memory")
    assert _core._constant_place(aligned_copy(X)).rest(str(tmp_path))
    return tmp_path


def built(rows=5, outputs=OUTPUTS):
    random = np.random.default_rng(2)
    b = og.GraphBuilder()
    x = b.input((rows, INPUTS), name="x")
    integers = random.integers(-64, 65, (INPUTS, outputs), np.int8)
    scales = random.uniform(0.5, 1, outputs).astype(np.float32) / 1000
    b.output(og.blocks.linear(x, integers, scales=scales, activations="int8"))
    return b


def floats(rows=5):
    b = og.GraphBuilder()
    weights = np.random.default_rng(3).standard_normal((INPUTS, OUTPUTS), np.float32)
    b.output(b.input((rows, INPUTS), name="x") @ weights)
    return b


@functools.cache
def packs(build):
    """Return whether oneDNN packs the weights here: without VNNI it reads some as they are."""
    model = build().compile(keep="all")
    return model.release_constants() >= 1 << 20


@pytest.fixture
def packed(folder):
    if not packs(built):
        assert largest_int8_weight() < 127  # with VNNI it packs them
        pytest.skip("oneDNN reads weights of 8 bits as they are on this CPU")


@pytest.fixture
def packed_for_all_rows(packed):
    if largest_int8_weight() < 127:  # few rows are convolutions then, which read them as they are
        pytest.skip("without VNNI the rows decide whether oneDNN packs weights of 8 bits")


def at_rest(model):
    return [
        _core._constant_place(v.data).rests
        for v in model.builder.constants
        if v.data is not None and v.data.nbytes >= 1 << 20
    ]


@pytest.mark.parametrize(
    "build, keep, rests",
    [
        (built, "auto", True),
        (built, "compressed", True),
        (built, "all", False),
        (floats, "auto", False),
        (floats, "compressed", True),
        (floats, "all", False),
    ],
)
def test_results_are_equal_to_the_bit(folder, build, keep, rests):
    b = build()
    before = [v.data.copy() for v in b.constants]
    wanted = build().compile(keep="all")(X)
    model = b.compile(keep=keep)
    assert at_rest(model) == [rests and packs(build)]
    np.testing.assert_array_equal(model(X), wanted)
    for value, data in zip(model.builder.constants, before, strict=True):
        np.testing.assert_array_equal(value.data, data)


def test_new_shapes_pickles_and_a_release_read_what_rests(packed_for_all_rows):
    model = built(-1).compile()
    for rows in (1, 4, 33):
        x = np.resize(X, (rows, INPUTS))
        wanted = built(rows).compile(keep="all")(x)
        np.testing.assert_array_equal(model(x), wanted)
        assert at_rest(model) == [True]
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again(x), wanted)
    del again
    og.clear_caches()  # oneDNN packs what rests once more
    np.testing.assert_array_equal(model(x), wanted)
    model.release_constants()
    np.testing.assert_array_equal(model(x), wanted)


def test_constants_at_rest_are_not_counted(packed):
    bytes_of = {keep: built().compile(keep=keep).stats().memory_bytes for keep in ("all", "auto")}
    assert bytes_of["all"] - bytes_of["auto"] == INPUTS * OUTPUTS


def test_no_file_is_left_and_small_constants_stay(folder, packed):
    model = built(outputs=64).compile()
    assert model(X).shape == (5, 64)
    assert not any(_core._constant_place(v.data).rests for v in model.builder.constants)
    kept = built().compile()
    assert at_rest(kept) == [True]
    assert not list(folder.glob("constant-*"))


def test_without_a_file_constants_stay(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(store, "folder", lambda: tmp_path / "file" / "cache")
    model = built().compile()
    assert at_rest(model) == [False]
    np.testing.assert_array_equal(model(X), built().compile(keep="all")(X))


def test_unknown_choices_are_refused():
    with pytest.raises(og.InvalidArgumentsError, match="keep must be one of 'auto', 'all',"):
        built().compile(keep="packed")


MEMORY = """
    import ctypes, gc, resource, sys
    from pathlib import Path
    import numpy as np
    import onednn_graph_py as og

    def resident():
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def built(layers, width):
        random = np.random.default_rng(0)
        b = og.GraphBuilder()
        x = b.input((-1, width), name="x")
        for i in range(layers):
            integers = random.integers(-8, 8, (width, width), np.int8)
            scales = np.full((4, width), 1e-3, np.float32)
            x = og.blocks.linear(x, integers, scales=scales, activations="int8")
        b.output(x)
        return b

    x = np.ones((3, 2048), np.float32)
    built(1, 256).compile()(x[:, :256].copy())
    before = resident()
    model = built(24, 2048).compile(keep={keep!r})
    for rows in (3, 1, 40):
        model(np.resize(x, (rows, 2048)))
    print((resident() - before) / (24 * 2048 * 2048))
"""


@pytest.mark.parametrize("keep, least, most", [("auto", 0, 1.2), ("all", 1.9, 3)])
def test_memory_is_that_of_the_weights_as_they_are_run(folder, packed, keep, least, most):
    """4-bit weights run in 8 bits, once for all numbers of tokens; activations take little."""
    if largest_int8_weight() < 127:  # few rows read the weights as they are, in either case
        least, most = 0, 1.2
    done = python(MEMORY.format(keep=keep), env={"ONEDNN_GRAPH_PY_CACHE": str(folder)})
    assert least < float(done.stdout) < most


def test_weights_that_grow_when_compiled_are_warned_of():
    b = og.GraphBuilder()
    integers = np.random.default_rng(4).integers(-64, 65, (INPUTS, OUTPUTS), np.int8)
    weights = b.constant(integers).dequantize(scales=[0.01], zps=[0], qtype="per_tensor")
    b.output(b.input((5, INPUTS), name="x") @ weights)
    with pytest.warns(RuntimeWarning, match="constants of 1 MiB take 5 MiB"):
        model = b.compile()
    np.testing.assert_allclose(model(X), X @ (integers * np.float32(0.01)), rtol=1e-4, atol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        b.compile(fold_constants=False)
        built().compile()
        floats().compile()
