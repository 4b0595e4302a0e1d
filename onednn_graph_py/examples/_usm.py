"""A pipeline on a SYCL queue of dpctl: memory that host and device share, events between steps."""

import importlib
from typing import Any

import numpy as np

from .. import engine, logical_tensor
from .. import tensor as memory_tensor
from ..base import sycl_interop
from ._run import Array, Arrays, Execution, Pipeline, without_device


def without_sycl(engine_kind: str) -> str | None:
    """Say why no graph can run on a SYCL queue of ``cpu`` or ``gpu`` here, or None if one can."""
    return sycl_interop.missing() or without_device(engine_kind)


class SyclQueue:
    """A queue of dpctl, with oneDNN's engine and stream over it."""

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
        statistics = self.allocator.statistics()
        driver = f"{device.backend.name}, driver {device.driver_version}"
        return [
            f"device: {device.name.strip()} ({driver})",
            f"allocator: {statistics['allocations']} allocations of shared memory,"
            f" at most {statistics['peak_bytes'] / 2**20:.1f} MiB at once",
        ]


class SyclExecution(Execution):
    """A pipeline, compiled for a queue's engine, with shared memory attached."""

    def __init__(self, pipeline: Pipeline, queue: SyclQueue, arrays: Arrays) -> None:
        self._queue = queue
        super().__init__(pipeline, arrays)

    def tensor(self, lt: logical_tensor, array: Array | None = None) -> memory_tensor:
        """Make a tensor in memory that host and device share, with the values of an array."""
        memory = importlib.import_module("dpctl.memory")
        shared = memory.MemoryUSMShared(lt.get_mem_size(), queue=self._queue.queue)
        made = sycl_interop.make_tensor(lt, self._queue.engine, shared)
        if array is not None:
            np.copyto(made.numpy(), array)
        return made

    def prepare(self) -> None:
        """Bind nothing: each call waits for events."""

    def __call__(self) -> None:
        """Submit all partitions, each behind the event of the one before, and wait for the last."""
        done: list[Any] = []
        for step, inputs, outputs in self.operands():
            done = [
                sycl_interop.execute(step, self._queue.stream, inputs, outputs, done, wait=False)
            ]
        for event in done:
            event.wait()
