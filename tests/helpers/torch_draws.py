"""Random modules of torch with uneven arguments, whose results eager mode judges.

``python torch_draws.py COUNT [FIRST]`` tests as many, and prints what is wrong.
"""

import copy
import random
import warnings
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import torch
import torch._dynamo
from front_end_draws import LARGEST, ROUNDING, main
from functorch.compile import make_boxed_func
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd

from onednn_graph_py.torch import arrays  # registers the backend

F = nn.functional
Values = list[Tensor]
Step = Callable[["Drawn", Values], "Tensor | Sequence[Tensor]"]


class Drawn(nn.Module):
    """A module that runs steps, each of which adds results to a list of values.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        torch.manual_seed(seed)
        self.weights = nn.ParameterList()
        self.norms = nn.ModuleList()
        self.steps: list[Step] = []
        self.returned: list[int] = []
        self.inputs: Values = []

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            made = step(self, values)
            values.extend([made] if isinstance(made, Tensor) else made)
        return tuple(values[i] for i in self.returned)

    def weight(self, *shape: int) -> int:
        """Return the number of a parameter, now and then of one that is there."""
        for i, p in enumerate(self.weights):
            if tuple(p.shape) == shape and self.chance.random() < 0.5:
                return i
        self.weights.append(nn.Parameter(torch.rand(shape) * 2 - 1))
        return len(self.weights) - 1


def tensor(chance: random.Random, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Make an input: row-major, transposed, with gaps, expanded or in the middle of another."""

    def numbers(*sizes: int) -> Tensor:
        return (torch.rand(sizes) * 4 - 2).to(dtype)

    how = chance.choice(("plain", "plain", "permuted", "gaps", "expanded", "part", "channels"))
    if how == "permuted" and len(shape) > 1:
        order = chance.sample(range(len(shape)), len(shape))
        back = [order.index(i) for i in range(len(shape))]
        return numbers(*(shape[i] for i in order)).permute(back)
    if how == "gaps":
        return numbers(*shape[:-1], 2 * shape[-1])[..., ::2]
    if how == "expanded":
        axis = chance.randrange(len(shape))
        return numbers(*(1 if i == axis else d for i, d in enumerate(shape))).expand(shape)
    if how == "part":
        return numbers(shape[0] + 3, *shape[1:])[2:-1]
    made = numbers(*shape)
    if how == "channels" and len(shape) == 4:
        return made.contiguous(memory_format=torch.channels_last)
    return made


# -- steps: each draws from the values that there are, and returns what makes further ones


def _linear(m: Drawn, values: Values, i: int) -> Step | None:
    wide = m.chance.randint(1, 7)
    if not values[i].ndim:
        return None
    w = m.weight(wide, values[i].shape[-1])
    b = m.weight(wide) if m.chance.random() < 0.6 else None
    return lambda m, v: F.linear(v[i], m.weights[w], None if b is None else m.weights[b])


def _matmul(m: Drawn, values: Values, i: int) -> Step | None:
    shape = values[i].shape
    if len(shape) < 2:
        return None
    how = m.chance.choice(("mT", "weights", "self", "other"))
    if m.chance.random() < 0.15:
        vector = m.weight(shape[-1])
        return lambda m, v: v[i] @ m.weights[vector]
    if how == "self":
        return lambda m, v: v[i].mT @ v[i]
    others = [j for j, o in enumerate(values) if o.ndim == 2 and o.shape[-1] == shape[-1]]
    if how == "other" and others:
        j = m.chance.choice(others)
        return lambda m, v: v[i] @ v[j].T
    w = m.weight(*((3, shape[-1]) if how == "mT" else (shape[-1], 3)))
    if how == "mT":
        return lambda m, v: v[i] @ m.weights[w].mT
    return lambda m, v: v[i] @ m.weights[w]


