"""torch.compile with the backend onednn_graph: capture, weights, options, reports, export."""

import copy
import gc
import pickle
import subprocess
import sys
import warnings
import weakref

import leaks
import numpy as np
import pytest
from graphs import in_threads

import onednn_graph_py as og
from onednn_graph_py.base.linked import linked_version

torch = pytest.importorskip("torch", reason="torch is not installed")
front = pytest.importorskip("onednn_graph_py.torch")
F = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    gc.collect()
    torch.manual_seed(0)
    yield
    for name in list(globals()):  # torch keeps what follows a graph break there
        if name.startswith(("__compiled_fn", "__resume_at")):
            globals()[name] = None
    torch._dynamo.reset()


class Small(torch.nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = torch.nn.Linear(width, 2 * width)
        self.second = torch.nn.Linear(2 * width, width)
        self.register_buffer("shift", torch.ones(width))

    def forward(self, x):
        return self.second(torch.relu(self.first(x))) + self.shift


def compiled(module, dynamic=None, **options):
    return torch.compile(module, backend="onednn_graph", options=options, dynamic=dynamic)


def small():
    """A module, the module compiled, and an input."""
    module = Small().eval()
    return module, compiled(module), torch.randn(4, 32)


def close(got, wanted, terms=64):
    """Compare f32 results of sums of so many terms."""
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    if not wanted.numel():
        return
    scale = float(wanted.abs().max())
    assert float((got - wanted).abs().max()) <= 8 * terms**0.5 * 2**-24 * max(scale, 1.0)


def test_importing_the_package_imports_no_torch():
    program = "import onednn_graph_py, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_backend_is_found_by_its_name():
    assert "onednn_graph" in torch._dynamo.list_backends()


def test_module_runs_in_one_region():
    module, run, x = small()
    with torch.no_grad():
        close(run(x), module(x))
    (graph,) = front.report(run).graphs
    assert graph.share == 1.0 and not graph.left
    assert [r.failure for r in graph.regions] == [None]
    assert "MatMul" in str(graph)


def test_share_counts_what_a_call_computes():
    class Table(Small):
        def forward(self, x):
            return super().forward(x + 16 * torch.sigmoid(self.table @ self.table.T).sum(1))

    module = Table().eval()
    module.table = torch.nn.Parameter(torch.randn(32, 32))
    run, x = compiled(module), torch.randn(4, 32)
    with torch.no_grad():
        close(run(x), module(x))
    (graph,) = front.report(run).graphs
    assert graph.share == 1.0 and graph.work < 2 * 32 * 32 * 32


def test_report_measures_steps_if_asked():
    run = compiled(Small().eval())
    with torch.no_grad():
        run(torch.randn(4, 32))
    (region,) = front.report(run).graphs[0].regions
    assert region.seconds == ()
    measured = front.report(run, seconds=0.01)
    (region,) = measured.graphs[0].regions
    assert len(region.seconds) == len(region.steps) and " ms" in str(measured)
    for step, time in zip(region.steps, region.seconds, strict=True):
        assert (time > 0) == (step.implementation == "oneDNN")


def test_report_is_of_the_module_that_is_asked_for():
    one, other = compiled(Small().eval()), compiled(Small(16).eval())
    with torch.inference_mode():
        one(torch.randn(2, 32))
        assert len(front.report(one).graphs) == 1
        assert front.report(other).graphs == ()
        other(torch.randn(2, 16))
    assert len(front.report(other).graphs) == 1
    assert len(front.report().graphs) == 2


def test_report_names_what_stays_in_torch_with_its_line():
    class Sorts(Small):
        def forward(self, x):
            return super().forward(x.sort(dim=-1).values)

    module = Sorts().eval()
    run = compiled(module)
    with torch.no_grad():
        x = torch.randn(4, 32)
        close(run(x), module(x))
    (graph,) = front.report(run).graphs
    (left,) = [one for one in graph.left if "sort" in one.op]
    assert left.why == "oneDNN has no op for it"
    assert "test_torch.py" in left.where and "x.sort(dim=-1)" in left.where


def test_report_is_one_line_which_names_breaks():
    class Breaks(Small):
        def forward(self, x):
            hidden = super().forward(x).sort(dim=-1).values
            torch._dynamo.graph_break()
            return super().forward(hidden)

    run = compiled(Breaks().eval())
    with torch.no_grad():
        run(torch.randn(4, 32))
    report = front.report(run, seconds=0.01)
    text = str(report)
    line = Breaks.forward.__code__.co_firstlineno + 2
    assert report.breaks == (f'File "{__file__}", line {line}, in forward',)
    assert "\n" not in text and report.breaks[0] in text and "% of the arithmetic" in text
    assert "1 x aten.sort.default (oneDNN has no op for it)" in text and " ms" in text
    assert all(str(graph) in report.details for graph in report.graphs)


# -- weights are constants by identity: what can happen to them between two calls


def mixed_into_all(module):
    for mine, other in zip(module.parameters(), Small().parameters(), strict=True):
        mine.data.copy_(0.3 * other.data + 0.7 * mine.data)


EVENTS = {
    "nothing": lambda m: None,
    "data copied": lambda m: m.second.bias.data.copy_(torch.randn(32)),
    "mixed into all": mixed_into_all,
    "clipped": lambda m: [w.data.clamp_(-0.05, 0.05) for w in m.parameters()],
    "written through NumPy": lambda m: m.first.weight.detach().numpy().__imul__(2),
    "changed in place": lambda m: m.first.weight.add_(1.0),
    "loaded": lambda m: m.load_state_dict(Small().state_dict()),
    "buffer replaced": lambda m: setattr(m, "shift", torch.full((32,), 5.0)),
    "parameter replaced": lambda m: setattr(
        m.first, "weight", torch.nn.Parameter(torch.randn(64, 32))
    ),
    "data replaced": lambda m: setattr(m.first.weight, "data", torch.randn(64, 32)),
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_changed_weights_are_seen(event, mode):
    module, run, x = small()
    with torch.no_grad():
        first = run(x)
        close(first, module(x))
        with mode():
            if mode is torch.inference_mode and event != "nothing":
                run(x)
        EVENTS[event](module)
        close(run(x), module(x))
        with mode():
            close(run(x), module(x))


def convolutions():
    layers = torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU()
    module = torch.nn.Sequential(*layers, torch.nn.Conv2d(16, 5, 2)).eval()
    module[1].running_mean.normal_()
    return module


def attending():
    layer = torch.nn.TransformerEncoderLayer(24, 4, 56, batch_first=True)
    return torch.nn.Sequential(layer, torch.nn.Linear(24, 7)).eval()


class Masked(torch.nn.Module):
    """Attention with a mask and a factor that are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(24, 72)
        self.register_buffer("mask", torch.zeros(9, 9))
        self.register_buffer("factor", torch.tensor(0.3))

    def forward(self, x):
        q, k, v = self.inner(x).chunk(3, -1)
        return torch.softmax(q @ k.mT * self.factor + self.mask, -1) @ v


class Scaled(torch.nn.Module):
    """A scale that is the number of an op, and multiplies."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(24, 24)
        self.register_buffer("integers", torch.randint(-9, 9, (24, 24)).to(torch.int8))
        self.register_buffer("scale", torch.rand(24) + 0.1)
        self.register_buffer("zeros", torch.zeros(24, dtype=torch.int64))

    def forward(self, x):
        quantized = self.integers, self.scale, self.zeros, 0, -128, 127, torch.int8
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(*quantized)
        return F.linear(self.inner(x), weight.to(x.dtype)) * self.scale


# The module, an input's shape, and whether the program stays.
WRITTEN = {
    "products": (lambda: Small(48).eval(), (7, 48), True),
    "products, bf16": (lambda: Small(48).eval().bfloat16(), (7, 48), True),
    "products, autocast": (lambda: Small(48).eval(), (7, 48), True),
    "convolutions": (convolutions, (2, 3, 9, 7), True),
    "channels last": (
        lambda: convolutions().to(memory_format=torch.channels_last),
        (2, 3, 9, 7),
        True,
    ),
    "encoder layer": (attending, (2, 9, 24), True),
    "int8, a scale that is a number": (lambda: Scaled().eval(), (7, 24), False),
    "a mask and a number": (lambda: Masked().eval(), (2, 9, 24), False),
}


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("dynamic", [False, True])
def test_weights_that_are_written_keep_their_plans(name, dynamic):
    from onednn_graph_py.torch.captured import CAPTURED

    make, shape, stays = WRITTEN[name]
    module, other = make(), make()
    dtype = next(module.parameters()).dtype
    narrow = dtype is torch.bfloat16 or "autocast" in name
    if narrow and (why := og.machine.cpu.lacks("bf16")):
        pytest.skip(why)
    run = compiled(module, dynamic=dynamic)
    both = compiled(other, dynamic=dynamic)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled="autocast" in name)
    inputs = [
        torch.randn(n, *shape[1:]).to(dtype) for n in ((shape[0], 5) if dynamic else shape[:1])
    ]
    with torch.no_grad(), autocast:
        kept = [run(x) for x in (*inputs, *inputs)]
        copies = [k.clone() for k in kept]
        wanted_of_other = [both(x) for x in inputs]
        regions = [r.model for c in CAPTURED for p in c.living for r in p.regions]
        for change in (1, 2):
            for i, weight in enumerate(module.state_dict().values()):
                if weight.is_floating_point():
                    weight.add_(torch.rand_like(weight), alpha=0.2 * change)
                    if i == 0 and "mask" in name:
                        weight[:, 1:].fill_(-torch.inf)
            exact = copy.deepcopy(module).double()
            for x in (*inputs, *inputs):
                got, eager = run(x), module(x)
                with torch.autocast("cpu", enabled=False):
                    wanted = exact(x.double())
                scale = float(wanted.abs().max())
                allowed = 3 * float((eager - wanted).abs().max()) + 2e-5 * scale
                assert float((got - wanted).abs().max()) <= allowed
        for x, wanted in zip(inputs, wanted_of_other, strict=True):
            assert torch.equal(both(x), wanted)
    assert all(map(torch.equal, kept, copies))
    after = [r.model for c in CAPTURED for p in c.living for r in p.regions]
    assert (set(map(id, regions)) == set(map(id, after))) == stays


def averaged(module, step):
    """One step of an average of weights over training."""
    for weight in module.parameters():
        weight.data.lerp_(torch.randn_like(weight), 0.1)


def merged(module, step):
    """Add a product of two small matrices to a weight, or take it away again."""
    torch.manual_seed(step // 2)
    change = torch.randn(64, 3) @ torch.randn(3, 32)
    module.first.weight.data += change if step % 2 else -change
    module.second.weight.data += change.t() if step % 2 else -change.t()


def trained(module, step):
    torch.manual_seed(step)
    with torch.enable_grad():
        module(torch.randn(5, 32)).square().mean().backward()
        torch.optim.AdamW(module.parameters(), 0.01).step()


@pytest.mark.parametrize("change", [averaged, merged, trained])
def test_an_evaluation_after_each_change_compiles_and_warns_no_more(change):
    from onednn_graph_py.torch.captured import CAPTURED

    module, run, x = small()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", front.FallbackWarning)
        run(x)
        ((program,),) = [c.living for c in CAPTURED]
        for step in range(6):
            change(module, step)
            close(run(x), module(x))
        assert [c.living for c in CAPTURED] == [[program]]


def test_weights_that_change_at_each_call_become_inputs():
    module, run, x = small()
    with torch.no_grad():
        run(x)
        with pytest.warns(front.FallbackWarning, match="weights changed before 3 calls"):
            for _ in range(6):
                module.first.weight.mul_(0.9)
                close(run(x), module(x))
    (graph,) = front.report(run).graphs
    assert graph.weights_are_inputs


def test_only_weights_that_change_become_inputs():
    module, run, x = small()
    with torch.no_grad(), pytest.warns(front.FallbackWarning, match=r"in a row \(first\.weight\)"):
        for _ in range(6):
            module.first.weight.mul_(0.9)
            close(run(x), module(x))
        for _ in range(2):
            module.second.weight.mul_(0.9)
            close(run(x), module(x))
    from onednn_graph_py.torch.captured import CAPTURED

    (graph,) = CAPTURED
    assert len(graph.static) == 4


def test_a_sample_sees_a_write_to_any_kind_of_tensor():
    from onednn_graph_py.torch.arrays import Sample

    for tensor in (
        torch.randn(3, 4).t(),
        torch.randn(8, 8)[:, ::3],
        torch.randn(7)[1:],
        torch.randn(()),
        torch.randn(500, 300),
        torch.randn(3).to(torch.bfloat16),
        torch.zeros(3, dtype=torch.bool),
    ):
        others = torch.zeros(0, 3), torch.randn(1, 3).expand(5, 3)
        sample = Sample([tensor, *others])
        assert sample.is_same()
        tensor.copy_(tensor + 1)
        assert not sample.is_same()


def test_without_freezing_the_smallest_write_is_seen():
    module = Small(200).eval()
    run = compiled(module, freeze=False)
    x = torch.randn(4, 200)
    with torch.no_grad():
        close(run(x), module(x), 400)
        module.first.weight.data[123, 77] = 50.0
        close(run(x), module(x), 400)


def test_weights_that_are_replaced_at_each_call_become_inputs():
    module, run, x = small()
    with torch.no_grad(), pytest.warns(front.FallbackWarning, match="changed before 3 calls"):
        for _ in range(8):
            module.first.weight = torch.nn.Parameter(torch.randn(64, 32))
            close(run(x), module(x))


def test_weights_that_are_all_replaced_become_inputs_at_once():
    module, run, x = small()
    with torch.no_grad(), pytest.warns(front.FallbackWarning) as told:
        for _ in range(6):
            weights = {name: w + torch.randn_like(w) for name, w in module.state_dict().items()}
            module.load_state_dict(weights, assign=True)
            close(run(x), module(x), 10)
    assert len(told) == 1
    from onednn_graph_py.torch.captured import CAPTURED

    (graph,) = CAPTURED
    assert graph.static == () and len(graph.programs) == 1


def test_weights_that_change_now_and_then_stay_constants():
    module, run, x = small()
    with torch.no_grad():
        for _ in range(6):
            module.first.weight.mul_(0.9)
            for _ in range(2):
                close(run(x), module(x))
    assert not front.report(run).graphs[0].weights_are_inputs


def test_weights_without_versions_are_inputs():
    with torch.inference_mode():
        module, run, x = small()
        with pytest.warns(front.FallbackWarning, match="made in inference mode"):
            close(run(x), module(x))
        module.first.weight.add_(1.0)
        close(run(x), module(x))


def test_layers_of_one_class_share_a_graph_and_have_their_own_constants():
    layers = [Small().eval() for _ in range(5)]
    runs = [compiled(layer) for layer in layers]
    x = torch.randn(4, 32)
    with torch.no_grad():
        for _ in range(2):
            for run, layer in zip(runs, layers, strict=True):
                close(run(x), layer(x))
    assert [g.weights for g in front.report(runs[0]).graphs] == [5]


def test_constants_go_with_their_weights():
    layers = [Small().eval() for _ in range(3)]
    x = torch.randn(4, 32)
    with torch.no_grad():
        for layer in layers:
            compiled(layer)(x)
        kept = compiled(layers[0])
        del layer, layers[1:]
        gc.collect()
        kept(x)
    assert [g.weights for g in front.report(kept).graphs] == [1]


def test_reset_gives_all_back():
    module = Small().eval()
    run = compiled(module)
    with torch.no_grad():
        run(torch.randn(4, 32))
    from onednn_graph_py.torch.captured import CAPTURED

    (graph,) = CAPTURED
    models = [weakref.ref(r.model) for p in graph.living for r in p.regions]
    del graph, run
    torch._dynamo.reset()
    gc.collect()
    assert models and all(m() is None for m in models)


def test_without_freezing_weights_are_inputs():
    module = Small().eval()
    run = compiled(module, freeze=False)
    x = torch.randn(4, 32)
    with torch.no_grad():
        for _ in range(3):
            close(run(x), module(x))
            module.first.weight.add_(1.0)
    from onednn_graph_py.torch.captured import CAPTURED

    (graph,) = CAPTURED
    (program,) = graph.living
    assert [len(r.model.inputs) for r in program.regions] == [6]


# -- shapes


@pytest.mark.parametrize("dynamic", [None, True])
def test_other_shapes(dynamic):
    module = Small().eval()
    run = compiled(module, dynamic=dynamic)
    with torch.no_grad():
        for rows in (3, 5, 1, 7, 2, 5):
            x = torch.randn(2, rows, 32)
            close(run(x), module(x))
    assert len(front.report(run).graphs) <= 3


def test_the_graph_of_the_first_shape_gives_its_memory_back_once(monkeypatch):
    from onednn_graph_py.torch.captured import CAPTURED, Captured

    given = {}
    call = Captured.__call__

    def spied(self, args):
        given.setdefault(self.number, list(args))
        return call(self, args)

    monkeypatch.setattr(Captured, "__call__", spied)
    module = Small().eval()
    run = compiled(module)
    with torch.no_grad():
        for rows in (3, 5, 7):
            x = torch.randn(rows, 32)
            close(run(x), module(x))
        first, second = sorted(CAPTURED, key=lambda c: c.number)
        assert (len(first.programs), len(second.programs)) == (0, 1)
        # If torch calls it again, it makes its program again, and keeps it from now on.
        args = given[first.number]
        (x,) = (a for a in args if a.shape == (3, 32))
        (made,) = first(list(args))
        close(made, module(x))
        module.first.weight.add_(1.0)
        x = torch.randn(7, 32)
        close(run(x), module(x))
    assert (len(first.programs), len(second.programs)) == (1, 1)


def test_no_rows():
    module = Small().eval()
    run = compiled(module, dynamic=True)
    with torch.no_grad():
        for rows in (4, 0, 3):
            x = torch.randn(rows, 32)
            close(run(x), module(x))


@pytest.mark.parametrize("rows", [1, 2])
def test_small_batches(rows):
    module = Small().eval()
    x = torch.randn(rows, 32)
    with torch.no_grad():
        close(compiled(module)(x), module(x))


# -- mutation, aliases, memory formats


def test_input_changed_in_place():
    def function(x, w):
        x.add_(1.0)
        return (x @ w).relu_()

    x, w = torch.randn(8, 16), torch.randn(16, 16)
    other = x.clone()
    with torch.no_grad():
        close(compiled(function)(x, w), function(other, w))
    assert torch.equal(x, other)


def test_buffer_that_counts():
    class Counts(Small):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls.add_(1.0)
            return super().forward(x) * self.calls

    module = Counts().eval()
    other = copy.deepcopy(module)
    run = compiled(module)
    x = torch.randn(4, 32)
    with torch.no_grad():
        for _ in range(5):
            close(run(x), other(x))
    assert float(module.calls) == 5


def test_running_statistics_are_changed_as_often_as_in_torch():
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Conv2d(3, 8, 3)
            self.norms = torch.nn.ModuleList(
                [torch.nn.BatchNorm2d(8), torch.nn.InstanceNorm2d(8, track_running_stats=True)]
            )

        def forward(self, x):
            y = self.first(x)
            return sum(norm(y) + norm(y) for norm in self.norms)

    module = Twice().train()
    other = copy.deepcopy(module)
    run = compiled(module)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", front.FallbackWarning)  # the statistics always change
        for _ in range(5):
            x = torch.randn(2, 3, 9, 9)
            close(run(x), other(x), 1000)
    for mine, theirs in zip(module.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("norm", [torch.nn.BatchNorm2d, torch.nn.InstanceNorm2d])
@pytest.mark.parametrize("by", ["compiled", "eager"])
def test_running_statistics_that_training_moves_are_seen(norm, by):
    layers = torch.nn.Conv2d(3, 8, 3), norm(8, track_running_stats=True), torch.nn.ReLU()
    module = torch.nn.Sequential(*layers).eval()
    run = compiled(module)
    x = torch.randn(2, 3, 9, 9)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", front.FallbackWarning)
        for _ in range(3):
            close(run(x), module(x), 27)
            module.train()
            (run if by == "compiled" else module)(3 * x + 1)
            module.eval()
            close(run(x), module(x), 27)


def test_statistics_are_read_before_and_after_they_move():
    norm = torch.nn.BatchNorm1d(8).train()
    weight = torch.randn(8, 8)

    def function(norm, x):
        before = norm.running_mean + 1.0
        made = norm(x @ weight)
        return before, made, norm.running_mean + 1.0

    other, x = copy.deepcopy(norm), torch.randn(4, 8)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", front.FallbackWarning)
        for got, wanted in zip(compiled(function)(norm, x), function(other, x), strict=True):
            close(got, wanted)


# -- strides and memory of what leaves a region


IMAGE = torch.randn(2, 3, 9, 9).to(memory_format=torch.channels_last)
KERNEL = torch.randn(8, 3, 3, 3)
SQUARE = torch.randn(6, 6)
STRIDES = {
    "transposed": lambda: (SQUARE @ SQUARE).t().add(1.0).as_strided((6, 6), (6, 1)),
    "channels_last": lambda: F.conv2d(IMAGE, KERNEL).relu().as_strided((4, 5), (5, 1)),
    "view": lambda: ((SQUARE @ SQUARE).t() > 0).t().view(-1),
    "view of an image": lambda: (
        (F.conv2d(IMAGE, KERNEL).relu() > 0).permute(0, 2, 3, 1).view(2, -1)
    ),
    "flattened in between": lambda: (SQUARE @ SQUARE).t().relu().sort(0).values.t().reshape(-1),
    "attention": lambda: F.scaled_dot_product_attention(*[SQUARE.view(1, 2, 3, 6)] * 3).as_strided(
        (6, 6), (6, 1)
    ),
}


@pytest.mark.parametrize("name", STRIDES)
def test_what_reads_strides_behind_a_region(name):
    function = STRIDES[name]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", front.FallbackWarning)
        got, wanted = compiled(function, min_ops=1)(), function()
    assert got.stride() == wanted.stride()
    torch.testing.assert_close(got, wanted)


@torch.library.custom_op("onednn_graph_tests::strides", mutates_args=())
def strides_of(x: torch.Tensor) -> torch.Tensor:
    return torch.tensor([*x.stride(), int(x.is_contiguous())])


@strides_of.register_fake
def _(x):
    return x.new_empty(x.ndim + 1, dtype=torch.int64)


def test_custom_ops_see_torchs_strides():
    def function(x, image):
        a, b = (x @ SQUARE).t(), F.conv2d(image, KERNEL).relu()
        return [strides_of(t) for t in (a, a.relu(), a[1:], b, b.mean(1), b[:, 2:])]

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", front.FallbackWarning)
        for got, wanted in zip(
            compiled(function)(SQUARE, IMAGE), function(SQUARE, IMAGE), strict=True
        ):
            assert torch.equal(got, wanted)


def test_results_in_torchs_layout_are_not_copied(monkeypatch):
    from onednn_graph_py.torch import region

    made = []
    tensor_of = region.tensor_of
    monkeypatch.setattr(
        region, "tensor_of", lambda array: made.append(tensor_of(array)) or made[-1]
    )
    with torch.no_grad():
        results = compiled(lambda x: (x.relu() @ x, (x @ x).t()))(SQUARE)
    assert {r.data_ptr() for r in results} == {m.data_ptr() for m in made}


@pytest.mark.parametrize("dynamic", [None, True])
def test_results_share_memory_as_in_torch(dynamic):
    def function(x):
        y = x @ SQUARE
        parts = y.split(2, 1)
        z = y.relu()
        table = torch.arange(4.0)
        return y, y.t(), y[1:], y.view(2, -1), parts[1], z, z + 0, z[0], table, table.view(2, 2)

    with torch.no_grad():
        got, wanted = compiled(function, dynamic)(SQUARE), function(SQUARE)
        for i in (0, 5, 6, 8):
            for results in (got, wanted):
                results[i].add_(1.0)
            for mine, theirs in zip(got, wanted, strict=True):
                close(mine, theirs)


def test_a_result_whose_view_has_its_own_sizes_is_computed_once():
    """Torch reads the sizes of the view before it; they followed from a second product."""

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(3))

        def forward(self, x):
            y = x @ self.weight
            rows = y.reshape(-1, 7)
            same = rows.flatten(0, 1).unflatten(0, rows.shape[:2])
            return y, same, same.relu()

    module = Module()
    run = torch.compile(module, backend="onednn_graph", dynamic=True)
    for batch in (4, 5, 0):
        x = torch.rand(batch, 6, 7, 3)
        with torch.no_grad():
            got, wanted = run(x), module(x)
        assert got[0].data_ptr() == got[1].data_ptr()
        for mine, theirs in zip(got, wanted, strict=True):
            close(mine, theirs)


def test_equal_results_are_separate_memory():
    def function(x):
        return (x @ SQUARE).relu(), (x @ SQUARE).relu()

    with torch.no_grad():
        one, other = compiled(function)(SQUARE)
        one.zero_()
        close(other, function(SQUARE)[1])


DRAWS = {
    "randn_like": torch.randn_like,
    "rand_like": torch.rand_like,
    "dropout": lambda x: F.dropout(x, 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "bernoulli": lambda x: torch.bernoulli(torch.full_like(x, 0.5)),
    "normal": lambda x: torch.normal(x, 1.0),
    "rrelu": lambda x: F.rrelu(x - 9.0, training=True),
    "randint_like": lambda x: torch.randint_like(x, 1000),
    "multinomial": lambda x: torch.multinomial(torch.ones(6, 99), 6).float(),
    "exponential": lambda x: x.clone().exponential_(),
    "in a branch": lambda x: torch.cond(
        x.sum() > -99, lambda y: y + torch.rand_like(y), lambda y: y - 1.0, (x,)
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_two_draws_differ(name):
    draw = DRAWS[name]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", front.FallbackWarning)
        one, other = compiled(lambda x: (x @ SQUARE + draw(x), x @ SQUARE + draw(x)))(SQUARE)
    assert not torch.equal(one, other)


@torch.library.custom_op("onednn_graph_tests::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    COUNTED.append(1)
    return x + len(COUNTED)


@counted.register_fake
def _(x):
    return torch.empty_like(x)


COUNTED = []


def test_equal_calls_of_others_ops_are_both_made():
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", front.FallbackWarning)
        one, other = compiled(lambda x: (counted(x) @ SQUARE, counted(x) @ SQUARE))(SQUARE)
    assert not torch.equal(one, other)


def test_an_input_of_any_strides_is_reshaped():
    """What torch copies for some strides, and views for others, is no view of the input."""
    run = compiled(lambda x: (x.reshape(-1, 3), x.reshape(-1, 3).unsqueeze(0)))
    row_major = torch.arange(168.0).reshape(7, 4, 2, 3)
    for x in (row_major, torch.randn(3, 2, 4, 8).permute(3, 2, 1, 0), torch.randn(9, 4, 2, 3)):
        with torch.no_grad():
            got, behind = run(x)
        assert torch.equal(got, x.reshape(-1, 3))
        assert torch.equal(behind[0], got)


def test_output_is_a_view_of_the_input():
    def function(x, w):
        return x.view(-1), (x @ w).t(), x

    x, w = torch.randn(8, 16), torch.randn(16, 16)
    with torch.no_grad():
        flat, product, same = compiled(function)(x, w)
    assert flat.data_ptr() == x.data_ptr() and same is x
    close(product, (x @ w).t(), 16)


def test_results_are_new_memory_at_each_call():
    module = Small().eval()
    run = compiled(module)
    with torch.no_grad():
        first = run(torch.ones(4, 32))
        kept = first.clone()
        run(torch.zeros(4, 32))
    assert torch.equal(first, kept)


@pytest.mark.parametrize("change", ["transposed", "strided", "expanded", "channels_last"])
def test_inputs_that_are_not_row_major(change):
    if change == "channels_last":
        module = torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU()).eval()
        x = torch.randn(2, 8, 9, 9).to(memory_format=torch.channels_last)
    else:
        module = Small().eval()
        x = {
            "transposed": torch.randn(32, 4).t(),
            "strided": torch.randn(8, 64)[::2, ::2],
            "expanded": torch.randn(1, 32).expand(4, 32),
        }[change]
    with torch.no_grad():
        got, wanted = compiled(module)(x), module(x)
    close(got, wanted, 72)
    assert got.stride() == wanted.stride()


def test_bf16_and_autocast():
    if why := og.machine.cpu.lacks("bf16"):
        pytest.skip(why)
    module = Small().eval()
    x = torch.randn(4, 32)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        got, wanted = compiled(module)(x), module(x)
    assert got.dtype == wanted.dtype
    assert float((got - wanted).abs().max()) <= 64**0.5 * 2**-8 * float(wanted.abs().max())


# -- what oneDNN does not take


def test_gradients_are_left_to_torch_with_one_warning():
    module = Small()
    run = compiled(module)
    x = torch.randn(4, 32)
    with pytest.warns(front.FallbackWarning, match="gradients are on"):
        made = run(x)
    made.sum().backward()
    assert module.first.weight.grad is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(x)


def test_one_warning_for_all_graphs_that_gradients_keep_in_torch():
    class Branch(Small):
        def forward(self, x):
            with torch.no_grad():
                torch._dynamo.graph_break()
                hidden = super().forward(x)
            return super().forward(hidden) * 2

    module = Branch().eval()
    run = compiled(module)
    with pytest.warns(front.FallbackWarning) as told:
        for rows in (7, 5, 9):
            x = torch.randn(rows, 32)
            close(run(x).detach(), module(x).detach())
    assert len([w for w in told if "gradients are on" in str(w.message)]) == 1


DERIVATIVES = {
    "grad": lambda f, x: torch.func.grad(lambda y: f(y).sum())(x),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,))[1],
    "hessian": lambda f, x: torch.func.hessian(lambda y: f(y).square().sum())(x),
    "grad of each row": lambda f, x: torch.vmap(torch.func.grad(lambda y: f(y).sum()))(x[None]),
    "vmap": lambda f, x: torch.vmap(f)(x.expand(3, 2, -1)),
}


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # torch's own call
@pytest.mark.parametrize("name", DERIVATIVES)
def test_transforms_of_functions_are_those_of_torch(name):
    layers = torch.nn.Linear(7, 11), torch.nn.GELU(), torch.nn.Linear(11, 7)
    module = torch.nn.Sequential(*layers).eval().requires_grad_(False)
    x = torch.randn(7)
    with torch.no_grad():
        got = compiled(lambda x: DERIVATIVES[name](module, x))(x)
        wanted = DERIVATIVES[name](copy.deepcopy(module).double(), x.double())
    close(got, wanted.float(), 11)


def test_double_precision_stays_in_torch():
    module = Small().double().eval()
    run = compiled(module)
    x = torch.randn(4, 32, dtype=torch.float64)
    with torch.no_grad(), pytest.warns(front.FallbackWarning, match="0% of the arithmetic"):
        assert torch.equal(run(x), module(x))
    (graph,) = front.report(run).graphs
    assert {one.why for one in graph.left} == {"oneDNN has no float64"}


def test_error_instead_of_fallback_lists_all():
    def function(x):
        return torch.relu(x.sort(dim=-1).values).cumsum(-1)

    run = compiled(function, fallback="error")
    with torch.no_grad(), pytest.raises(og.UnimplementedError) as caught:
        run(torch.randn(4, 32))
    text = str(caught.value)
    assert "aten.sort" in text and "aten.cumsum" in text and "test_torch.py" in text


@pytest.mark.parametrize(
    "options, text",
    [
        ({"fallbak": "eager"}, "did you mean 'fallback'"),
        ({"fallback": "inductor"}, "option fallback must be one of 'eager', 'error'"),
        ({"min_ops": 0}, "option min_ops must be a whole number, at least 1"),
        ({"threads": True}, "option threads"),
        ({"freeze": "yes"}, "option freeze"),
    ],
)
def test_wrong_options(options, text):
    run = torch.compile(Small().eval(), backend="onednn_graph", options=options)
    with torch.no_grad(), pytest.raises(Exception, match=text):
        run(torch.randn(4, 32))


def test_modes_change_nothing():
    module, x = Small().eval(), torch.randn(4, 32)
    run = torch.compile(module, backend="onednn_graph", mode="max-autotune")
    with torch.no_grad(), pytest.warns(UserWarning, match="'max-autotune' changes nothing"):
        close(run(x), module(x))
    with pytest.raises(og.InvalidArgumentsError, match=r"one of 'default', .* got 'fastest'"):
        front.backend(torch.fx.GraphModule({}, torch.fx.Graph()), [], mode="fastest")


def test_one_warning_for_all_parts_of_a_function():
    def function(x):
        x = x.double() @ x.double()
        torch._dynamo.graph_break()
        x = x @ x.t()
        torch._dynamo.graph_break()
        return x @ x

    with torch.no_grad(), pytest.warns(front.FallbackWarning) as warned:
        compiled(function)(torch.randn(4, 4))
    assert len([w for w in warned if "of the arithmetic" in str(w.message)]) == 1
    assert len(front.report().graphs) == 3


def test_no_warning_for_a_graph_of_masks_and_positions():
    def function(x):
        hidden = (torch.arange(x.shape[1]) > x[0].argmax()).double() * -4
        torch._dynamo.graph_break()
        return (x @ SQUARE[: x.shape[1]]).relu() + hidden.float().sum()

    x = torch.randn(3, 4)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", front.FallbackWarning)
        close(compiled(function)(x), function(x))
    assert [g.share > 0.5 for g in front.report().graphs] == [False, True]


def test_report_of_a_module_that_replaces_its_buffer():
    class Remembers(Small):
        def forward(self, x):
            made = super().forward(x)
            self.shift = made.mean(0).detach()
            return made

    module = Remembers().eval()
    other, run = copy.deepcopy(module), compiled(module)
    with torch.no_grad(), pytest.warns(front.FallbackWarning, match=r"\(shift\)"):
        for i in range(6):
            x = torch.randn(4, 32)
            close(run(x), other(x))
            assert front.report(run).graphs, i
    assert front.report(run).graphs[0].share == 1.0


def test_report_names_recurrent_layers():
    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.LSTM(8, 8)

        def forward(self, x):
            return self.inner(x)[0].relu()

    run = compiled(Recurrent().eval())
    with torch.no_grad():
        run(torch.randn(3, 2, 8))
    assert front.report(run).recurrent == ("inner",)
    assert "in torch, with the functions that call them: inner" in front.report(run).details
    assert "in torch: inner (recurrent)" in str(front.report(run))


def test_random_calls_stay_random():
    def function(x, w):
        return (x + torch.rand(4, 32)) @ w

    run = compiled(function)
    x, w = torch.zeros(4, 32), torch.eye(32)
    with torch.no_grad():
        assert not torch.equal(run(x, w), run(x, w))


def test_calls_from_threads():
    _, run, x = small()
    with torch.no_grad():
        wanted = run(x)
    results = []

    def work(_):
        with torch.no_grad():
            results.extend(run(x) for _ in range(20))

    in_threads(4, work)
    assert len(results) == 80 and all(torch.equal(r, wanted) for r in results)


def test_a_forked_child_gets_the_same_results():
    program = """
import os, signal, warnings, torch
module = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
run, x = torch.compile(module.eval(), backend="onednn_graph"), torch.randn(64, 256)
with torch.no_grad():
    wanted = run(x)
    child = os.fork()
    if child == 0:
        signal.alarm(120)  # ends the child if it hangs
        warnings.simplefilter("ignore")  # that it has one thread
        os._exit(0 if torch.allclose(run(x), wanted, atol=1e-5) else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert torch.equal(run(x), wanted)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=120)
    assert done.returncode == 0


# -- attention, repeated heads, padding


def test_repeated_heads_are_not_repeated():
    def function(q, k, v):
        k, v = (t[:, :, None].expand(2, 2, 3, 5, 16).reshape(2, 6, 5, 16) for t in (k, v))
        return F.scaled_dot_product_attention(q, k, v)

    q, k, v = torch.randn(2, 6, 5, 16), torch.randn(2, 2, 5, 16), torch.randn(2, 2, 5, 16)
    run = compiled(function)
    with torch.no_grad():
        close(run(q, k, v), function(q, k, v))
    from onednn_graph_py.torch.captured import CAPTURED

    (graph,) = CAPTURED
    assert not any("expand" in str(n.target) for n in graph.graph.nodes)


def test_left_padding_makes_no_nan():
    def function(q, mask):
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    q, mask = torch.randn(2, 4, 8, 16), torch.ones(8, 8, dtype=torch.bool).tril()
    mask = mask[None, None].repeat(2, 1, 1, 1)
    mask[0, :, :, :3] = False
    with torch.no_grad():
        close(compiled(function)(q, mask), function(q, mask))


def test_padding_goes_into_the_convolution():
    module = torch.nn.Conv2d(3, 8, 3, stride=2).eval()

    def function(x):
        return torch.relu(module(F.pad(x, (0, 1, 0, 1))))

    x = torch.randn(1, 3, 16, 16)
    run = compiled(function)
    with torch.no_grad():
        close(run(x), function(x))
    (graph,) = front.report(run).graphs
    assert not graph.left


def test_root_mean_square_is_one_op_where_there_is_one():
    class Norm(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(32))

        def forward(self, x):
            wide = x.to(torch.float32)
            wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * wide.to(x.dtype)

    module = Norm().eval()
    x = torch.randn(4, 32)
    with torch.no_grad():
        run = compiled(module)
        close(run(x), module(x))
    (region,) = front.report(run).graphs[0].regions
    ops = [kind for step in region.steps for kind in step.ops]
    assert ("RMSNorm" in ops) == (linked_version() >= (3, 11))


# -- export


class Encoder(torch.nn.Module):
    def __init__(self, mask=None) -> None:
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.register_buffer("mask", mask)

    def forward(self, x, hidden):
        return self.layer(x, src_mask=self.mask, src_key_padding_mask=hidden)


class StaticCache(torch.nn.Module):
    """Attention over keys that are kept, written as static caches of transformers are."""

    def __init__(self):
        super().__init__()
        self.taken = torch.nn.Linear(24, 24)
        self.register_buffer("keys", torch.zeros(1, 2, 16, 12))

    def forward(self, x, places):
        fresh = self.taken(x).view(1, -1, 2, 12).transpose(1, 2)
        self.keys.index_copy_(2, places, fresh)
        seen = torch.arange(16) <= places[:, None]
        made = F.scaled_dot_product_attention(fresh, self.keys, self.keys, attn_mask=seen)
        return made.transpose(1, 2).reshape(x.shape)


def test_a_cache_that_is_written_at_places_needs_no_split():
    module, other = StaticCache().eval(), StaticCache().eval()
    other.load_state_dict(module.state_dict())
    run = compiled(other)
    with torch.no_grad():
        for places in ([0, 1, 2, 3, 4], [5], [6]):
            x = torch.randn(1, len(places), 24)
            at = torch.tensor(places)
            torch.testing.assert_close(run(x, at), module(x, at), rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(other.keys, module.keys, rtol=1e-5, atol=1e-5)
    for graph in front.report(run).graphs:
        assert [r.failure for r in graph.regions] == [None]


CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask(8)


@pytest.mark.parametrize(
    "mask, keys",
    [(None, True), (CAUSAL, False), (CAUSAL.isinf(), False), (CAUSAL.isinf(), True)],
    ids=["keys", "f32", "boolean", "both"],
)
def test_masks_of_encoder_layers(mask, keys):
    module, x = Encoder(mask).eval(), torch.randn(2, 8, 32)
    hidden = torch.zeros(2, 8, dtype=torch.bool) if keys else None
    run = compiled(module)
    with torch.no_grad():
        for first in (5, 3, 0) if keys else (0,):
            if keys:
                hidden[1, first:] = True  # at last all: NaN, as in torch
            got, wanted = run(x, hidden), module(x, hidden)
            torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-5, equal_nan=True)
    (graph,) = front.report(run).graphs
    assert "aten._transformer_encoder_layer_fwd.default" not in {one.op for one in graph.left}


def test_masks_with_other_numbers_stay_in_torch():
    module, x = Encoder(CAUSAL.clamp(min=-1.0)).eval(), torch.randn(2, 8, 32)
    run = compiled(module)
    with torch.no_grad(), pytest.warns(front.FallbackWarning, match="0% of the arithmetic"):
        assert torch.equal(run(x, None), module(x, None))
    (graph,) = front.report(run).graphs
    assert "its mask may have other numbers than 0 and -inf" in {one.why for one in graph.left}


def test_exported_model_needs_no_torch(tmp_path):
    module = torch.nn.Sequential(torch.nn.Embedding(9, 32), Small()).eval()
    x = torch.arange(8).reshape(2, 4)
    rows, columns = (torch.export.Dim(n, min=2, max=9) for n in ("rows", "columns"))
    model = front.export(module, (x,), dynamic_shapes=({0: rows, 1: columns},))
    path = tmp_path / "model.pickle"
    path.write_bytes(pickle.dumps(model))
    np.save(tmp_path / "x.npy", x.numpy())
    program = (
        "import pickle, sys, numpy as np\n"
        "sys.modules['torch'] = None  # as where it is not installed\n"
        f"model = pickle.loads(open({str(path)!r}, 'rb').read())\n"
        f"y = model(np.load({str(tmp_path / 'x.npy')!r}))\n"
        f"np.save({str(tmp_path / 'y.npy')!r}, y)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    with torch.no_grad():
        close(torch.from_numpy(np.load(tmp_path / "y.npy")), module(x))


def test_exported_model_has_host_steps_and_unknown_dims():
    class Looks(Small):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(10, 32)

        def forward(self, ids):
            y = super().forward(self.table(ids + 1))
            return y.view(y.shape[0], y.shape[1], 4, -1)

    module = Looks().eval()
    rows, tokens = (torch.export.Dim(n, min=2, max=64) for n in ("rows", "tokens"))
    example = torch.arange(16).reshape(2, 8) % 9
    model = front.export(module, (example,), dynamic_shapes=({0: rows, 1: tokens},))
    with torch.no_grad():
        for n in (3, 8, 9):
            ids = torch.arange(3 * n).reshape(3, n) % 9
            close(torch.from_numpy(model(ids.numpy())), module(ids))


class Product(torch.nn.Module):
    def forward(self, x, y):
        return x @ y


class Sums(torch.nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.gelu(x) + y


def test_an_export_is_compared_with_its_module(monkeypatch):
    from onednn_graph_py.torch import exported

    sizes, call = [], Product.forward
    monkeypatch.setattr(
        Product, "forward", lambda self, x, y: sizes.append(tuple(x.shape)) or call(self, x, y)
    )
    dim = torch.export.Dim("rows", min=2, max=12)
    x, y = torch.randn(7, 5), torch.randn(5, 3)
    given = {"dynamic_shapes": ({0: dim}, None), "check": True}
    front.export(Product(), (x, y), **given)
    assert sizes[-3:] == [(7, 5), (11, 5), (4, 5)]
    nothing = Product()
    nothing.forward = lambda x, y: (x @ y, x[:0])
    front.export(nothing, (x, y), check=True)
    traced = exported._traced

    def wrong(*args):
        made = traced(*args)
        (name, value), *_ = made.builder.outputs.items()
        made.builder.contents.outputs[name] = value * 1.01
        return made

    monkeypatch.setattr(exported, "_traced", wrong)
    with pytest.raises(og.InvalidGraphError, match=r"result 0 differs .* for \(7, 5\), \(5, 3\)"):
        front.export(Product(), (x, y), **given)


class Branches(torch.nn.Module):
    """Asks for sizes: an even one, a least one, and two that are alike."""

    def forward(self, x, y):
        x = x.view(x.shape[0] * 2, -1) if x.shape[1] % 2 == 0 else x.flatten(1)
        return x.relu(), y + 1 if y.shape[0] > 3 else y - 1, x.sum(0) * y.sum()


class Steps(torch.nn.Module):
    def forward(self, x, y):
        return torch.nn.functional.pad(x, (1, 1)).unfold(-1, 3, 2) * y


ANY = torch.export.Dim.AUTO
SOME = torch.export.Dim("some", min=3, max=9)
CONDITIONS = {
    "a branch": (
        Branches(), ((3, 4), (5,)), ({0: ANY, 1: ANY}, {0: ANY}),
        [((7, 6), (4,)), ((3, 5), (4,)), ((2, 8), (2,)), ((2, 2), (9,))],
    ),
    "equal sizes": (
        Sums(), ((3, 4), (3, 4)), ({0: ANY, 1: ANY}, {0: ANY, 1: ANY}),
        [((2, 5), (2, 5)), ((2, 5), (1, 5)), ((7, 3), (7, 4))],
    ),
    "limits": (
        Sums(), ((4, 8), (4, 1)), ({0: SOME, 1: 2 * SOME}, {0: SOME}),
        [((5, 10), (5, 1)), ((5, 9), (5, 1)), ((10, 20), (10, 1)), ((2, 4), (2, 1))],
    ),
    "a quotient": (
        Steps(), ((4, 9), (3,)), ({0: ANY, 1: ANY}, None),
        [((5, 6), (3,)), ((7, 2), (3,)), ((1, 12), (3,))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_an_export_takes_the_sizes_that_its_program_takes(name, tmp_path):
    module, given, unknown, others = CONDITIONS[name]
    given = tuple(map(torch.randn, given))
    program = torch.export.export(module, given, dynamic_shapes=unknown).module()
    model = front.export(module, given, dynamic_shapes=unknown, check=True)
    model.save(tmp_path / "model")
    models = [model, pickle.loads(pickle.dumps(model)), og.load(tmp_path / "model")]
    refused = 0
    for inputs in (tuple(map(torch.randn, shapes)) for shapes in others):
        try:
            wanted = program(*inputs)
        except AssertionError:
            refused += 1
            for one in models:
                with pytest.raises(og.InvalidShapeError, match=r"is for .*[xy]\.shape\[\d\].* got"):
                    one(*(x.numpy() for x in inputs))
            continue
        for one in models:
            made = one(*(x.numpy() for x in inputs))
            torch.testing.assert_close(
                tuple(map(torch.from_numpy, made if isinstance(made, tuple) else (made,))),
                wanted if isinstance(wanted, tuple) else (wanted,),
            )
    assert 0 < refused < len(others)


def test_trace_explains_and_lists_what_it_lacks():
    builder = front.trace(Small().eval(), (torch.randn(4, 32),))
    assert isinstance(builder, og.GraphBuilder) and len(builder.inputs) == 1

    class Medians(torch.nn.Module):
        def forward(self, x):
            return x.median(dim=-1).values

    with pytest.raises(og.InvalidGraphError, match=r"aten\.median"):
        front.trace(Medians(), (torch.randn(4, 4),))


# -- leaks

LEAKS = """
import gc, torch
import onednn_graph_py as og
from onednn_graph_py import torch as front
og.set_compiled_partition_cache_capacity(4), og.set_primitive_cache_capacity(4)
module = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU()).eval()
x = torch.ones(4, 32)
once = torch.compile(module, backend="onednn_graph")
# torch leaves 17 kB of each export itself, so there is only one.
program = torch.export.export(module, (x,)).run_decompositions({})
program.run_decompositions = lambda table: program
torch.export.export = lambda *_, **__: program

@torch.no_grad()
def calls():
    assert once(x).shape == x.shape

@torch.no_grad()
def exports():
    front.export(module, (x,))(x.numpy())
    og.clear_caches()
"""


@pytest.mark.skipif(leaks.missing() is not None, reason=str(leaks.missing()))
def test_nothing_is_left_behind():
    assert leaks.grown_by(LEAKS, calls=(50, 0), exports=(20, 2)) == []
