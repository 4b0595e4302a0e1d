"""Modules that torchao's PT2E quantization has converted run in int8 partitions."""

import gc

import pytest

from onednn_graph_py.machine import current

torch = pytest.importorskip("torch", reason="torch is not installed")
pt2e = pytest.importorskip("torchao.quantization.pt2e.quantize_pt2e", reason="no torchao")
quantizer = pytest.importorskip(
    "torchao.quantization.pt2e.quantizer.x86_inductor_quantizer", reason="no torchao"
)
front = pytest.importorskip("onednn_graph_py.torch")

# What torch and torchao warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore", "error:.*oneDNN:UserWarning")


class ResidualBlock(torch.nn.Module):
    def __init__(self, channels: int = 64) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(y)) + x)


class Layer(torch.nn.Module):
    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.projections = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3))
        self.out = torch.nn.Linear(width, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.wide = torch.nn.Linear(width, 4 * width)
        self.narrow = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        query, key, value = (
            p(x).view(batch, tokens, self.heads, -1).transpose(1, 2) for p in self.projections
        )
        seen = torch.nn.functional.scaled_dot_product_attention(query, key, value)
        x = self.norms[0](x + self.out(seen.transpose(1, 2).reshape(batch, tokens, width)))
        return self.norms[1](x + self.narrow(torch.nn.functional.gelu(self.wide(x))))


class SeparableBlock(torch.nn.Module):
    """Of MobileNetV2's kind."""

    def __init__(self, channels: int = 32) -> None:
        super().__init__()
        wide = 4 * channels
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(channels, wide, 1, bias=False),
            torch.nn.BatchNorm2d(wide),
            torch.nn.ReLU6(),
            torch.nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False),
            torch.nn.BatchNorm2d(wide),
            torch.nn.ReLU6(),
            torch.nn.Conv2d(wide, channels, 1, bias=False),
            torch.nn.BatchNorm2d(channels),
        )

    def forward(self, x):
        return x + self.layers(x)


MODULES = {
    "residual block": (ResidualBlock, (2, 64, 14, 14), 2),
    "encoder layer": (Layer, (1, 32, 256), 6),
    "separable block": (SeparableBlock, (1, 32, 14, 14), 3),
}


@pytest.mark.parametrize("name", MODULES)
def test_products_and_convolutions_run_in_int8(name):
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    make, shape, products = MODULES[name]
    module, x = make().eval(), torch.randn(shape)
    how = quantizer.X86InductorQuantizer()
    how.set_global(quantizer.get_default_x86_inductor_quantization_config())
    prepared = pt2e.prepare_pt2e(torch.export.export(module, (x,)).module(), how)
    prepared(x)
    converted = pt2e.convert_pt2e(prepared)
    run = torch.compile(converted, backend="onednn_graph")
    with torch.no_grad():
        got, wanted, exact = run(x), converted(x), module(x)
    # A value between two steps may be rounded to either; no further off than quantization itself.
    scale = float(exact.abs().max())
    assert float((got - wanted).abs().mean()) < 0.002 * scale
    assert float((got - exact).abs().max()) < 2 * float((wanted - exact).abs().max()) + 0.01 * scale
    (graph,) = front.report(run).graphs
    assert not graph.left
    ran = sum(r.int8_partitions for r in graph.regions)
    # Without VNNI sums of some products would saturate, and models run those in parts.
    apart = [
        step.ops
        for region in graph.regions
        for step in region.steps
        if "[int8_products_without_vnni]" in step.why and {"Convolution", "MatMul"} & {*step.ops}
    ]
    assert ran + len(apart) == products
    assert not (apart and current().has("vnni"))
