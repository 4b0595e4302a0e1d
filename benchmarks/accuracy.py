"""What rounding activations to 8 bits costs a small language model, beside onnxruntime.

Trains a decoder of Llama's kind on the text of this repository's pages, byte by byte, writes it as
an ONNX file of `MatMulNBits` with 8 and 4 bits, and prints how far results are from those of exact
activations with the same weights: of one layer, of the whole decoder, and how often the likeliest
byte is the same. Needs torch, transformers, onnx and onnxruntime; takes some minutes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper
from transformers import LlamaConfig, LlamaForCausalLM

import onednn_graph_py.onnx as front

PAGES = Path(__file__).parents[1] / "docs"
SETTINGS = ((8, 32), (4, 32), (4, 128))
"""Bits of weights, and inputs that share a scale."""


def text() -> np.ndarray:
    """Return the pages' bytes."""
    pages = sorted(PAGES.glob("*.md"))
    return np.frombuffer(b"".join(p.read_bytes() for p in pages), np.uint8).astype(np.int64)


def trained(layers: int, steps: int) -> Any:
    """Train a decoder, 256 wide, on all but the last bytes."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=256, intermediate_size=768, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024,
        rms_norm_eps=1e-5, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    given = torch.from_numpy(text()[:-1000])
    rates = torch.optim.AdamW(model.parameters(), 1e-3)
    for step in range(steps):
        places = torch.randint(len(given) - 129, (8, 1)) + torch.arange(129)
        batch = given[places]
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        rates.step()
        rates.zero_grad()
        if step % 50 == 49:
            print(f"step {step + 1}: loss {float(loss):.2f}", flush=True)
    return model.eval()


class Writer:
    """An ONNX graph of products by compressed weights."""

    def __init__(self, bits: int, group: int) -> None:
        self.bits, self.group = bits, group
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, array: np.ndarray) -> str:
        """Add a weight."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **given: Any) -> str:
        """Add a node; return its first result."""
        names = [f"v{len(self.nodes)}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **given))
        return names[0]

    def product(self, x: str, weights: torch.Tensor) -> str:
        """Multiply by (outputs, inputs), rounded with a scale for each group."""
        array = weights.detach().numpy()
        outputs, inputs = array.shape
        groups = array.reshape(outputs, -1, self.group)
        middle = 1 << (self.bits - 1)
        scales = np.abs(groups).max(-1, keepdims=True) / (middle - 1)
        whole = (np.rint(groups / scales) + middle).astype(np.uint8)
        if self.bits == 4:
            whole = whole[..., ::2] | whole[..., 1::2] << 4
        return self.node(
            "MatMulNBits", x, self.weight(whole), self.weight(scales.reshape(outputs, -1)),
            domain="com.microsoft", K=inputs, N=outputs, bits=self.bits, block_size=self.group,
            accuracy_level=4,
        )  # fmt: skip

    def model(self, x: tuple[str, int, list[Any]], y: tuple[str, list[Any]]) -> onnx.ModelProto:
        """Return the graph from an input to a result."""
        name, dtype, dims = x
        graph = helper.make_graph(
            self.nodes, "g", [helper.make_tensor_value_info(name, dtype, dims)],
            [helper.make_tensor_value_info(y[0], TensorProto.FLOAT, y[1])], self.weights,
        )  # fmt: skip
        sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=10)


def decoder(model: Any, bits: int, group: int) -> onnx.ModelProto:
    """Return a decoder of a whole text, its logits at each place."""
    w, config = Writer(bits, group), model.config
    head = config.hidden_size // config.num_attention_heads
    angles = np.arange(1024)[:, None] * 10000.0 ** (-np.arange(0, head, 2) / head)
    cos, sin = (w.weight(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
    dims = w.node("Shape", "ids", start=1, end=2)
    total = w.node("Cast", dims, to=TensorProto.INT32)
    last = w.node("Sub", total, w.weight(np.int32([1])))
    count = w.node("Squeeze", total)

    def normed(x: str, of: Any) -> str:
        scale = w.weight(of.weight.detach().numpy())
        return w.node("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5)

    x = w.node("Gather", w.weight(model.model.embed_tokens.weight.detach().numpy()), "ids")
    for layer in model.model.layers:
        y, of = normed(x, layer.input_layernorm), layer.self_attn
        query, key, value = (w.product(y, p.weight) for p in (of.q_proj, of.k_proj, of.v_proj))
        seen = w.node(
            "GroupQueryAttention", query, key, value, "", "", last, count, cos, sin, outputs=3,
            domain="com.microsoft", num_heads=config.num_attention_heads,
            kv_num_heads=config.num_key_value_heads, do_rotary=1,
        )  # fmt: skip
        x = w.node("Add", x, w.product(seen, of.o_proj.weight))
        y, mlp = normed(x, layer.post_attention_layernorm), layer.mlp
        gate = w.product(y, mlp.gate_proj.weight)
        gate = w.node("Mul", gate, w.node("Sigmoid", gate))
        both = w.node("Mul", gate, w.product(y, mlp.up_proj.weight))
        x = w.node("Add", x, w.product(both, mlp.down_proj.weight))
    logits = w.product(normed(x, model.model.norm), model.lm_head.weight)
    return w.model(("ids", TensorProto.INT64, [1, "n"]), (logits, [1, "n", 256]))


def layer(model: Any, bits: int, group: int) -> onnx.ModelProto:
    """Return the first layer's gate alone."""
    w = Writer(bits, group)
    y = w.product("x", model.model.layers[0].mlp.gate_proj.weight)
    return w.model(("x", TensorProto.FLOAT, [1, "n", 256]), (y, [1, "n", 768]))


def results(file: onnx.ModelProto, x: np.ndarray) -> dict[str, np.ndarray]:
    """Return what all make of a file: exact activations, rounded here, and by onnxruntime."""
    session = onnxruntime.InferenceSession(
        file.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (theirs,) = session.run(None, {session.get_inputs()[0].name: x})
    exact = front.load(file, activations="exact", fallback="error")(x)
    return {"exact": exact, "here": front.load(file, fallback="error")(x), "onnxruntime": theirs}


def compared(made: dict[str, np.ndarray]) -> dict[str, tuple[float, float]]:
    """Return relative errors, and shares of places with the same largest number."""
    exact = made.pop("exact")[0]
    return {
        name: (
            float(np.linalg.norm(y[0] - exact) / np.linalg.norm(exact)),
            float((y[0].argmax(-1) == exact.argmax(-1)).mean()),
        )
        for name, y in made.items()
    }


def main() -> None:
    """Train, compare, print rows of a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tokens", type=int, default=500)
    options = parser.parse_args()
    model = trained(options.layers, options.steps)
    ids = text()[-options.tokens :][None]
    read: list[Any] = []
    gate = model.model.layers[0].mlp.gate_proj
    gate.register_forward_hook(lambda _, given, __: read.append(given[0].numpy()))
    with torch.no_grad():
        model(input_ids=torch.from_numpy(ids))
    print("| weights | | here | onnxruntime |\n| --- | --- | --- | --- |")
    for bits, group in SETTINGS:
        rows = {
            "one layer": results(layer(model, bits, group), read[0]),
            f"{options.layers} layers of a decoder": results(decoder(model, bits, group), ids),
        }
        for what, made in rows.items():
            cells = [f"{e:.3f}, {100 * s:.1f} %" for e, s in compared(made).values()]
            print(f"| {bits} bits, groups of {group} | {what} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
