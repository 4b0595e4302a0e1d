"""The table of NumPy's functions in guide_numpy.md: ``python docs/extensions/numpy_table.py``."""

from pathlib import Path

from onednn_graph_py.model.building.array_functions import TABLE
from onednn_graph_py.model.building.array_protocols import INSTEAD

PAGE = Path(__file__).resolve().parents[1] / "guide_numpy.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"

TORCH = {
    "expand_dims": "unsqueeze", "transpose": "permute", "reshape": "view, reshape",
    "concatenate": "cat", "astype": "to", "clip": "clamp", "power": "pow",
    "special.expit": "sigmoid", "where": "where, masked_fill", "broadcast_to": "expand",
    "split": "split, chunk", "absolute": "abs", "special.softmax": "softmax",
    "special.log_softmax": "log_softmax", "swapaxes": "transpose", "max": "amax", "min": "amin",
    "matmul": "matmul, bmm, mm", "divide": "div", "multiply": "mul", "subtract": "sub",
    "negative": "neg",
    "linalg.vector_norm": "norm",
}  # fmt: skip
"""torch's names where they differ."""


def table() -> str:
    """Return the tables of functions and of methods, a line for each."""
    names: dict[str, list[str]] = {}
    for name, row in TABLE.items():
        names.setdefault(row.name, []).append(name)
    lines = ["| NumPy | torch | becomes |", "| --- | --- | --- |"]
    for name, aliases in sorted(names.items()):
        if TABLE[name].becomes:
            shown = ", ".join(f"`{n}`" for n in [name, *(a for a in aliases if a != name)])
            lines.append(f"| {shown} | {TORCH.get(name, '')} | {TABLE[name].becomes} |")
    steps = ", ".join(f"`{n}`" for n in sorted(names) if not TABLE[n].becomes)
    lines += [f"| all other ufuncs, {steps} | | a host step |"]
    lines += ["", "| method of torch or NumPy | write |", "| --- | --- |"]
    lines += [
        f"| `x.{name}()` | {text if text.startswith('the value') else f'`{text}`'} |"
        for name, text in sorted(INSTEAD.items())
    ]
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """Return the page with the table of now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
