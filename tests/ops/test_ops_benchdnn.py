"""The graphs that oneDNN's own test driver runs pass the checks, and have the shapes inferred."""

import json

import pytest

from onednn_graph_py.ops import TensorSpec, check
from onednn_recipe.settings import Settings

SOURCES = sorted((Settings.from_env().cache_dir / "src").glob("onednn-*/tests/benchdnn/inputs"))
FOLDER = SOURCES[-1] / "graph" if SOURCES else None
# `Path.glob` needs a folder; without sources there is nothing to run.
FILES = sorted(FOLDER.glob("**/*.json")) if FOLDER else []

# Graphs that oneDNN itself does not take as they are written.
REFUSED = {
    "op/f32/biasadd_bwd.json": "'BiasAddBackprop' is not an op kind; did you mean 'BiasAdd",
    "pattern/f32/avgpool_3d_chain_fusion.json": "pads_end must have no negative entry, got",
}

needs_sources = pytest.mark.skipif(not FILES, reason="there is no oneDNN source tree in the cache")


def specs(tensors) -> list[TensorSpec]:
    return [
        TensorSpec(None if t["layout_type"] == "undef" else tuple(t["shape"]), t["dtype"])
        for t in tensors
    ]


def attributes(op) -> dict:
    return {
        name: bool(a["value"]) if a["type"] == "bool" else a["value"]
        for name, a in op.get("attrs", {}).items()
    }


@needs_sources
@pytest.mark.parametrize("folder", ["op", "pattern", "complex_fusion"])
def test_all_ops_of_its_graphs_pass(folder):
    counted = 0
    for file in FILES:
        name = str(file.relative_to(FOLDER))
        if not name.startswith(folder) or name in REFUSED:
            continue
        for op in json.loads(file.read_text())["graph"]:
            inputs, outputs = specs(op["inputs"]), specs(op["outputs"])
            arguments = (op["kind"], inputs, attributes(op))
            asked = {"name": f"{name}: {op['name']}", "id": op["id"]}
            unsaid = [TensorSpec(None, t.dtype) for t in outputs]
            filled = zip(
                check(*arguments, outputs, **asked),
                check(*arguments, unsaid, **asked),  # what follows from the inputs alone
                outputs,
                strict=True,
            )
            for made, inferred, expected in filled:
                assert made.dtype == inferred.dtype == expected.dtype
                if expected.shape is None:
                    continue
                assert made.shape == expected.shape
                if inferred.shape is not None:
                    both = zip(inferred.shape, expected.shape, strict=True)
                    assert all(a in (b, -1) for a, b in both), (asked, inferred, expected)
            counted += 1
    assert counted >= {"op": 105, "pattern": 450, "complex_fusion": 280}[folder]


@needs_sources
@pytest.mark.parametrize("name", REFUSED)
def test_some_files_are_wrong(name):
    ops = json.loads((FOLDER / name).read_text())["graph"]
    with pytest.raises(ValueError, match=REFUSED[name]):
        for op in ops:
            check(op["kind"], specs(op["inputs"]), attributes(op))
