"""A pipeline on a SYCL queue of dpctl: memory that host and device share, events between steps."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import engine, logical_tensor, sycl_interop
from .. import tensor as memory_tensor
from ._device import without_device
from ._pipeline import Arrays, Pipeline


def without_sycl(engine_kind: str) -> str | None:
    """Say why no graph can run on a SYCL queue of ``cpu`` or ``gpu`` here, or None if one can."""
    return sycl_interop.missing() or without_device(engine_kind)


class SyclQueue:
    """A queue, with oneDNN's engine and stream over it.

    Parameters
    ----------
    engine_kind : str
        ``cpu`` or ``gpu``.
    """

    def __init__(self, engine_kind: str) -> None:
        dpctl = importlib.import_module("dpctl")
        self.queue = dpctl.SyclQueue(engine_kind, property="in_order")
        # oneDNN takes its working memory from this allocator; it could be left out.
        self.allocator = sycl_interop.make_usm_allocator("shared")
        self.engine: engine = sycl_interop.make_engine_with_allocator(
            self.queue.sycl_device, self.queue.sycl_context, self.allocator
        )
        self.stream = sycl_interop.make_stream(self.engine, self.queue)

    def facts(self) -> list[str]:
        """Say on which device the queue runs, and how much memory oneDNN took."""
        device = self.queue.sycl_device
        taken = self.allocator.statistics()
        driver = f"{device.backend.name}, driver {device.driver_version}"
        return [
            f"device: {device.name.strip()} ({driver})",
            f"allocator: {taken['allocations']} allocations of shared memory,"
            f" at most {taken['peak_bytes'] / 2**20:.1f} MiB at once",
        ]

    def tensor(self, lt: logical_tensor, array: npt.NDArray[Any] | None = None) -> memory_tensor:
        """Make a tensor in memory that host and device share, with the values of an array."""
        memory = importlib.import_module("dpctl.memory")
        made = sycl_interop.make_tensor(
            lt, self.engine, memory.MemoryUSMShared(lt.get_mem_size(), queue=self.queue)
        )
        if array is not None:
            np.copyto(made.numpy(), array)
        return made


class SyclExecution:
    """A pipeline with shared memory attached; call it to run.

    Parameters
    ----------
    pipeline : Pipeline
        The pipeline, compiled for the queue's engine.
    queue : SyclQueue
    arrays : mapping of int to numpy.ndarray
        The inputs, by the id of their logical tensor.
    """

    def __init__(self, pipeline: Pipeline, queue: SyclQueue, arrays: Arrays) -> None:
        self._steps = pipeline.steps
        self._stream = queue.stream
        self._tensors: dict[int, memory_tensor] = {}
        for step in self._steps:
            for lt in (*step.get_inputs(), *step.get_outputs()):
                number = lt.get_id()
                if number not in self._tensors:
                    self._tensors[number] = queue.tensor(lt, arrays.get(number))

    def __call__(self) -> None:
        """Submit all partitions, each behind the event of the one before, and wait for the last."""
        done: list[Any] = []
        for step in self._steps:
            inputs = [self._tensors[lt.get_id()] for lt in step.get_inputs()]
            outputs = [self._tensors[lt.get_id()] for lt in step.get_outputs()]
            done = [sycl_interop.execute(step, self._stream, inputs, outputs, done, wait=False)]
        for event in done:
            event.wait()

    def output(self, lt: logical_tensor) -> npt.NDArray[Any]:
        """Return one of the outputs, without a copy."""
        return np.asarray(self._tensors[lt.get_id()].numpy())
