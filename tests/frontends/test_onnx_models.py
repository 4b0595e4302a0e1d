"""ONNX files of whole networks, as torch exports and onnxruntime quantizes them."""

import contextlib
import importlib.util
import io
import logging
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from onednn_graph_py.base.linked import linked_version
from onednn_graph_py.machine import current

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")
T = pytest.importorskip("transformers", reason="transformers is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
quantization = pytest.importorskip("onnxruntime.quantization", reason="no quantizer")
front = pytest.importorskip("onednn_graph_py.onnx")
models = importlib.import_module("quantized_models")

# What torch and onnxruntime warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore", "error:.*oneDNN:UserWarning")

SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


class First(torch.nn.Module):
    """A model that returns its first result only."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.eval()

    def forward(self, *inputs):
        return self.model(*inputs)[0]


class Ids(First):
    """A decoder without its cache."""

    def forward(self, ids):
        return self.model(ids, use_cache=False)[0]


def exported(module, arguments, names, dynamo=True, **options):
    """Return a module as an ONNX model."""
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    options = {"input_names": names, "output_names": ["y"], **options}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        if dynamo:
            made = torch.onnx.export(module, arguments, dynamo=True, verbose=False, **options)
            return made.model_proto
        file = io.BytesIO()
        torch.onnx.export(module, arguments, file, dynamo=False, **options)
        return onnx.load_from_string(file.getvalue())


def session_of(model, optimized=True):
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options)


def check(model, *arrays, session=None, **options):
    """Compare with onnxruntime, in f32, and return the loaded model."""
    made = front.load(model, **options) if isinstance(model, onnx.ModelProto) else model
    session = session or session_of(model)
    wanted = session.run(
        None, dict(zip((i.name for i in session.get_inputs()), arrays, strict=True))
    )
    got = made(*arrays)
    for mine, theirs in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        assert mine.shape == theirs.shape
        assert np.abs(mine - theirs).max() <= 1e-4 * np.abs(theirs).max()
    return made


def ids(rows, batch=1):
    return np.random.default_rng(rows).integers(3, 100, (batch, rows))


def only_program(model):
    (program,) = model.report().programs
    return program


# -- what is found in exports


def test_gelu_and_normalizations_of_an_old_opset_are_found():
    torch.manual_seed(0)
    module = First(T.BertModel(T.BertConfig(**SMALL, attn_implementation="eager")))
    arguments = (torch.from_numpy(ids(12)),)
    model = exported(module, arguments, ["ids"], dynamo=False, opset_version=11)
    before = Counter(n.op_type for n in model.graph.node)
    assert before["Erf"] == 2
    assert before["LayerNormalization"] == 0
    counted = models.prepared(model)
    assert counted["Erf"] == 0
    assert counted["Gelu"] == 2
    steps = only_program(check(model, ids(12))).steps
    assert sum("GELU" in s.ops for s in steps) == 2
    assert sum("LayerNorm" in s.ops for s in steps) == 5


def test_gelu_by_the_hyperbolic_tangent_is_found():
    torch.manual_seed(0)
    config = T.GPT2Config(vocab_size=100, n_embd=64, n_layer=2, n_head=4)
    model = exported(Ids(T.GPT2Model(config)), (torch.from_numpy(ids(9)),), ["ids"])
    assert Counter(n.op_type for n in model.graph.node)["Tanh"] == 2
    steps = only_program(check(model, ids(9))).steps
    found = sum("GELU" in s.ops for s in steps), sum("Tanh" in s.ops for s in steps)
    # Its mode is an attribute from 3.9 on.
    assert found == ((2, 0) if linked_version() >= (3, 9) else (0, 2))


def test_root_mean_squares_are_found_in_a_decoder():
    torch.manual_seed(0)
    module = Ids(T.LlamaModel(T.LlamaConfig(**SMALL, num_key_value_heads=2)))
    model = exported(module, (torch.from_numpy(ids(9)),), ["ids"], opset_version=18)
    assert Counter(n.op_type for n in model.graph.node)["Sqrt"] == 5
    steps = only_program(check(model, ids(9))).steps
    found = sum("RMSNorm" in s.ops for s in steps), sum("Sqrt" in s.ops for s in steps)
    # It is an op from 3.11 on.
    assert found == ((5, 0) if linked_version() >= (3, 11) else (0, 5))


@pytest.fixture(scope="module")
def encoder():
    """A sentence encoder, exported with open sizes."""
    torch.manual_seed(0)

    class Encoder(First):
        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask)[0]

    batch, length = torch.export.Dim("batch"), torch.export.Dim("length", max=512)
    arguments = (torch.from_numpy(ids(7, 2)), torch.ones(2, 7, dtype=torch.int64))
    sizes = {0: batch, 1: length}
    module = Encoder(T.BertModel(T.BertConfig(**SMALL)))
    return exported(module, arguments, ["ids", "mask"], dynamic_shapes=(sizes, sizes))


def test_attention_whose_rows_may_be_empty_is_found(encoder):
    before = Counter(n.op_type for n in encoder.graph.node)
    assert before["IsNaN"] == before["Softmax"] == 2
    counted = models.prepared(encoder)
    assert counted["IsNaN"] == counted["Softmax"] == 0
    assert counted["Attention"] == 2


def test_an_encoder_runs_twenty_sizes_in_a_row(encoder):
    session = session_of(encoder)
    model = front.load(encoder)
    sizes = [(1 + i % 3, 1 + 5 * i % 37) for i in range(20)]
    for batch, length in sizes:
        mask = np.ones((batch, length), np.int64)
        mask[0, length // 2 + 1 :] = 0
        check(model, ids(length, batch), mask, session=session)
    (program,) = model.report().programs
    assert program.is_general


def test_an_encoder_of_sound():
    torch.manual_seed(0)
    config = T.WhisperConfig(
        d_model=64,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        max_source_positions=20,
        num_mel_bins=8,
    )
    module = First(T.models.whisper.modeling_whisper.WhisperEncoder(config))
    model = exported(module, (torch.randn(1, 8, 40),), ["x"])
    x = np.random.default_rng(0).standard_normal((1, 8, 40)).astype(np.float32)
    made = check(model, x)
    assert only_program(made).share == 1


# -- int8


def images(size, count=8):
    generator = np.random.default_rng(0)
    return [generator.standard_normal((1, 3, size, size)).astype(np.float32) for _ in range(count)]


def resnet(small):
    few = {"embedding_size": 16, "hidden_sizes": [32, 64], "depths": [2, 2]}
    config = T.ResNetConfig(num_labels=10, **(few | {"layer_type": "bottleneck"} if small else {}))
    return T.ResNetForImageClassification(config)


def mobilenet(small):
    config = T.MobileNetV2Config(
        num_labels=10, tf_padding=False, **({"depth_multiplier": 0.35} if small else {})
    )
    model = T.MobileNetV2ForImageClassification(config)
    for module in model.modules():  # else the numbers vanish on their way
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight)
    return model


NETWORKS = {"ResNet": resnet, "MobileNetV2": mobilenet}


def quantized(make, small, folder, form="QDQ"):
    """Return a network in f32, and as onnxruntime quantizes it: u8, and s8 by channel."""
    torch.manual_seed(0)
    size = 64 if small else 224
    model = exported(First(make(small)), (torch.randn(1, 3, size, size),), ["x"])
    before, between, after = (folder / f"{n}.onnx" for n in ("before", "between", "after"))
    onnx.save(model, before)
    quantization.shape_inference.quant_pre_process(before, between, skip_symbolic_shape=True)

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.rest = [{"x": x} for x in images(size)]

        def get_next(self):
            return self.rest.pop() if self.rest else None

    quantization.quantize_static(
        between,
        after,
        Reader(),
        quant_format=getattr(quantization.QuantFormat, form),
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        reduce_range=not current().has("vnni"),  # without VNNI onnxruntime's sums saturate
    )
    return onnx.load(between), onnx.load(after), size


def cosine(x, y):
    return float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))


@pytest.mark.parametrize(
    ("network", "small"),
    [
        ("ResNet", True),
        *(
            pytest.param(*p, marks=pytest.mark.slow)
            for p in (("ResNet", False), ("MobileNetV2", True), ("MobileNetV2", False))
        ),
    ],
)
def test_quantized_networks(network, small, tmp_path):
    whole, model, size = quantized(NETWORKS[network], small, tmp_path)
    products = sum(n.op_type in ("Conv", "Gemm") for n in model.graph.node)
    theirs, floats = session_of(model, optimized=False), session_of(whole)
    fused = session_of(model)
    exact, merged = front.load(model, requantize="exact"), front.load(model)
    errors = []
    results = {s: [s.run(None, {"x": x})[0] for x in images(size, 4)] for s in (theirs, fused)}
    # Two steps; or half more than onnxruntime's own kernels differ, fused and apart: what
    # one rounding changes grows in the thin layers of MobileNet.
    own = max(np.abs(a - b).max() for a, b in zip(*results.values(), strict=True))
    allowed = max(2.001 * models.last_scale(model), 1.5 * own)
    for x, wanted in zip(images(size, 4), results[theirs], strict=True):
        best = floats.run(None, {"x": x})[0]
        assert np.abs(exact(x) - wanted).max() <= allowed
        got = merged(x)
        # Both are rounded from the same numbers, each on its own, so the squares of angles add.
        assert 1 - cosine(got, wanted) <= max(0.001, 2.5 * (1 - cosine(best, wanted)))
        errors.append((np.abs(got - best).mean(), np.abs(wanted - best).mean()))
    mine, rounded = np.mean(errors, 0)
    # It rounds less often. The mean of n absolute errors that are distributed normally is known to
    # 0.76 / sqrt(n) of itself, and so is the other one; two deviations of their ratio are allowed.
    count = len(errors) * wanted.size
    assert mine <= rounded * (1 + 2 * np.sqrt(2 / count) * np.sqrt(np.pi / 2 - 1))
    for made in (exact, merged):
        program = only_program(made)
        assert program.share == 1
        steps = [s.ops for s in program.steps]
        integers = [s for s in steps if "Dequantize" in s and ("Convolution" in s or "MatMul" in s)]
        assert len(integers) == products
    assert ("Add",) not in steps
    # Only the input is quantized, and the output dequantized, on its own.
    assert steps.count(("Quantize",)) == steps.count(("Dequantize",)) == 1


def test_a_network_of_integer_ops(tmp_path):
    _, model, size = quantized(resnet, True, tmp_path, "QOperator")
    products = sum(n.op_type in ("QLinearConv", "QGemm") for n in model.graph.node)
    assert products > 10
    theirs = session_of(model, optimized=False)
    made = front.load(model)
    for x in images(size, 2):
        assert cosine(made(x), theirs.run(None, {"x": x})[0]) > 0.999
    program = only_program(made)
    assert program.share == 1
    assert program.int8_partitions >= products


def installed(package, *path):
    """A file of an installed package, or a skipped test."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    return Path(found.submodule_search_locations[0], *path)


@pytest.mark.slow
def test_a_text_detector_of_many_sizes():
    path = installed("rapidocr", "models", "PP-OCRv6_det_small.onnx")
    loaded = front.load(path)
    theirs, plain = session_of(onnx.load(path)), session_of(onnx.load(path), optimized=False)
    for size in ((160, 160), (320, 480), (224, 320), (96, 640)):
        x = np.random.default_rng(0).uniform(-1, 1, (1, 3, *size)).astype(np.float32)
        wanted, same = theirs.run(None, {"x": x})[0], plain.run(None, {"x": x})[0]
        # Of random images it returns nearly nothing: onnxruntime differs from itself as much.
        allowed = max(1e-4 * np.abs(wanted).max(), 1.5 * np.abs(wanted - same).max())
        assert np.abs(loaded(x) - wanted).max() <= allowed
    assert only_program(loaded).share == 1


@pytest.mark.slow
def test_a_voice_detector_with_an_lstm():
    path = installed("silero_vad", "data", "silero_vad_16k_sequence.onnx")
    loaded, theirs = front.load(path), session_of(onnx.load(path))
    random = np.random.default_rng(0)
    for count in (3, 128, 50):
        given = {
            "input": random.standard_normal((count, 576)).astype(np.float32),
            "h": np.zeros((1, 1, 128), np.float32),
            "c": np.zeros((1, 1, 128), np.float32),
        }
        for got, wanted in zip(loaded(**given), theirs.run(None, given), strict=True):
            assert np.abs(got - wanted).max() <= 1e-4 * np.abs(wanted).max()
    assert "LSTM" in {left.op for left in only_program(loaded).left}
