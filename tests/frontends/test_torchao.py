"""Modules that torchao's `quantize_` and its dynamic PT2E quantization have converted."""

import numpy as np
import pytest
from graphs import needs
from rounding import allowed, steps_of_columns

torch = pytest.importorskip("torch", reason="torch is not installed")
ao = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
front = pytest.importorskip("onednn_graph_py.torch")
largest_int8_weight = pytest.importorskip("onednn_graph_py.machine.cpu").largest_int8_weight

# What torch and torchao warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore", "error:.*oneDNN:UserWarning")

CONFIGS = {
    "weights": ao.Int8WeightOnlyConfig,
    "both": ao.Int8DynamicActivationInt8WeightConfig,
}


def far_of(x, exact):
    """Return how far results may be: weights have 7 bits where products of 8 saturate."""
    largest = largest_int8_weight()
    return allowed(x, exact, 0 if largest == 127 else steps_of_columns(exact, largest)) + 1e-6


def layer(config, inputs=64, outputs=40, bias=True, dtype=torch.float32):
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(inputs, outputs, bias=bias)).eval().to(dtype)
    ao.quantize_(made, CONFIGS[config]())
    return made


def compiled(module, **options):
    torch._dynamo.reset()
    return torch.compile(module, backend="onednn_graph", options={"fallback": "error", **options})


def int8_partitions():
    """Return how many partitions of the newest graph multiply integers."""
    return sum(r.int8_partitions for r in front.report().graphs[-1].regions)


def weights_of(module):
    """Return the numbers that a layer's weights stand for, (inputs, outputs), and its bias."""
    of = module[0] if isinstance(module, torch.nn.Sequential) else module
    weight, bias = of.weight, of.bias
    exact = weight.qdata.double() * weight.scale.double().reshape(-1, 1)
    return exact.T.numpy(), 0 if bias is None else bias.detach().double().numpy()


@pytest.mark.parametrize("shape", [(5, 64), (2, 3, 64), (1, 64)])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("config", CONFIGS)
def test_layers_run_in_integers(config, bias, shape):
    module = layer(config, bias=bias)
    x = torch.randn(shape)
    exact, added = weights_of(module)
    with torch.no_grad():
        y = compiled(module, activations="int8")(x).numpy()
    flat = x.reshape(-1, 64).numpy()
    assert y.shape == (*shape[:-1], 40)
    assert np.all(np.abs(y.reshape(-1, 40) - (flat @ exact + added)) <= far_of(flat, exact))
    assert int8_partitions() == 1


def test_weights_alone_are_rounded_by_default():
    module = layer("weights")
    x = torch.randn(5, 64)
    exact, added = weights_of(module)
    with torch.no_grad():
        y = compiled(module)(x).numpy()
    np.testing.assert_allclose(y, x.numpy() @ exact + added, rtol=1e-4, atol=1e-5)


def test_a_module_that_rounds_activations_needs_no_option():
    module = layer("both")
    x = torch.randn(5, 64)
    with torch.no_grad():
        compiled(module)(x)
    assert int8_partitions() == 1


@pytest.mark.parametrize("config", CONFIGS)
def test_layers_in_16_bits_run_in_integers(config):
    needs("bf16")
    module = layer(config, dtype=torch.bfloat16)
    x = torch.randn(5, 64).bfloat16()
    exact, added = weights_of(module)
    with torch.no_grad():
        y = compiled(module, activations="int8")(x)
    flat = x.double().numpy()
    most = far_of(flat, exact) + 2.0**-7 * (np.abs(flat @ exact) + np.abs(added))
    assert y.dtype == torch.bfloat16
    assert np.all(np.abs(y.double().numpy() - (flat @ exact + added)) <= most)
    assert int8_partitions() == 1


def test_weights_of_float8():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(64, 40)).eval()
    ao.quantize_(module, ao.Float8WeightOnlyConfig())
    x = torch.randn(5, 64)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(x), module(x), rtol=1e-5, atol=1e-5)


def test_layers_that_read_the_same_round_it_once():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(64, 48), torch.nn.Linear(64, 24)

        def forward(self, x):
            return self.first(x), self.second(x)

    module = Two().eval()
    ao.quantize_(module, CONFIGS["both"]())
    x = torch.randn(6, 64)
    with torch.no_grad():
        made = compiled(module)(x)
    for y, of in zip(made, (module.first, module.second), strict=True):
        exact, added = weights_of(of)
        assert np.all(np.abs(y.numpy() - (x.numpy() @ exact + added)) <= far_of(x.numpy(), exact))
    (region,) = front.report().graphs[-1].regions
    assert region.int8_partitions == 2


@pytest.mark.parametrize("config", CONFIGS)
def test_any_number_of_tokens(config):
    module = layer(config)
    exact, added = weights_of(module)
    torch._dynamo.reset()
    options = {"fallback": "error", "activations": "int8"}
    run = torch.compile(module, backend="onednn_graph", options=options, dynamic=True)
    for tokens in (1, 3, 17):
        x = torch.randn(2, tokens, 64)
        with torch.no_grad():
            y = run(x).numpy().reshape(-1, 40)
        flat = x.reshape(-1, 64).numpy()
        assert np.all(np.abs(y - (flat @ exact + added)) <= far_of(flat, exact))
    assert int8_partitions() == 1


@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activations", ["exact", "int8"])
def test_four_bits_as_torch_packs_them(activations, dtype, group):
    int4 = pytest.importorskip("torchao.prototype.quantization.int4", reason="no packed 4 bits")
    needs({torch.float32: "f32", torch.bfloat16: "bf16"}[dtype])
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(192, 64)).eval().to(dtype)
    before = module[0].weight.detach().double().numpy()
    ao.quantize_(module, int4.PrototypeInt4WeightOnlyConfig(group_size=group))
    x = torch.randn(2, 3, 192).to(dtype)
    with torch.no_grad():
        y = compiled(module, activations=activations)(x).double().numpy()
        exact = module(torch.eye(192).to(dtype)).double() - module[0].bias.double()
        bias = module[0].bias.double().numpy()
    exact, flat = exact.numpy(), x.reshape(-1, 192).double().numpy()
    step = np.ptp(before.T.reshape(-1, group, 64), axis=1).max() / 15
    assert np.abs(exact - before.T).max() <= step  # torch's own unpacking
    far = np.abs(y.reshape(-1, 64) - (flat @ exact + bias))
    most = 1e-5 * (np.abs(flat) @ np.abs(exact) + 1)
    if dtype == torch.bfloat16:
        most = 2.0**-7 * (np.abs(flat) @ np.abs(exact) + np.abs(bias))
    if activations == "int8":
        most = most + allowed(flat, exact, steps_of_columns(exact, largest_int8_weight()))
    assert np.all(far <= most)
    assert int8_partitions() == (activations == "int8")


def test_dynamic_pt2e_quantization():
    pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="no torchao")
    x86 = pytest.importorskip("torchao.quantization.pt2e.quantizer.x86_inductor_quantizer")
    module = torch.nn.Sequential(torch.nn.Linear(64, 40), torch.nn.ReLU()).eval()
    x = torch.randn(6, 64)
    quantizer = x86.X86InductorQuantizer()
    quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=True))
    with torch.no_grad():
        prepared = pt2e.prepare_pt2e(torch.export.export(module, (x,)).module(), quantizer)
        prepared(x)
        made = pt2e.convert_pt2e(prepared)
        y = compiled(made)(x)
        far = np.abs(y - module(x)).max()
    assert far < 0.05
    assert int8_partitions() == 1
