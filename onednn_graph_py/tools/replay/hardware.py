"""Known reasons why oneDNN has no kernel for an op: `why_unsupported`."""

from __future__ import annotations

from ...machine.cpu import lacks
from ...serialization import OpRecord

__all__ = ["why_unsupported"]


def why_unsupported(op: OpRecord, engine_kind: str = "cpu") -> str:
    """Return why an op has no kernel: a feature that this CPU lacks, or just that there is none."""
    name = f"op {op.id} ({op.kind})"
    if op.kind == "Wildcard":
        return f"{name}: a Wildcard stands for an op that oneDNN does not know"
    dtypes = dict.fromkeys(t.dtype for t in (*op.inputs, *op.outputs))
    for dtype in dtypes:
        missing = lacks(dtype) if engine_kind != "gpu" else None
        if missing is not None:
            return f"{name}: hardware: {missing}"
    return f"{name}: oneDNN has no kernel for it in {', '.join(dtypes)}"
