"""The networks of ``./dev bench run``: each row builds and answers right, at small sizes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from graphs import needs

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench():
    """``benchmarks/run.py`` as a module, with those that it imports."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        spec = importlib.util.spec_from_file_location("benchmarks_run", BENCHMARKS / "run.py")
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        yield made
    for name in {"_models", "_peers", "_timing"} - before:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def models(bench) -> ModuleType:
    return sys.modules["_models"]


def _options(**changes):
    given = {"quick": True, "dtype": None, "layers": None, "tokens": None, "side": None}
    return SimpleNamespace(**given | changes)


def _server(bench, section, dtype, sizes):
    spec = bench.spec_of(section, sizes, dtype, 1)
    return bench.Server({**spec, "peer": bench.OURS})


# How many rows, and in which data types.
ROWS = {
    "encoder": (1, ("f32", "bf16")),
    "resnet": (1, ("f32", "int8", "bf16")),
    "mobilenet": (1, ("f32", "int8", "bf16")),
    "llama": (1, ("f32", "bf16", "w8", "w4")),
    "decode": (1, ("f32", "bf16", "w8", "w4")),
    "attention": (2, ("f32", "bf16")),
    "mlp": (2, ("f32", "bf16")),
    "convolutions": (3, ("f32", "bf16")),
}
EACH = [(s, d, row) for s, (count, dtypes) in ROWS.items() for d in dtypes for row in range(count)]


def test_every_row_is_tested_here(bench):
    assert set(bench.NETWORKS) == set(bench.SIZES) == set(ROWS)
    assert set(bench.NETWORKS) < set(bench.SECTIONS)
    for section, (count, dtypes) in ROWS.items():
        assert len(bench.QUICK_SIZES[section]) == count
        assert (*bench.DTYPES[section], *bench.MORE_DTYPES.get(section, ())) == dtypes


@pytest.mark.filterwarnings("ignore:.*runs in parts.*:RuntimeWarning")
@pytest.mark.parametrize(("section", "dtype", "row"), EACH)
def test_a_row_answers_as_numpy_does(bench, models, section, dtype, row):
    needs(dtype)
    server = _server(bench, section, dtype, bench.QUICK_SIZES[section][row])
    made = server.load()
    # Where only weights are integers, this package rounds each token's activations too.
    assert made["distance"] <= models.TOLERANCE[dtype]
    assert made["peak"] >= 0


def test_rows_are_of_the_sizes_that_were_asked_for(bench):
    full = {s: bench.sizes_of(s, _options(quick=False)) for s in bench.NETWORKS}
    said = [str(bench.NETWORKS[s](**sizes)) for s, rows in full.items() for sizes in rows]
    assert said == [
        "12 layers, 768 wide, 128 tokens",
        "53 convolutions, 224x224",
        "52 convolutions, 224x224",
        "2048 wide, 128 tokens",
        "2048 wide, 1 token after 512",
        "1x12x512x64, causal",
        "1x32x2048x128, causal",
        "1x32x4096x128, causal",
        "6 of 32x256x256, ReLU",
        *(f"6 of {m}x{n}x{n}, ReLU" for m in (1, 8, 512) for n in (128, 1024, 4096)),
        "wav2vec 2.0, 1-D, 512x1599 to 512, kernel 3",
        "HiFi-GAN, 1-D dilated, 128x2011 to 128, kernel 11",
        "HiFi-GAN, 1-D transposed, 512x99 to 256, kernel 16",
        "ConvNeXt, depthwise, 96x56x56 to 96, kernel 7",
        "EfficientNet, depthwise, 240x28x28 to 240, kernel 5",
        "U-Net, transposed, 128x56x56 to 64, kernel 2",
        "DeepLab, dilated, 256x33x33 to 256, kernel 3",
        "R3D, 3-D, 64x8x28x28 to 64, kernel 3",
    ]
    assert bench.sizes_of("mobilenet", _options(side=96))[0]["side"] == 96


def test_a_query_after_cached_keys_sees_what_the_last_of_all_queries_sees(models):
    attention = models.Attention(4, 9, 8)
    query, key, value = attention.inputs().values()
    key, value = key[:, :2], value[:, :2]
    ops = models.NumpyOps(models.Parameters({}, "f32"))
    whole = ops.attention(query, key, value, causal=True)
    past = (key[:, :, :-1], value[:, :, :-1])
    last = [x[:, :, -1:] for x in (query, key, value)]
    np.testing.assert_allclose(ops.attention(*last, causal=True, past=past), whole[:, :, -1:], 1e-5)
    # The first query sees one key.
    np.testing.assert_allclose(whole[:, :2, 0], np.repeat(value[:, :1, 0], 2, 1), 1e-5)


