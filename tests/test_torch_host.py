"""The NumPy functions of exported models, each beside torch's own."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
front = pytest.importorskip("onednn_graph_py.torch")
host = pytest.importorskip("onednn_graph_py.torch.host")

TABLE = torch.arange(40.0).reshape(10, 4)

CASES = {
    "add": lambda i, x: torch.add(i, i, alpha=3),
    "sub": lambda i, x: i - 2,
    "mul": lambda i, x: i * i,
    "neg": lambda i, x: -i,
    "abs": lambda i, x: (i - 4).abs(),
    "eq": lambda i, x: i == 3,
    "ne": lambda i, x: i != 3,
    "lt": lambda i, x: i < 3,
    "le": lambda i, x: i <= 3,
    "gt": lambda i, x: i > 3,
    "ge": lambda i, x: i >= 3,
    "logical_not": lambda i, x: torch.logical_not(i > 3),
    "logical_and": lambda i, x: torch.logical_and(i > 3, i < 5),
    "logical_or": lambda i, x: torch.logical_or(i > 3, i < 2),
    "bitwise_not": lambda i, x: torch.bitwise_not(i > 3),
    "bitwise_and": lambda i, x: torch.bitwise_and(i > 3, i < 5),
    "bitwise_or": lambda i, x: torch.bitwise_or(i > 3, i < 2),
    "__and__": lambda i, x: torch.ops.aten.__and__.Tensor(i > 3, i < 5),
    "__or__": lambda i, x: torch.ops.aten.__or__.Tensor(i > 3, i < 2),
    "minimum": lambda i, x: torch.minimum(i, i * 2 - 4),
    "maximum": lambda i, x: torch.maximum(i, i * 2 - 4),
    "where": lambda i, x: torch.where(i > 3, i, i * 2),
    "sin": lambda i, x: x.sin(),
    "cos": lambda i, x: x.cos(),
    "log": lambda i, x: (i + 1).log(),
    "remainder": lambda i, x: (i - 4) % 3,
    "isnan": lambda i, x: (x / x.abs()).isnan(),
    "clamp": lambda i, x: i.clamp(1, 4),
    "cumsum": lambda i, x: i.cumsum(1),
    "index": lambda i, x: x[i[0] % 2],
    "gather": lambda i, x: x.gather(1, i % 3),
    "masked_fill": lambda i, x: x.masked_fill(i > 3, -1.5),
    "embedding": lambda i, x: torch.nn.functional.embedding(i, TABLE),
    "cat": lambda i, x: torch.cat([i, i * 2], 1),
    "argmax": lambda i, x: x.argmax(1),
    "any": lambda i, x: (i > 4).any(1),
    "all": lambda i, x: (i > 0).all(1, keepdim=True),
    "_to_copy": lambda i, x: i.to(torch.float32) * 2,
}
"""A call of each function, of integers (2, 6) from 0 to 7 and numbers with a 0 among them."""


class Module(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, i, x):
        return CASES[self.name](i, x)


def test_each_function_has_a_case():
    assert set(host.HOST) == set(CASES)


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", CASES)
def test_function(name, dynamic):
    i = torch.tensor([[0, 1, 2, 3, 4, 5], [7, 6, 5, 4, 3, 1]])
    x = torch.linspace(-2.0, 2.0, 10).reshape(2, 5)
    x = torch.cat([x, torch.zeros(2, 1)], 1)
    rows = torch.export.Dim("rows", min=2, max=9)
    shapes = ({0: rows}, {0: rows}) if dynamic and name != "index" else None
    builder = front.trace(Module(name), (i, x), dynamic_shapes=shapes)
    assert any(getattr(n, "function", None) and n.function.op == name for n in builder.nodes)
    for times in (1, 2) if shapes else (1,):
        given = i.repeat(times, 1), x.repeat(times, 1)
        wanted = CASES[name](*given)
        got = torch.from_numpy(builder.compile()(*(t.numpy() for t in given)))
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted)
