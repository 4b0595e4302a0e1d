"""Run steps while a model is compiled, to compute constants or to measure the steps' time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import _core
from .plan import PlannedStep, as_passed

Array = npt.NDArray[Any]


class Trial:
    """Steps with their own memory; inputs that are not among the constants are full of ones."""

    def __init__(
        self, engine: _core.engine, steps: Sequence[PlannedStep], constants: Mapping[int, Array]
    ) -> None:
        self._engine = engine
        self._stream = _core.stream(engine)
        self._constants = constants
        self._tensors: dict[int, _core.tensor] = {}
        self._calls = [self._call(step) for step in steps if step.runs]

    def _tensor(self, lt: _core.logical_tensor) -> _core.tensor:
        found = self._tensors.get(lt.get_id())
        if found is not None:
            return found
        array = self._constants.get(lt.get_id())
        if array is not None:
            made = _core.tensor(as_passed(lt, array), self._engine, array)
        else:
            made = _core.tensor(lt, self._engine)
            view = made.numpy()
            view[...] = np.ones((), view.dtype)
        self._tensors[lt.get_id()] = made
        return made

    def _as(self, port: _core.logical_tensor, tensor: _core.tensor) -> _core.tensor:
        """Return the tensor by the name that a partition knows; `_tensors` keeps its memory."""
        if tensor.get_logical_tensor().get_id() == port.get_id():
            return tensor
        return _core.tensor(port, self._engine, tensor.get_data_handle())

    def _call(self, step: PlannedStep) -> Callable[[], None]:
        inputs = [self._tensor(lt) for lt in step.inputs]
        outputs = [self._tensor(lt) for lt in step.outputs]
        if step.compiled is not None:
            inputs, outputs = (
                [self._as(port, t) for port, t in zip(ports, tensors, strict=True)]
                for ports, tensors in zip(step.ports, (inputs, outputs), strict=True)
            )
            return step.compiled.bind(self._stream, inputs, outputs)
        function = step.function
        assert function is not None
        arrays = [[t.numpy() for t in side] for side in (inputs, outputs)]

        def computed() -> None:
            self._stream.wait()  # SYCL runs partitions while the caller goes on
            function(*arrays)

        return computed

    def run(self) -> None:
        """Run all steps once, and wait for them."""
        for call in self._calls:
            call()
        self._stream.wait()

    def array(self, lt: _core.logical_tensor) -> Array:
        """Return a tensor's elements, as a view."""
        view: Array = self._tensors[lt.get_id()].numpy()
        return view
