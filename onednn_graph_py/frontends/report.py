"""The steps of models in reports of front ends."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from ..base.errors import OneDNNError
from ..model.building.value import Node, Value
from ..model.running.model import CompiledGraph, Step
from ..ops.lookup import is_quantized, with_trait


class Partitions:
    """Counts of the partitions among steps; a subclass has the steps."""

    steps: tuple[Step, ...]

    @property
    def partitions(self) -> int:
        """The number of partitions that oneDNN runs."""
        return sum(s.implementation == "oneDNN" for s in self.steps)

    @property
    def int8_partitions(self) -> int:
        """The number of partitions that oneDNN computes in 8 bits: others' ops between casts."""
        return sum(s.implementation == "oneDNN" and is_quantized(s.ops) for s in self.steps)


def latest_steps(model: CompiledGraph | None) -> tuple[Step, ...]:
    """Return the steps for a model's latest shapes, if it has been called."""
    if model is None or model.latest_shapes is None:
        return ()
    try:
        return model.steps(*model.latest_shapes)
    except OneDNNError:  # other shapes took its place meanwhile
        return ()


def products_of(model: CompiledGraph | None) -> dict[str, int]:
    """Count products of a model for its latest shapes by why they are not in 8 bits; "" if so."""
    counts: Counter[str] = Counter()
    if latest_steps(model) and model is not None and model.latest_shapes is not None:
        for step in model.specialization(model.latest_shapes).plan.steps:
            in_int8 = is_quantized(n.kind for n in step.nodes)
            for node in step.nodes:
                if node.kind in with_trait("product") and step.implementation == "oneDNN":
                    counts["" if in_int8 else _not_int8(node, step.why)] += 1
    return dict(counts)


def _not_int8(node: Node, why: str) -> str:
    """Say why a product is not computed in 8 bits."""
    if not _is_dequantized(node.inputs[0]):
        return "its first operand is not quantized"
    if why or _is_dequantized(node.inputs[1]):  # weights in f32 for this reason are constants
        return why or "oneDNN does not fuse it with its Dequantize"
    return "its second operand is not quantized"


def _is_dequantized(value: Value) -> bool:
    before = value.producer
    while before is not None and before.kind in with_trait("moves"):
        before = before.inputs[0].producer
    return before is not None and before.kind in with_trait("dequantizes")


def partitions_text(steps: Sequence[Step], seconds: Iterable[float | None] = ()) -> list[str]:
    """Return a line for each kind of partition, the slowest first, with all its times in ms."""
    counts: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for step, time in zip_longest(steps, seconds):
        if step.implementation == "oneDNN":
            ops = "+".join(step.ops)
            counts[ops] += 1
            times[ops] += time or 0  # type: ignore[assignment]
    measured = any(times.values())
    order = sorted(counts, key=lambda ops: (-times[ops], -counts[ops]))
    return [
        f"    {counts[ops]:4} x {ops}" + (f": {1e3 * times[ops]:.3f} ms" if measured else "")
        for ops in order
    ]