def _window(m: Drawn, space: Sequence[int]) -> tuple[list[int], dict[str, Any]]:
    kernel = [m.chance.randint(1, min(3, d)) for d in space]
    stride = [m.chance.randint(1, 2) for _ in space]
    padding = [m.chance.randint(0, k // 2) for k in kernel]
    return kernel, {"stride": stride, "padding": padding}


def _conv(m: Drawn, values: Values, i: int) -> Step | None:
    x = values[i]
    alone = m.chance.random() < 0.2  # without a batch
    n = x.ndim - 1 if alone else x.ndim - 2
    if n not in (1, 2, 3):
        return None
    channels = x.shape[-n - 1]
    groups = m.chance.choice([d for d in range(1, channels + 1) if channels % d == 0])
    kernel, window = _window(m, x.shape[-n:])
    window["dilation"] = [m.chance.randint(1, 2) for _ in kernel]
    made = groups * m.chance.randint(1, 3)
    up = m.chance.random() < 0.3
    w = m.weight(*((channels, made // groups) if up else (made, channels // groups)), *kernel)
    b = m.weight(made) if m.chance.random() < 0.5 else None
    call = getattr(F, f"conv{'_transpose' * up}{n}d")
    if up:
        window["output_padding"] = [m.chance.randint(0, s - 1) for s in window["stride"]]
    return lambda m, v: call(
        v[i], m.weights[w], None if b is None else m.weights[b], groups=groups, **window
    )


def _pool(m: Drawn, values: Values, i: int) -> Step | None:
    n = values[i].ndim - 2
    if n not in (1, 2, 3):
        return None
    kernel, window = _window(m, values[i].shape[2:])
    window["ceil_mode"] = m.chance.random() < 0.4
    kind = m.chance.choice(("max_pool", "avg_pool", "adaptive_avg_pool"))
    if kind == "adaptive_avg_pool":
        size = [m.chance.randint(1, d) for d in values[i].shape[2:]]
        return lambda m, v: getattr(F, f"adaptive_avg_pool{n}d")(v[i], size)
    if kind == "max_pool":
        window["dilation"] = [m.chance.randint(1, 2) for _ in kernel]
    else:
        window["count_include_pad"] = m.chance.random() < 0.5
        if n > 1 and m.chance.random() < 0.2:
            window["divisor_override"] = 3
    return lambda m, v: getattr(F, f"{kind}{n}d")(v[i], kernel, **window)


def _norm(m: Drawn, values: Values, i: int) -> Step | None:
    shape = values[i].shape
    if len(shape) < 2:
        return None
    channels = shape[1]
    kind = m.chance.choice(("batch", "batch", "layer", "group", "rms"))
    made: nn.Module
    if kind == "batch":
        if len(shape) > 5:
            return None
        made = getattr(nn, f"BatchNorm{max(1, len(shape) - 2)}d")(
            channels, eps=1e-2, momentum=0.3, affine=m.chance.random() < 0.7
        )
        made.running_mean.uniform_(-1, 1)
        made.running_var.uniform_(0.5, 2)
    elif kind == "group":
        groups = m.chance.choice([d for d in range(1, channels + 1) if channels % d == 0])
        made = nn.GroupNorm(groups, channels, eps=1e-2)
    else:
        inner = shape[-m.chance.randint(1, len(shape) - 1) :]
        affine = m.chance.random() < 0.7
        made = (nn.LayerNorm if kind == "layer" else nn.RMSNorm)(
            tuple(inner), eps=1e-2, elementwise_affine=affine
        )
    for p in made.parameters():
        nn.init.uniform_(p, -1, 1)
    m.norms.append(made)
    at = len(m.norms) - 1
    return lambda m, v: m.norms[at](v[i])


def _unary(m: Drawn, values: Values, i: int) -> Step | None:
    dim = m.chance.randrange(-values[i].ndim, values[i].ndim) if values[i].ndim else 0
    kinds: list[Callable[[Tensor], Tensor]] = [
        torch.relu, torch.sigmoid, torch.tanh, torch.exp, torch.abs, torch.neg, torch.erf,
        torch.square, torch.sin, F.silu, F.mish, F.softplus, F.hardswish, F.hardsigmoid, F.relu6,
        F.selu, F.logsigmoid, F.softsign,
        lambda x: F.gelu(x, approximate="tanh"), F.gelu,
        lambda x: F.leaky_relu(x, 0.3), lambda x: F.elu(x, 0.7), lambda x: F.hardtanh(x, -0.3, 0.8),
        lambda x: torch.clamp(x, min=-0.4), lambda x: torch.clamp(x, max=0.9),
        lambda x: F.softmax(x, dim), lambda x: F.log_softmax(x, dim),
        lambda x: torch.cumsum(x, dim),
        lambda x: torch.rsqrt(x.abs() + 0.5), lambda x: torch.log1p(x.abs()),
        lambda x: torch.pow(x, 3), lambda x: 2.0 - x * 0.7, lambda x: 1.5 / (x.abs() + 1),
    ]  # fmt: skip
    kind = m.chance.choice(kinds)
    return lambda m, v: kind(v[i])


def _binary(m: Drawn, values: Values, i: int) -> Step | None:
    shape = values[i].shape
    alpha = m.chance.choice((1, 1, 0.5, -2))
    kind: Callable[[Tensor, Tensor], Tensor] = m.chance.choice(
        (
            lambda a, b: torch.add(a, b, alpha=alpha),
            lambda a, b: torch.sub(a, b, alpha=alpha),
            torch.mul,
            lambda a, b: a / (b.abs() + 0.5),
            torch.maximum,
            torch.minimum,
            lambda a, b: torch.where(b > 0, a, b),
            lambda a, b: a.masked_fill(b.expand_as(a) > 0.3, 0.25) if b.ndim <= a.ndim else a,
            lambda a, b: torch.addcmul(a, a, b, value=0.5),
            lambda a, b: torch.lerp(a, b, 0.3) if a.shape == b.shape else a * b,
        )
    )
    alike = [j for j, o in enumerate(values) if o.shape == shape and j != i]
    swap = m.chance.random() < 0.4
    if alike and m.chance.random() < 0.5:
        j = m.chance.choice(alike)
        return lambda m, v: kind(v[j], v[i]) if swap else kind(v[i], v[j])
    dims = [d if m.chance.random() < 0.6 else 1 for d in shape]
    w = m.weight(*dims[m.chance.randint(0, len(dims)) if m.chance.random() < 0.4 else 0 :])
    return lambda m, v: kind(m.weights[w], v[i]) if swap else kind(v[i], m.weights[w])


def _reduce(m: Drawn, values: Values, i: int) -> Step | None:
    rank = values[i].ndim
    if not rank:
        return None
    dims = m.chance.sample(range(rank), m.chance.randint(1, rank))
    dims = [d - rank if m.chance.random() < 0.4 else d for d in dims]
    keep = m.chance.random() < 0.5
    kind = m.chance.choice((torch.sum, torch.mean, torch.amax, torch.amin, torch.var, torch.norm))
    if kind is torch.norm:
        order = m.chance.choice((1, 2, 2, 3))
        return lambda m, v: torch.linalg.vector_norm(v[i], order, dims, keep)
    if kind is torch.var:
        less = m.chance.choice((0, 0.5))
        return lambda m, v: torch.var(v[i], dims, correction=less, keepdim=keep)
    return lambda m, v: kind(v[i], dim=dims, keepdim=keep)


def _view(m: Drawn, values: Values, i: int) -> Step | None:
    x = values[i]
    rank, pick = x.ndim, m.chance
    if not rank:
        return None
    a, b = pick.randrange(rank), pick.randrange(rank)
    order = pick.sample(range(rank), rank)
    at = pick.randrange(-x.shape[a], x.shape[a]) if x.shape[a] else 0
    low = pick.randint(0, x.shape[a] // 2)
    step = pick.randint(1, 2)
    kinds: list[Callable[[Tensor], Tensor | Sequence[Tensor]]] = [
        lambda x: x.transpose(a, b),
        lambda x: x.permute(order),
        lambda x: x.flatten(min(a, b), max(a, b)),
        lambda x: x.unsqueeze(a),
        lambda x: x.squeeze(a),
        lambda x: x.select(a, at),
        lambda x: x.narrow(a, low, x.shape[a] - low),
        lambda x: x[(slice(None),) * a + (slice(low, None, step),)],
        lambda x: x.reshape(-1, x.shape[-1]),
        lambda x: x.expand(2, *x.shape),
        lambda x: x.chunk(2, a),
        lambda x: x.flip(a),
        lambda x: x.roll(1, a),
        lambda x: x.roll((at, -low), (a, b)),
        lambda x: F.glu(x, a),
        lambda x: F.pixel_shuffle(x, 2),
        lambda x: F.pixel_unshuffle(x, 2),
        lambda x: x.view(x.shape[0] * 2, -1) if x.shape[-1] % 2 == 0 else x.flatten(1),
        lambda x: x.flatten(0, 1).unflatten(0, x.shape[:2]),
        lambda x: torch.cat([x, x.neg()], a),
        lambda x: torch.stack([x, x + 1], a),
        lambda x: x.unbind(a)[0],
        lambda x: x.movedim(a, b),
        lambda x: F.pad(x, (low, 1)),
        lambda x: x.contiguous(),
        lambda x: x.clone(),
        lambda x: x.repeat_interleave(2, a),
        lambda x: x.tril() if x.ndim > 1 else x.clone(),
        lambda x: x.index_select(a, torch.tensor([0, x.shape[a] - 1])),
    ]
    kind = pick.choice(kinds)
    return lambda m, v: kind(v[i])


def _write(m: Drawn, values: Values, i: int) -> Step | None:
    """What changes a value in place: a copy of it, or itself where that is an input."""
    x = values[i]
    if not x.ndim or not x.shape[0]:
        return None
    at = m.chance.randrange(x.shape[0])
    kinds: list[Callable[[Tensor], Any]] = [
        lambda y: y.relu_(),
        lambda y: y.mul_(0.5),
        lambda y: y[at].add_(1),
        lambda y: y[at].zero_(),
        lambda y: y.clamp_(-1, 1),
        lambda y: y.transpose(0, -1).sub_(0.25),
    ]
    kind = m.chance.choice(kinds)
    direct = i < len(m.inputs) and 0 not in m.inputs[i].stride() and m.chance.random() < 0.5

    def step(m: Drawn, v: Values) -> Tensor:
        y = v[i] if direct else v[i].clone()
        kind(y)
        return y

    return step


def _attention(m: Drawn, values: Values, i: int) -> Step | None:
    x = values[i]
    if x.ndim not in (3, 4):
        return None
    causal = m.chance.random() < 0.4
    scale = m.chance.choice((None, 0.3))
    mask = m.weight(x.shape[-2], x.shape[-2]) if not causal and m.chance.random() < 0.5 else None
    return lambda m, v: F.scaled_dot_product_attention(
        v[i] * 0.5, v[i], v[i].tanh(), None if mask is None else m.weights[mask],
        is_causal=causal, scale=scale,
    )  # fmt: skip


def _interpolate(m: Drawn, values: Values, i: int) -> Step | None:
    x = values[i]
    if x.ndim not in (3, 4):
        return None
    mode = m.chance.choice(("nearest", "linear" if x.ndim == 3 else "bilinear", "nearest-exact"))
    corners = {} if mode.startswith("nearest") else {"align_corners": m.chance.random() < 0.5}
    if m.chance.random() < 0.4:
        factors = [m.chance.choice((2.0, 3.0, 1.5, 0.5)) for _ in x.shape[2:]]
        return lambda m, v: F.interpolate(v[i], scale_factor=factors, mode=mode, **corners)
    size = [m.chance.randint(1, 2 * d) for d in x.shape[2:]]
    return lambda m, v: F.interpolate(v[i], size=size, mode=mode, **corners)


DRAWS: tuple[tuple[Callable[[Drawn, Values, int], Step | None], int], ...] = (
    (_linear, 4), (_matmul, 3), (_conv, 4), (_pool, 2), (_norm, 3), (_unary, 6), (_binary, 5),
    (_reduce, 2), (_view, 8), (_write, 2), (_attention, 1), (_interpolate, 1),
)  # fmt: skip


def drawn(seed: int) -> Drawn:
    """Draw a module of 1 to 7 steps, in eval mode, with its inputs; without steps if none fits."""
    m = Drawn(seed)
    pick = m.chance
    m.inputs = [
        tensor(pick, *pick.sample(range(1, 8), pick.choice((2, 3, 4, 4, 5))))
        for _ in range(pick.randint(1, 2))
    ]
    m.eval()
    kinds, shares = zip(*DRAWS, strict=True)
    wanted = pick.randint(1, 7)
    values = [x.clone() for x in m.inputs]
    with torch.no_grad():
        for _ in range(40):
            if len(m.steps) >= wanted:
                break
            i = pick.randrange(max(0, len(values) - 3), len(values))
            step = pick.choices(kinds, shares)[0](m, values, i)
            if step is None:
                continue
            m.eval()
            try:
                made = step(m, [v.clone() for v in values])
            except (RuntimeError, ValueError, IndexError):  # torch refuses it
                continue
            new = [made] if isinstance(made, Tensor) else list(made)
            if any(
                t.numel() > 20_000 or not t.isfinite().all() or (t.abs() > LARGEST).any()
                for t in new
            ):
                continue
            m.steps.append(step)
            values.extend(new)
    last = range(len(m.inputs), len(values))
    m.returned = [i for i in last if i >= len(values) - 2 or pick.random() < 0.2]
    dtype = pick.choice((torch.float32, torch.float32, torch.float32, torch.bfloat16))
    m.to(dtype)
    m.inputs = [x.to(dtype) for x in m.inputs]
    return m if m.steps and _is_told_by(dtype, m) else Drawn(seed)


def _is_told_by(dtype: torch.dtype, m: Drawn) -> bool:
    """Whether a type has the bits to compute a module, and torch the functions."""
    with torch.no_grad():
        exact, _ = in_f64(m, m.inputs)
        try:
            made = copy.deepcopy(m)(*copies(m.inputs))
        except RuntimeError:
            return False
        return all(
            float((a.double() - c).abs().max()) < 0.1 * float(c.abs().max()) + 1e-3
            for a, c in zip(made, exact, strict=True)
            if a.numel()
        )


def _alike(tensors: Sequence[Tensor]) -> list[int]:
    """Return for each tensor the first that shares its memory."""
    at = [t.untyped_storage().data_ptr() for t in tensors]
    return [at.index(a) for a in at]


def copies(inputs: Sequence[Tensor]) -> Values:
    """Copy inputs with their strides."""
    made = []
    for x in inputs:
        span = sum(s * (d - 1) for s, d in zip(x.stride(), x.shape, strict=True)) + 1
        flat = x.as_strided((span,), (1,)).clone() if x.numel() else x.clone()
        made.append(flat.as_strided(x.shape, x.stride()) if x.numel() else flat)
    return made


def in_f64(m: Drawn, inputs: Sequence[Tensor]) -> tuple[Values, Values]:
    """Return results and inputs afterwards in f64."""
    wide = copy.deepcopy(m).double()
    given = [x.double() for x in copies(inputs)]
    return list(wide(*given)), given


def _are_alike(x: Tensor, strides: Sequence[int]) -> bool:
    """Whether a tensor has these strides, but for dims of 1."""
    return all(s == t for s, t, d in zip(x.stride(), strides, x.shape, strict=True) if d > 1)


def _said(m: Drawn, inputs: Sequence[Tensor]) -> list[tuple[int, ...]]:
    """Return the strides of results that torch's graph says; kernels make others now and then."""
    strides: list[tuple[int, ...]] = []

    def note(graph: torch.fx.GraphModule, _: Any) -> Any:
        [results] = graph.graph.output_node().args
        strides.extend(n.meta["val"].stride() for n in results)
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=note, inference_compiler=note)
    torch.compile(copy.deepcopy(m), backend=backend, dynamic=False)(*copies(inputs))
    return strides[-len(m.returned) :]


def _shared_in_graphs(m: Drawn, inputs: Sequence[Tensor]) -> list[list[int]]:
    """Return what shares memory if torch runs its own graphs, of known and of unknown dims."""
    made = []
    for dynamic in (False, True):
        given = copies(inputs)
        run = torch.compile(copy.deepcopy(m), backend="aot_eager", dynamic=dynamic)
        made.append(_alike([*run(*given), *given]))
    return made


def how_far(eager: Tensor, made: Tensor, exact: Tensor) -> str:
    """Say how far numbers are from the exact ones, if farther than rounding explains."""
    own, size = (float(x.abs().max()) for x in (eager.double() - exact, exact))
    # Sums are rounded once, however many bits a type has.
    rounding = max(ROUNDING, 4 * torch.finfo(eager.dtype).eps)
    near, off = 16 * own + rounding * size + 1e-6, float((made.double() - exact).abs().max())
    return "" if off <= near else f"off by {off}, not {near}"


def compared(m: Drawn, run: Any, inputs: Sequence[Tensor], eager: Drawn) -> str | None:
    """Compare one call with eager mode: numbers, strides, what shares memory, what was written."""
    exact, after = in_f64(eager, inputs)
    one, other = copies(inputs), copies(inputs)
    want, got = list(eager(*one)), list(run(*other))
    both = zip([*want, *one], [*got, *other], [*exact, *after], strict=True)
    for number, (a, b, c) in enumerate(both):
        last = number - len(want)
        name = f"output {number}" if last < 0 else f"input {last}"
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"{name}: {tuple(b.shape)} {b.dtype}, not {tuple(a.shape)} {a.dtype}"
        if not a.numel() or not c.isfinite().all():
            continue
        if not _are_alike(b, a.stride()) and (
            last >= 0 or not _are_alike(b, _said(eager, inputs)[number])
        ):
            return f"{name} of {tuple(a.shape)}: strides {b.stride()}, not {a.stride()}"
        if far := how_far(a, b, c):
            return f"{name} of {tuple(a.shape)}: {far}"
    shared, right = _alike([*got, *other]), _alike([*want, *one])
    if shared != right and shared not in _shared_in_graphs(eager, inputs):
        return f"memory is shared as {shared}, not {right}"
    for kind, a, b in [
        *(("parameter", *p) for p in zip(eager.parameters(), m.parameters(), strict=True)),
        *(("buffer", *p) for p in zip(eager.buffers(), m.buffers(), strict=True)),
    ]:
        most = max(1e-4, 2 * torch.finfo(a.dtype).eps) if a.is_floating_point() else 0
        if not torch.allclose(a, b, rtol=most, atol=most):
            return f"a {kind} of {tuple(a.shape)} differs after the call"
    return None


def _change(pick: random.Random, modules: Sequence[Drawn]) -> str:
    """Change weights, buffers or the mode of modules alike, as training loops do."""
    how = pick.choice(("data", "copy", "state", "train", "eval", "swap", "statistics"))
    count = len(modules[0].weights)
    at = pick.randrange(count) if count else 0
    for m in modules:
        if how == "data" and count:
            m.weights[at].data.mul_(1.5)
        elif how == "copy" and count:
            m.weights[at].copy_(m.weights[at] * 0.5 + 0.1)
        elif how == "state":
            m.load_state_dict(
                {k: v * 0.75 for k, v in m.state_dict().items() if v.is_floating_point()},
                strict=False,
            )
        elif how == "train":
            m.train()
        elif how == "eval":
            m.eval()
        elif how == "swap" and count:
            m.weights[at] = nn.Parameter(m.weights[at].detach().flip(0).clone())
        elif how == "statistics":
            for norm in m.norms:
                if isinstance(norm, nn.modules.batchnorm._BatchNorm):
                    norm.running_mean.add_(0.5)
    return how


def _fails_in_torch(eager: Drawn, inputs: Sequence[Tensor]) -> bool:
    """Whether torch's own backend, which computes as eager mode does, can't run a module."""
    try:
        torch.compile(copy.deepcopy(eager), backend="aot_eager")(*copies(inputs))
    except Exception:  # it raises what it meets
        return True
    return False


def small(seed: int) -> Any:
    """Return a context in which weights above a drawn number of bytes stay in torch's memory."""
    limit = random.Random(~seed).choice((0, 40, 200, arrays.SMALL))
    return mock.patch.object(arrays, "SMALL", limit)


# `_said` compiles the same function again, which counts.
@torch._dynamo.config.patch(recompile_limit=64)
def verdict_of(seed: int) -> tuple[str, str]:
    """Test a module: "right", "wrong", "refused" or "empty", and what is wrong."""
    m = drawn(seed)
    if not m.steps:
        return "empty", ""
    pick = random.Random(seed)
    eager = copy.deepcopy(m)
    torch._dynamo.reset()
    run = torch.compile(m, backend="onednn_graph", dynamic=pick.choice((None, None, True)))
    inputs, said = m.inputs, "the first call"
    with torch.no_grad(), warnings.catch_warnings(), small(seed):
        warnings.simplefilter("ignore")
        for number in range(3):
            try:
                copy.deepcopy(eager)(*copies(inputs))
            except (RuntimeError, ValueError):  # this batch does not fit, or is too small to train
                pass
            else:
                try:
                    wrong = compared(m, run, inputs, eager)
                except Exception as e:
                    if _fails_in_torch(eager, inputs):
                        return "empty", ""
                    return "refused", f"{said}: {type(e).__name__}: {str(e)[:300]}"
                if wrong is not None:
                    return "wrong", f"{said}: {wrong}"
            if number == 0:
                said = f"after {_change(pick, (m, eager))}"
            else:
                inputs = [
                    tensor(pick, x.shape[0] + 1, *x.shape[1:], dtype=x.dtype) for x in m.inputs
                ]
                said += ", with a larger batch"
    return "right", ""


if __name__ == "__main__":
    main(verdict_of)