def test_a_grouped_convolution_is_one_of_each_group(models):
    random = np.random.default_rng(0)
    weight = random.standard_normal((6, 2, 3, 3), np.float32)
    bias = random.standard_normal(6, np.float32)
    arrays = {"c.weight": weight, "c.bias": bias}
    for group in range(3):
        part = slice(2 * group, 2 * group + 2)
        arrays |= {f"{group}.weight": weight[part], f"{group}.bias": bias[part]}
    ops = models.NumpyOps(models.Parameters(arrays, "f32"))
    x = random.standard_normal((1, 6, 7, 7), np.float32)
    window = models.Window(2, 1)
    apart = [ops.convolution(x[:, 2 * g : 2 * g + 2], str(g), window) for g in range(3)]
    np.testing.assert_allclose(
        ops.convolution(x, "c", window._replace(groups=3)), np.concatenate(apart, 1), 1e-5, 1e-5
    )


@pytest.mark.parametrize(("dtype", "largest"), [("w8", 127), ("w4", 7), ("int8", 64)])
def test_integer_weights_are_near_the_floats_and_within_their_bits(models, dtype, largest):
    values = np.random.default_rng(0).standard_normal((256, 24), np.float32)
    parameters = models.Parameters({"x.weight": values}, dtype, largest=64)
    integers, scales, axis = parameters.weight("x")
    assert abs(integers.astype(int)).max() == largest
    assert scales.shape == ((2, 24) if dtype == "w4" else (24,))
    steps = models.spread(scales, axis, values)
    assert (abs(integers * steps - values) <= 0.5001 * steps).all()


@pytest.fixture
def opened(bench):
    """An encoder of unknown length."""
    server = _server(bench, "encoder", "f32", bench.QUICK_SIZES["encoder"][0])
    made = server.open([8, 12])
    assert made["right"]
    assert made["weights"] == sum(a.nbytes for a in server.network.arrays().values())
    return server


def test_further_lengths_answer_as_numpy_does(opened):
    for tokens in (8, 12):
        assert opened.length(tokens, calls=1).keys() == {"first", "steady"}
    made = opened.grown()
    assert made["over_tolerance"] <= 1
    assert made["worst"] in (8, 12)


def test_a_length_whose_answer_is_wrong_or_missing_is_named(opened):
    opened.length(8, calls=1)
    made = opened.grown()
    assert made["worst"] == 12
    assert np.isnan(made["over_tolerance"])
    opened.length(12, calls=1)
    opened.answers[8][0, 3] += 0.01
    made = opened.grown()
    assert made["worst"] == 8
    assert made["over_tolerance"] > 1


def test_weights_of_a_token_are_counted_as_they_are_stored(models):
    network = models.NETWORKS["decode"](hidden=256, count_heads=4, key_heads=2, inner=512)
    count = 256 * (256 * 2 + 128 * 2 + 512 * 3)
    for dtype, size in {"f32": 4, "bf16": 2, "w8": 1, "w4": 0.5}.items():
        assert models.weight_bytes(models.parameters_of(network, dtype)) == count * size


def test_copies_are_counted_as_read_and_written(bench, monkeypatch):
    times = iter([0.5, 0.25, 0.75])

    def timed(copy, calls):
        copy()
        return next(times)

    monkeypatch.setattr(bench, "seconds_a_call", timed)
    assert bench.copied_bytes(2, 3, size=1 << 20) == 2 * (1 << 20) / 0.25


def test_a_library_that_is_not_there_is_named_and_fails_nothing(bench, capsys):
    class Absent(bench.Peer):
        name = "a library"
        modules = ("no_such_module_of_any_kind",)

    report = bench.Report(verbose=False)
    about = {"section": "shapes", "threads": 1, "case": "f32"}
    assert bench.competitors([Absent()], "f32", report, about) == []
    assert report.summary() == 0
    assert "a library" in capsys.readouterr().out
    assert report.records[0]["status"] == "not installed"


def test_a_library_of_other_data_types_is_named(bench, capsys):
    (torch,) = (p for p in bench.PEERS if p.name == "torch eager")
    torch = type("Here", (type(torch),), {"modules": ("json",)})()
    report = bench.Report(verbose=False)
    about = {"section": "llama", "threads": 1, "case": "w4"}
    assert bench.competitors([torch], "w4", report, about) == []
    assert "not supported: w4" in capsys.readouterr().out
