"""The pairs of ops in documented patterns, which the package explains with: `text`, `FILE`."""

from __future__ import annotations

import json
from pathlib import Path

from onednn_graph_py.base.errors import OneDNNError
from onednn_graph_py.base.linked import linked_version
from onednn_graph_py.ops.describe import version_text
from onednn_graph_py.ops.terms import Version
from onednn_graph_py.tools.explaining.reasons import category

from . import PATTERNS

__all__ = ["FILE", "documented_pairs", "text"]

_ROOT = Path(__file__).resolve().parents[1]
FILE = _ROOT / "onednn_graph_py/tools/explaining/documented_pairs.json"

Pairs = dict[tuple[str, str], tuple[Version, str]]

# The other rows are about single ops and tensors.
_FUSED = ("floating point", "quantized", "training")


def documented_pairs() -> Pairs:
    """Return the pairs of categories whose ops a documented pattern fuses, producer first.

    With the version that brought the pair to the documents, and the first pattern of that version.
    """
    found: Pairs = {}
    for pattern in PATTERNS.values():
        if pattern.category not in _FUSED:
            continue
        for case in pattern.cases:
            if case.partitions != 1 or case.needs > linked_version():
                continue
            try:
                nodes = pattern.graph(case).nodes
            except OneDNNError:  # this oneDNN refuses what the documents allow
                continue
            for reader in nodes:
                for producer in (v.producer for v in reader.inputs if v.producer is not None):
                    pair = category(producer.kind), category(reader.kind)
                    if pair not in found or case.needs < found[pair][0]:
                        found[pair] = case.needs, pattern.title
    return found


def text() -> str:
    """Return the file's text."""
    rows: dict[tuple[Version, str], list[str]] = {}
    for pair, row in documented_pairs().items():
        rows.setdefault(row, []).append(">".join(pair))
    data = [
        {"since": version_text(since), "pattern": title, "pairs": " ".join(sorted(pairs))}
        for (since, title), pairs in sorted(rows.items(), key=lambda row: row[0][0])
    ]
    return json.dumps(data, indent=1) + "\n"
