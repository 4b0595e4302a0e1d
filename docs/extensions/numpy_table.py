"""The table of NumPy's functions in guide_numpy.md: ``python docs/extensions/numpy_table.py``."""

from pathlib import Path

from onednn_graph_py.model.building.array_functions import TABLE

PAGE = Path(__file__).resolve().parents[1] / "guide_numpy.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"

TORCH = {
    "expand_dims": "unsqueeze", "transpose": "permute", "reshape": "view, reshape",
    "concatenate": "cat", "astype": "to", "clip": "clamp", "power": "pow",
    "special.expit": "sigmoid", "where": "where, masked_fill", "broadcast_to": "expand",
    "split": "split, chunk", "absolute": "abs", "special.softmax": "softmax",
    "special.log_softmax": "log_softmax", "swapaxes": "transpose", "max": "amax", "min": "amin",
    "matmul": "matmul, bmm, mm", "divide": "div", "multiply": "mul", "subtract": "sub",
    "negative": "neg", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
    "equal": "eq", "not_equal": "ne", "take": "index_select", "take_along_axis": "gather",
    "linalg.vector_norm": "norm",
}  # fmt: skip
"""torch's names where they differ."""


def table() -> str:
    """Return the table, a line for each function."""
    names: dict[str, list[str]] = {}
    for name, row in TABLE.items():
        names.setdefault(row.name, []).append(name)
    lines = ["| NumPy | torch | becomes |", "| --- | --- | --- |"]
    for name, aliases in sorted(names.items()):
        shown = ", ".join(f"`{n}`" for n in [name, *(a for a in aliases if a != name)])
        becomes = TABLE[name].becomes or "a host step"
        lines.append(f"| {shown} | {TORCH.get(name, '')} | {becomes} |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """Return the page with the table of now."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
