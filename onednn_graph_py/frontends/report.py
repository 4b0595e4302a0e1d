"""What reports of front ends have in common: the steps of models."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from ..base.errors import OneDNNError
from ..model.running.model import CompiledGraph, Step
from ..ops.lookup import is_quantized


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
