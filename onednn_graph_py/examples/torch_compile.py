"""A module of torch runs in oneDNN by torch.compile, and says what runs where.

Two layers of an encoder with an embedding, which stays in torch, and a mask for padding. The
example sets the result beside NumPy and the time beside torch's own, and prints the report. Needs
torch.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..machine.cpu import lacks
from ..model.checking.expected import Expected
from ._run import Case, Skipped, median_milliseconds

if TYPE_CHECKING:
    import torch

WIDTH, HEADS, TOKENS = 256, 4, 64


def _module() -> Any:
    import torch

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.packed = torch.nn.Linear(WIDTH, 3 * WIDTH)
            self.out = torch.nn.Linear(WIDTH, WIDTH)
            self.wide = torch.nn.Linear(WIDTH, 4 * WIDTH)
            self.narrow = torch.nn.Linear(4 * WIDTH, WIDTH)
            self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(WIDTH) for _ in range(2))

        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            batch, tokens, _ = x.shape
            heads = self.packed(x).view(batch, tokens, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            seen = torch.nn.functional.scaled_dot_product_attention(*heads.unbind(0), mask)
            merged = seen.transpose(1, 2).reshape(batch, tokens, WIDTH)
            x = self.norms[0](x + self.out(merged))
            wide = torch.nn.functional.gelu(self.wide(x))
            made: torch.Tensor = self.norms[1](x + self.narrow(wide))
            return made

    class Encoder(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(1000, WIDTH)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(2))

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            mask = (ids != 0)[:, None, None, :]
            x: torch.Tensor = self.table(ids)
            for layer in self.layers:
                x = layer(x, mask)
            return x

    return Encoder().eval()


def _run(name: str) -> Case:
    import torch

    from ..torch import backend, report, trace
    from ..torch.arrays import array_of

    torch.manual_seed(0)
    dtype = torch.float32 if name == "f32" else torch.bfloat16
    module = _module().to(dtype)
    compiled = torch.compile(module, backend=backend)
    ids = torch.randint(1, 1000, (2, TOKENS))
    ids[0, :10] = 0  # padding, to which no token pays attention
    with torch.no_grad():
        got = compiled(ids)
        ours = median_milliseconds(lambda: compiled(ids))
        eager = median_milliseconds(lambda: module(ids))
    builder = trace(module, (ids,))
    (output,) = builder.outputs.values()
    compared = Expected(builder, [ids.numpy()]).compare({output.id: array_of(got)})
    (graph,) = report(compiled).graphs
    steps = [s for region in graph.regions for s in region.steps]
    fused = list(dict.fromkeys(s.ops for s in steps if s.implementation == "oneDNN"))
    return Case(
        name=f"{name}, 2 layers of {WIDTH}, {TOKENS} tokens",
        expected_partitions=None,
        partitions=fused,
        comparisons={"all elements with NumPy in float64": compared},
        milliseconds=ours,
        facts=[f"torch itself takes {eager / ours:.1f} times as long", *str(graph).splitlines()],
        faults=[] if graph.share > 0.9 else [f"only {graph.share:.0%} runs in oneDNN"],
    )


def run() -> Iterator[Case | Skipped]:
    """Run in f32 and bf16."""
    for name in ("f32", "bf16"):
        missing = None if importlib.util.find_spec("torch") else "torch is not installed"
        reason = missing or lacks(name)
        yield _run(name) if reason is None else Skipped(name, reason)
