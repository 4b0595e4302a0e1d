"""The facts about the steps of a graph that runs."""

from dataclasses import dataclass
from typing import Literal

from ..inspect.drawing import Status, Tensor
from ..kernels import Kernel

__all__ = ["Kernel", "OpFacts", "StepFacts", "TensorFacts", "Work"]


@dataclass(frozen=True)
class OpFacts:
    """An op of a step.

    Parameters
    ----------
    kind, name : str
    where : str
        The ``file:line`` that made it.
    """

    kind: str
    name: str
    where: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name!r}" if self.name else self.kind


@dataclass(frozen=True)
class TensorFacts:
    """A tensor at the edge of a step.

    Parameters
    ----------
    role : str
        ``input`` or ``output`` of the model, ``constant``, or ``intermediate``.
    name : str
    tensor : Tensor
        Data type, shape and layout, as compiled.
    bytes : int or None
        Size of its elements, without gaps; of all its memory if the layout is oneDNN's own; None if
        dims are unknown.
    """

    role: str
    name: str
    tensor: Tensor
    bytes: int | None


@dataclass(frozen=True)
class Work:
    """The operations and bytes of a step, and its speed.

    Parameters
    ----------
    operations : int
        The number of operations, as the rows of the op table count them (``flop``).
    bytes : int
        Bytes of its inputs and outputs, each once: the least that it must move.
    dtype : str or None
        The data type of its products, one of `machine.PEAK_TYPES`. None without products.
    operations_per_second, bytes_per_second : float or None
        Its speed; None if it was not timed.
    peak_operations, peak_bytes : float or None
        The machine's peaks, per second; None if they were not measured.
    bound : str or None
        The limit of its speed: ``compute`` if it has more operations a byte than the machine has at
        both peaks, else ``memory``.
    """

    operations: int
    bytes: int
    dtype: str | None
    operations_per_second: float | None = None
    bytes_per_second: float | None = None
    peak_operations: float | None = None
    peak_bytes: float | None = None
    bound: Literal["compute", "memory"] | None = None

    @property
    def operations_per_byte(self) -> float | None:
        """The arithmetic intensity; None without bytes."""
        return self.operations / self.bytes if self.bytes else None


@dataclass(frozen=True)
class StepFacts:
    """The facts about one step.

    Parameters
    ----------
    ops : tuple of OpFacts
    by : str
        ``oneDNN``; ``host`` for functions of `GraphBuilder.call`; ``reference`` for ops that NumPy
        computes; ``view`` for a slice, reshape or transpose that is not run; ``constant`` for ops
        that ran once, when the model was compiled; ``unsupported`` for ops without a oneDNN kernel,
        with which the graph does not compile.
    inputs, outputs : tuple of TensorFacts
    partition : str
        oneDNN's names of the partition's kind and implementation, such as ``matmul_post_ops`` and
        ``matmul_t`` with a blank between; empty if unknown.
    kernels : tuple of Kernel
    kernels_unknown : str
        The reason why `kernels` is empty, unless oneDNN runs nothing in this step.
    scratch_bytes : int or None
        Memory that it needs while it runs; None if unknown. oneDNN reports it from 3.13 on.
    seconds : float or None
        The median of many calls.
    share : float or None
        Its share of the time of all steps, 0 to 1.
    work : Work or None
        Its operations and bytes; None if dims are unknown.
    split : str
        The reason why it is not fused with ops that oneDNN would fuse it with; else empty.
    measured : str
        The times of its group as written and in other forms; empty if none was measured.
    """

    ops: tuple[OpFacts, ...]
    by: Status
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]
    partition: str = ""
    kernels: tuple[Kernel, ...] = ()
    kernels_unknown: str = ""
    scratch_bytes: int | None = None
    seconds: float | None = None
    share: float | None = None
    work: Work | None = None
    split: str = ""
    measured: str = ""

    @property
    def label(self) -> str:
        """The ops, joined by ``+``."""
        return " + ".join(map(str, self.ops))
